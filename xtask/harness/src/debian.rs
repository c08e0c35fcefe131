//! A Debian 12 root: made once by the stock `mmdebstrap` and `mke2fs`, kept in `build/`.
use crate::{
    build, disk,
    labels::{self, Labels},
    packages, shell,
};
use anyhow::{Context, Result, bail};
use nix::unistd::{Gid, Uid};
use std::{
    collections::{BTreeSet, hash_map::DefaultHasher},
    fs,
    hash::{Hash, Hasher},
    path::{Path, PathBuf},
};

/// Name of the root for `--root`.
pub const NAME: &str = "debian";
/// Default memory of a machine with this root, in MiB.
pub const MEMORY_MIB: u32 = 1024;
/// The shell that interactive runs start.
pub const SHELL: &str = "/bin/bash";
/// The Debian release.
const SUITE: &str = "bookworm";
/// The packages of every root in addition to Debian's essential ones.
const ALWAYS: [&str; 2] = ["less", "procps"];
/// Size of the image's file system; the file is sparse.
const IMAGE: &str = "4G";

/// Returns the image with the packages `wanted`, made on first use.
///
/// # Errors
/// Fails if a package does not exist, or Debian's archive cannot be reached.
pub fn image(wanted: &[String]) -> Result<PathBuf> {
    check(wanted)?;
    let names: BTreeSet<&str> = wanted.iter().map(String::as_str).chain(ALWAYS).collect();
    let (key, labels) = (key(&names), labels::key()?);
    let image = shell::build_path(&format!("debian-{key:08x}-{labels:08x}.ext4"))?;
    if !image.is_file() {
        remove_others(key)?;
        make(&names, &image).with_context(|| {
            format!(
                "there is no {}: it is made once, with root's rights, from Debian's archive over the network; where that \
                 cannot be, copy it from where it could",
                image.display()
            )
        })?;
    }
    Ok(image)
}

/// Checks names of packages.
///
/// # Errors
/// Returns an error for a name that is invalid.
pub fn check(wanted: &[String]) -> Result<()> {
    let is_package = |name: &&String| {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
        !name.is_empty() && !name.starts_with('-') && name.bytes().all(is_allowed)
    };
    if let Some(wrong) = wanted.iter().find(|name| !is_package(name)) {
        bail!("--packages: `{wrong}` is no name of a package; write them as a,b,c");
    }
    Ok(())
}

fn make(names: &BTreeSet<&str>, image: &Path) -> Result<()> {
    packages::ensure(packages::Need::Debian)?;
    let tree = shell::build_path("debian-tree")?;
    remove(&tree)?;
    let list = names.iter().copied().collect::<Vec<&str>>().join(",");
    let mut make = packages::privileged("mmdebstrap --variant=minbase --mode=root")?;
    make.arg(format!("--include={list}")).arg(SUITE).arg(&tree);
    shell::quietly(&format!("making a Debian root with {list} (some minutes)"), &mut make)?;
    for program in build::programs()? {
        let mut install = packages::privileged("install -t")?;
        install.arg(tree.join("usr/local/bin")).arg(program);
        shell::quietly("adding our programs", &mut install)?;
    }
    set_up_init(&tree)?;
    set_up_network(&tree)?;
    set_up_labels(&tree)?;
    let partial = image.with_extension("partial");
    let mut pack = packages::privileged("/sbin/mke2fs -q -F -t ext4 -d")?;
    shell::quietly("packing the disk image", pack.arg(&tree).arg(&partial).arg(IMAGE))?;
    let owner = format!("{}:{}", Uid::effective(), Gid::effective());
    let mut give = packages::privileged("chown")?;
    shell::quietly("handing over the image", give.arg(owner).arg(&partial))?;
    disk::debugfs(&partial, &Labels::read()?.of_tree(&tree, packages::privileged("find")?)?)?;
    remove(&tree)?;
    fs::rename(&partial, image)?;
    Ok(())
}

/// Sets up sysvinit if it is among the packages: getty runs on the console, as there are no virtual consoles, and root has no
/// password, as in busybox's root.
fn set_up_init(tree: &Path) -> Result<()> {
    const GETTY: &str = "$ahvc0:2345:respawn:/sbin/getty -L hvc0 115200 linux";
    let table = tree.join("etc/inittab");
    if !table.exists() {
        return Ok(());
    }
    let mut getty = packages::privileged("sed -i")?;
    getty.args(["-e", r"s/^[1-6]:.*tty[1-6]$/#&/", "-e", GETTY]).arg(&table);
    shell::quietly("setting up init", &mut getty)?;
    let mut password = packages::privileged("sed -i")?;
    password.arg("s/^root:[^:]*:/root::/").arg(tree.join("etc/shadow"));
    shell::quietly("setting up init", &mut password)?;
    Ok(())
}

/// Sets up ifupdown if it is among the packages: `ifup -a`, which Debian's init runs, asks for the card's address by DHCP, as
/// Debian's installer sets it up.
fn set_up_network(tree: &Path) -> Result<()> {
    const INTERFACES: &str = "auto lo\niface lo inet loopback\n\nauto eth0\niface eth0 inet dhcp\n";
    let folder = tree.join("etc/network");
    if !folder.exists() {
        return Ok(());
    }
    let text = shell::build_path("debian-interfaces")?;
    fs::write(&text, INTERFACES)?;
    let mut install = packages::privileged("install -m 644")?;
    install.arg(&text).arg(folder.join("interfaces"));
    shell::quietly("setting up the network", &mut install)?;
    Ok(())
}

/// Debian's settings that a root with labels has otherwise, each if another file is there: login(1) asks for a level, and no record of
/// audit is dropped when the log's disk is full.
const ADAPTED: [(&str, &str, &str); 2] = [
    ("usr/bin/newrole", "etc/pam.d/login", "s/pam_selinux.so open$/& select_context/"),
    (
        "usr/sbin/auditd",
        "etc/audit/auditd.conf",
        "s/^disk_\\(full\\|error\\)_action = .*/disk_\\1_action = HALT/
        s/^admin_space_left_action = .*/admin_space_left_action = SYSLOG/
        s/^max_log_file_action = .*/max_log_file_action = KEEP_LOGS/",
    ),
];

/// Installs the monitor's policy and the files of it that SELinux's tools read, unless a package brought a policy, and changes the
/// settings in [`ADAPTED`]. They change nothing in a system without a monitor.
fn set_up_labels(tree: &Path) -> Result<()> {
    let place = tree.join("etc/selinux");
    if ["default", "mls"].iter().any(|policy| place.join(policy).exists()) {
        return Ok(());
    }
    let (folders, policy) = labels::sources();
    let mut folder = packages::privileged("mkdir -p")?;
    shell::quietly("setting up labels", folder.arg(&place))?;
    let mut copy = packages::privileged("cp -r --no-preserve=ownership")?;
    shell::quietly("setting up labels", copy.args(folders).arg(&place))?;
    let mut install = packages::privileged("install -m 644")?;
    install.arg(policy).arg(place.join("skerry/policy"));
    shell::quietly("setting up labels", &mut install)?;
    for (sign, file, change) in ADAPTED {
        if tree.join(sign).exists() {
            let mut adapt = packages::privileged("sed -i")?;
            shell::quietly("setting up labels", adapt.arg(change).arg(tree.join(file)))?;
        }
    }
    Ok(())
}

/// Removes the images with these packages that have the labels of another policy.
fn remove_others(key: u32) -> Result<()> {
    let start = format!("debian-{key:08x}-");
    for entry in fs::read_dir(shell::build_path("")?)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(&start) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Returns a key of the release and the set of packages.
fn key(names: &BTreeSet<&str>) -> u32 {
    let mut hasher = DefaultHasher::new();
    (SUITE, names).hash(&mut hasher);
    hasher.finish() as u32
}

fn remove(tree: &Path) -> Result<()> {
    if fs::symlink_metadata(tree).is_ok() {
        let mut remove = packages::privileged("rm -rf --one-file-system")?;
        shell::quietly("removing the tree of an earlier root", remove.arg(tree))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_is_named_by_its_packages_in_any_order() {
        let of = |names: &[&'static str]| key(&names.iter().copied().collect());
        assert_eq!(of(&["gcc", "make"]), of(&["make", "gcc", "make"]));
        assert_ne!(of(&["gcc"]), of(&["gcc", "make"]));
    }

    #[test]
    fn what_is_no_name_is_refused_before_anything_is_made() {
        for wrong in ["a b", "", "--setup-hook=true", "a;b"] {
            let said = image(&[wrong.to_owned()]).unwrap_err().to_string();
            assert!(said.contains("is no name of a package"), "{said}");
        }
    }
}

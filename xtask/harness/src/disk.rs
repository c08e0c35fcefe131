//! Disk images: a Debian busybox root packed by the stock `mke2fs`.
use crate::{
    build, debian,
    labels::{self, Labels},
    shell,
};
use anyhow::{Context, Result, bail};
use nix::unistd::{Gid, Uid};
use std::{
    fs,
    os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown, symlink},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// Returns the root image of `./x run`, made on first use.
///
/// # Errors
/// Fails if busybox or mke2fs fails.
pub fn default_root() -> Result<PathBuf> {
    let image = shell::build_path("root.ext4")?;
    let made = fs::metadata(&image).and_then(|found| found.modified()).ok();
    let is_newer = |path: &PathBuf| {
        let built = fs::metadata(path).and_then(|found| found.modified()).ok();
        made < built
    };
    let labels = shell::build_path("root.labels")?;
    let key = format!("{:08x}", labels::key()?);
    let has_labels = fs::read_to_string(&labels).is_ok_and(|made| made == key);
    if made.is_none() || !has_labels || build::programs()?.iter().any(is_newer) {
        let tree = shell::build_path("root")?;
        busybox_tree(&tree)?;
        pack(&tree, &image, &[])?;
        fs::write(labels, key)?;
    }
    Ok(image)
}

/// Returns the image to boot from. `given` is an image, a folder to pack, `debian` (with `packages`), or nothing.
///
/// # Errors
/// Those of [`default_root`]; also if `given` does not exist.
pub fn root_image(given: Option<&Path>, packages: &[String]) -> Result<PathBuf> {
    match given {
        None => default_root(),
        Some(name) if name == Path::new(debian::NAME) => debian::image(packages),
        Some(folder) if folder.is_dir() => {
            let image = shell::build_path("given-root.ext4")?;
            pack(folder, &image, &[])?;
            Ok(image)
        }
        Some(image) if image.is_file() => Ok(image.to_owned()),
        Some(missing) => {
            bail!("--root {}: no image, no folder, and not `debian`", missing.display())
        }
    }
}

/// The file system that becomes the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RootOn {
    /// The image as a whole.
    Image,
    /// The device, perhaps a partition of the image, that a parameter of the kernel names.
    NamedDevice,
}

/// Checks that `given` may be the root, before anything is built.
///
/// # Errors
/// Fails if the file does not exist, or has no ext4 file system.
pub fn check_root(given: &Path, on: RootOn) -> Result<()> {
    if given == Path::new(debian::NAME) || given.is_dir() {
        return Ok(());
    }
    if !given.is_file() {
        bail!("--root {}: no image, no folder, and not `debian`", given.display());
    }
    if on == RootOn::Image && !holds_ext4(given)? {
        bail!("--root {}: this image holds no ext4 file system", given.display());
    }
    Ok(())
}

/// Returns whether the superblock's magic number is where ext4 has it.
fn holds_ext4(image: &Path) -> Result<bool> {
    const MAGIC: [u8; 2] = [0x53, 0xef];
    const MAGIC_OFFSET: u64 = 1024 + 56;
    let file =
        fs::File::open(image).with_context(|| format!("opening --root {}", image.display()))?;
    let mut found = [0; 2];
    Ok(file.read_exact_at(&mut found, MAGIC_OFFSET).is_ok() && found == MAGIC)
}

/// Makes a root with Debian's unmodified busybox and Skerry's own programs at `tree`.
///
/// # Errors
/// Fails if the files cannot be written.
pub fn busybox_tree(tree: &Path) -> Result<()> {
    let _ = fs::remove_dir_all(tree);
    for folder in [
        "bin",
        "dev",
        "etc",
        "home/user",
        "mnt",
        "proc",
        "root",
        "run",
        "sbin",
        "sys",
        "tmp",
        "usr",
        "var/tmp",
    ] {
        fs::create_dir_all(tree.join(folder))?;
    }
    for everybodys in ["tmp", "var/tmp"] {
        fs::set_permissions(tree.join(everybodys), fs::Permissions::from_mode(0o1777))?;
    }
    fs::set_permissions(tree.join("root"), fs::Permissions::from_mode(0o700))?;
    for (from, to) in [("../bin", "usr/bin"), ("../sbin", "usr/sbin")] {
        symlink(from, tree.join(to))?;
    }
    fs::copy("/bin/busybox", tree.join("bin/busybox")).context("copying /bin/busybox")?;
    let list = Command::new("/bin/busybox")
        .arg("--list")
        .output()
        .context("asking busybox for its applets")?;
    for applet in
        String::from_utf8_lossy(&list.stdout).lines().filter(|&applet| applet != "busybox")
    {
        symlink("busybox", tree.join("bin").join(applet))?;
    }
    for program in build::programs()? {
        let name = program.file_name().context("a program has a name")?;
        fs::copy(&program, tree.join("bin").join(name))?;
    }
    // The bit is for su, passwd and login; busybox gives up root's rights in every other applet. The file must be busybox
    // itself: its shell runs applets from its own file, not from the links.
    own(&tree.join("bin/busybox"), 0o4755, (0, 0))?;
    for (name, text) in ETC {
        fs::write(tree.join("etc").join(name), text)?;
    }
    let [(shadow, shadow_owner), (home, user)] = OWNED;
    own(&tree.join(shadow), 0o640, shadow_owner)?;
    own(&tree.join(home), 0o755, user)
}

/// Gives a file its mode, and its owner if the user may; otherwise [`give_away`] does that in the image.
fn own(path: &Path, mode: u32, (user, group): (u32, u32)) -> Result<()> {
    let _ = chown(path, Some(user), Some(group));
    fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    Ok(())
}

/// Group of the password file, as on Debian.
const SHADOW_GROUP: u32 = 42;
/// User number of the ordinary user.
const USER: u32 = 1000;
/// The files that are not root's: user and group.
const OWNED: [(&str, (u32, u32)); 2] =
    [("etc/shadow", (0, SHADOW_GROUP)), ("home/user", (USER, USER))];

/// Users and groups are Debian's; root and `user` have no password.
const ETC: [(&str, &str); 8] = [
    (
        "passwd",
        "root:x:0:0:root:/root:/bin/sh\n\
         daemon:x:1:1:daemon:/usr/sbin:/bin/false\n\
         bin:x:2:2:bin:/bin:/bin/false\n\
         sys:x:3:3:sys:/dev:/bin/false\n\
         mail:x:8:8:mail:/var/mail:/bin/false\n\
         www-data:x:33:33:www-data:/var/www:/bin/false\n\
         nobody:x:65534:65534:nobody:/nonexistent:/bin/false\n\
         user:x:1000:1000:user:/home/user:/bin/sh\n",
    ),
    (
        "group",
        "root:x:0:\ndaemon:x:1:\nbin:x:2:\nsys:x:3:\nadm:x:4:\ntty:x:5:\ndisk:x:6:\nmail:x:8:\n\
         dialout:x:20:user\nwww-data:x:33:\nshadow:x:42:\nutmp:x:43:\nstaff:x:50:\nusers:x:100:user\n\
         user:x:1000:\nnogroup:x:65534:\n",
    ),
    (
        "shadow",
        "root::20000:0:99999:7:::\ndaemon:*:20000:0:99999:7:::\nbin:*:20000:0:99999:7:::\n\
         sys:*:20000:0:99999:7:::\nmail:*:20000:0:99999:7:::\nwww-data:*:20000:0:99999:7:::\n\
         nobody:*:20000:0:99999:7:::\nuser::20000:0:99999:7:::\n",
    ),
    ("hostname", "skerry\n"),
    ("hosts", "127.0.0.1 localhost\n"),
    ("shells", "/bin/sh\n"),
    ("profile", "export PATH=/bin:/sbin PS1='skerry:\\w\\$ '\ncd \"$HOME\"\n"),
    ("motd", "Skerry. `poweroff` or Ctrl-A X leaves.\n"),
];

/// Packs `tree` into a fresh ext4 image by the stock `mke2fs -t ext4`, owned by root and with the labels of a root.
///
/// # Errors
/// Fails if mke2fs or debugfs fails.
pub fn pack(tree: &Path, image: &Path, options: &[&str]) -> Result<()> {
    let bytes = tree_bytes(tree)?;
    // Room to write in, and for the journal and tables that mke2fs makes by default.
    let mebibytes = (bytes * 5 / 4).div_ceil(1 << 20) + 64;
    let temporary = image.with_extension("partial");
    let _ = fs::remove_file(&temporary);
    let mut command = Command::new("/sbin/mke2fs");
    command.args(["-q", "-F", "-t", "ext4", "-E", "root_owner=0:0"]).args(options);
    command.arg("-d").arg(tree).arg(&temporary).arg(format!("{mebibytes}M"));
    shell::quietly("packing the disk image", &mut command)?;
    let owners = if Uid::effective().is_root() { String::new() } else { give_away(tree)? };
    debugfs(&temporary, &(owners + &Labels::read()?.of_tree(tree, Command::new("find"))?))?;
    fs::rename(&temporary, image)?;
    Ok(())
}

/// The mode in which `e2fsck` checks an image.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Fsck {
    /// `-fn`: it must find no fault.
    Look,
    /// `-p`: it may correct, but must not want to ask.
    Mend,
}

/// Runs the stock `e2fsck`. The inner error is its output if it found more than `how` allows.
///
/// # Errors
/// Fails if `e2fsck` cannot be started.
pub fn fsck(image: &Path, how: Fsck) -> Result<Result<(), String>> {
    /// Exit status of e2fsck after a correction.
    const CORRECTED: i32 = 1;
    let (argument, highest) = match how {
        Fsck::Look => ("-fn", 0),
        Fsck::Mend => ("-p", CORRECTED),
    };
    let mut command = Command::new("/sbin/e2fsck");
    command.arg(argument).arg(image).stdin(Stdio::null());
    let output = command.output().context("starting e2fsck")?;
    if output.status.code().is_some_and(|code| code <= highest) {
        return Ok(Ok(()));
    }
    let said = String::from_utf8_lossy(&output.stdout);
    Ok(Err(format!("e2fsck {argument}: {}\n{said}", output.status)))
}

/// Calls `visit` for everything below `tree`, by its path there.
fn walk(
    tree: &Path,
    folder: &Path,
    visit: &mut dyn FnMut(&Path, &fs::Metadata) -> Result<()>,
) -> Result<()> {
    let here = tree.join(folder);
    for entry in fs::read_dir(&here).with_context(|| format!("reading {}", here.display()))? {
        let entry = entry?;
        let (path, metadata) = (folder.join(entry.file_name()), entry.metadata()?);
        visit(&path, &metadata)?;
        if metadata.is_dir() {
            walk(tree, &path, visit)?;
        }
    }
    Ok(())
}

fn tree_bytes(tree: &Path) -> Result<u64> {
    let mut bytes = 0;
    walk(tree, Path::new(""), &mut |_, metadata| {
        bytes += 4096 + if metadata.is_file() { metadata.len() } else { 0 };
        Ok(())
    })?;
    Ok(bytes)
}

/// Returns the commands for debugfs that set owners in the image that mke2fs made of `tree`, because an ordinary user cannot
/// give files away. Files of the user become root's, and those of [`OWNED`] get their owners.
fn give_away(tree: &Path) -> Result<String> {
    let own = (Uid::effective().as_raw(), Gid::effective().as_raw());
    let mut commands = String::new();
    walk(tree, Path::new(""), &mut |path, metadata| {
        let to_root = |id: u32, own: u32| if id == own { 0 } else { id };
        let others = OWNED.iter().find(|(name, _)| path == Path::new(name));
        let (user, group) = others.map_or(
            (to_root(metadata.uid(), own.0), to_root(metadata.gid(), own.1)),
            |(_, owner)| *owner,
        );
        let path = path.display();
        commands += &format!("sif \"/{path}\" uid {user}\nsif \"/{path}\" gid {group}\n");
        Ok(())
    })?;
    Ok(commands)
}

/// Puts a tree at `place` of an image, by the stock `debugfs`: root's, with the modes it has.
///
/// # Errors
/// Fails if debugfs complains.
pub fn add(tree: &Path, place: &Path, image: &Path) -> Result<()> {
    let mut commands = format!("mkdir \"{}\"\n", place.display());
    walk(tree, Path::new(""), &mut |path, metadata| {
        let (from, to) = (tree.join(path), place.join(path));
        if metadata.is_dir() {
            commands += &format!("mkdir \"{}\"\n", to.display());
        } else if metadata.is_symlink() {
            let target = fs::read_link(&from)?;
            commands += &format!("symlink \"{}\" \"{}\"\n", to.display(), target.display());
        } else {
            // It writes only to files of its present directory.
            let (folder, name) =
                (to.parent().unwrap_or(place), path.file_name().unwrap_or_default());
            commands += &format!("cd \"{}\"\n", folder.display());
            commands += &format!("write \"{}\" \"{}\"\n", from.display(), name.display());
        }
        Ok(())
    })?;
    debugfs(image, &commands)
}

/// Runs `commands` on an image by the stock `debugfs`.
///
/// # Errors
/// Fails if debugfs complains of any command.
pub fn debugfs(image: &Path, commands: &str) -> Result<()> {
    let script = image.with_extension("debugfs");
    fs::write(&script, commands)?;
    let mut command = Command::new("/sbin/debugfs");
    command.arg("-w").arg("-f").arg(&script).arg(image);
    let output = command.output().context("starting debugfs")?;
    fs::remove_file(&script)?;
    // Its status does not report errors; the first line is its version.
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() || said.lines().count() > 1 {
        bail!("debugfs: {}\n{said}", output.status);
    }
    Ok(())
}

/// Returns the labels (`security.selinux`) of files of an image, in the order of `paths`; empty for a file without one.
///
/// # Errors
/// Fails if debugfs does not start.
pub fn labels(image: &Path, paths: &[String]) -> Result<Vec<String>> {
    let script = image.with_extension("labels");
    let commands = paths.iter().map(|path| format!("ea_get \"{path}\" security.selinux\n"));
    fs::write(&script, commands.collect::<String>())?;
    let output = Command::new("/sbin/debugfs").arg("-f").arg(&script).arg(image).output();
    fs::remove_file(&script)?;
    let said = String::from_utf8_lossy(&output.context("starting debugfs")?.stdout).into_owned();
    // Each command is repeated, and its answer follows: `security.selinux (25) = "text\\000"`.
    let answers = said.split("debugfs: ea_get ").skip(1);
    let label = |answer: &str| {
        let value =
            answer.split_once("security.selinux (").and_then(|(_, rest)| rest.split('"').nth(1));
        value.unwrap_or_default().trim_end_matches("\\000").to_owned()
    };
    Ok(answers.map(label).collect())
}

/// Copies a folder of an image, if it is there, to a new folder of the host, and returns that. Parts of files that were allocated and not
/// written are zero, as e2fsprogs reads them.
///
/// # Errors
/// Fails if debugfs does not start, or a folder cannot be made.
pub fn extracted(image: &Path, folder: &Path) -> Result<PathBuf> {
    let tree = image.with_extension("tree");
    let _ = fs::remove_dir_all(&tree);
    fs::create_dir(&tree)?;
    let request = format!("rdump \"{}\" \"{}\"", folder.display(), tree.display());
    let mut debugfs = Command::new("/sbin/debugfs");
    debugfs.arg("-R").arg(request).arg(image).output().context("starting debugfs")?;
    Ok(tree)
}

/// A root with the campaigns' programs in /abi.
///
/// # Errors
/// As [`pack`]; also fails if the programs do not build.
pub fn programs_image() -> Result<PathBuf> {
    let tree = shell::build_path("campaign-root")?;
    programs_tree(&tree)?;
    let image = shell::build_path("campaign.ext4")?;
    pack(&tree, &image, &[])?;
    Ok(image)
}

/// The tree of [`programs_image`].
///
/// # Errors
/// Fails if the programs do not build.
pub fn programs_tree(tree: &Path) -> Result<()> {
    busybox_tree(tree)?;
    fs::create_dir(tree.join("abi"))?;
    for binary in build::abi_programs()? {
        fs::copy(
            &binary,
            tree.join("abi").join(binary.file_name().context("a program has a name")?),
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_a_root_is_refused_before_anything_is_built() {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("image");
        let refused = || check_root(&image, RootOn::Image).unwrap_err().to_string();
        assert!(refused().contains("no image, no folder"));
        for bytes in [10, 4096] {
            fs::write(&image, vec![0; bytes]).unwrap();
            assert!(refused().contains("no ext4"));
        }
        assert!(check_root(&image, RootOn::NamedDevice).is_ok(), "a partition may be the root");
        let mut bytes = vec![0; 4096];
        bytes[1080..1082].copy_from_slice(&[0x53, 0xef]);
        fs::write(&image, bytes).unwrap();
        for given in [&image, folder.path(), Path::new("debian")] {
            assert!(check_root(given, RootOn::Image).is_ok());
        }
    }
}

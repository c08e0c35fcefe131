//! Disk images: a Debian busybox root packed by the stock `mke2fs`.
use crate::shell;
use anyhow::{Context, Result, bail};
use std::{
    fs,
    os::unix::fs::{PermissionsExt, chown, symlink},
    path::{Path, PathBuf},
    process::Command,
};

/// The root image of `./x run`, made on first use.
///
/// # Errors
/// Where busybox or mke2fs fails.
pub fn default_root() -> Result<PathBuf> {
    let image = shell::build_path("root.ext4")?;
    if !image.exists() {
        let tree = shell::build_path("root")?;
        busybox_tree(&tree)?;
        pack(&tree, &image, &[])?;
    }
    Ok(image)
}

/// The image to boot from: `given` is an image, a folder to pack, or nothing.
///
/// # Errors
/// As [`default_root`]; or `given` does not exist.
pub fn root_image(given: Option<&Path>) -> Result<PathBuf> {
    match given {
        None => default_root(),
        Some(folder) if folder.is_dir() => {
            let image = shell::build_path("given-root.ext4")?;
            pack(folder, &image, &[])?;
            Ok(image)
        }
        Some(image) if image.is_file() => Ok(image.to_owned()),
        Some(missing) => bail!("--root {}: neither an image nor a folder", missing.display()),
    }
}

/// Lays a root with Debian's unmodified busybox at `tree`.
///
/// # Errors
/// Where the files cannot be written.
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
        "var",
    ] {
        fs::create_dir_all(tree.join(folder))?;
    }
    fs::set_permissions(tree.join("tmp"), fs::Permissions::from_mode(0o1777))?;
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
    // For su, passwd and login; busybox gives root's rights up in every other applet. It must be
    // busybox itself: its shell runs applets from its own file, not from the links.
    own(&tree.join("bin/busybox"), 0o4755, (0, 0))?;
    for (name, text) in ETC {
        fs::write(tree.join("etc").join(name), text)?;
    }
    own(&tree.join("etc/shadow"), 0o640, (0, SHADOW_GROUP))?;
    own(&tree.join("home/user"), 0o755, (USER, USER))
}

/// Gives a file its mode, and its owner where we may: an image packed by an ordinary user is that
/// user's throughout.
fn own(path: &Path, mode: u32, (user, group): (u32, u32)) -> Result<()> {
    let _ = chown(path, Some(user), Some(group));
    fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    Ok(())
}

/// Group of the password file, as on Debian.
const SHADOW_GROUP: u32 = 42;
/// The ordinary user.
const USER: u32 = 1000;

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

/// Packs `tree` into a fresh ext4 image by the stock `mke2fs -t ext4`, owned by root.
///
/// # Errors
/// Where mke2fs fails.
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
    fs::rename(&temporary, image)?;
    Ok(())
}

fn tree_bytes(tree: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(tree).with_context(|| format!("reading {}", tree.display()))? {
        let entry = entry?;
        let kind = entry.file_type()?;
        bytes += 4096;
        if kind.is_dir() {
            bytes += tree_bytes(&entry.path())?;
        } else if kind.is_file() {
            bytes += entry.metadata()?.len();
        }
    }
    Ok(bytes)
}

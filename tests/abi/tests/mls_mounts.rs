//! The mount options of labels. They are SELinux's; a system without a policy refuses them, as Linux without SELinux does.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::{
    mounting::{mounting, umount},
    *,
};
use std::{ffi::CString, fs, path::Path};

/// Returns whether a policy is enforced: mounts show that they have labels.
fn is_enforced() -> bool {
    fs::read_to_string("/proc/self/mounts").unwrap().contains("seclabel")
}

/// Mounts a tmpfs with options.
fn mount_with(at: &Path, options: &str) -> Result<i64, i32> {
    let (at, options) = (c(at), CString::new(options).unwrap());
    let kind = c"tmpfs".as_ptr();
    check(unsafe { libc::mount(kind, at.as_ptr(), kind, 0, options.as_ptr().cast()) })
}

/// Returns the context of a file, without the NUL at its end.
fn context(path: &Path) -> String {
    let mut value = [0u8; 256];
    let name = c"security.selinux".as_ptr();
    let length = check(unsafe {
        libc::getxattr(c(path).as_ptr(), name, value.as_mut_ptr().cast(), value.len()) as i64
    });
    let text = String::from_utf8(value[..length.unwrap() as usize].to_vec()).unwrap();
    text.strip_suffix('\0').unwrap().to_owned()
}

#[test]
fn mounts_of_file_systems_that_the_policy_labels_do_not_say_seclabel() {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    for line in mounts.lines() {
        let mut words = line.split(' ').skip(2);
        let (kind, options) = (words.next().unwrap(), words.next().unwrap());
        let is_shown = options.split(',').any(|option| option == "seclabel");
        match kind {
            "proc" | "selinuxfs" => assert!(!is_shown, "{line}"),
            "tmpfs" | "ext4" => assert_eq!(is_shown, is_enforced(), "{line}"),
            _ => {}
        }
    }
}

#[test]
fn a_mount_gives_labels() {
    const SECRET: &str = "system_u:object_r:tmp_t:s2:c0,c5";
    mounting(|scratch| {
        let at = scratch.path("m");
        let options = |name: &str, text: &str| format!("size=1m,{name}=\"{text}\"");
        if !is_enforced() {
            assert_eq!(mount_with(&at, &options("context", SECRET)), Err(libc::EINVAL));
            return;
        }
        assert_eq!(mount_with(&at, &options("context", SECRET)), Ok(0));
        fs::write(at.join("f"), "x").unwrap();
        assert_eq!([context(&at), context(&at.join("f"))], [SECRET, SECRET]);
        let other = c"system_u:object_r:tmp_t:s0";
        let (name, value) = (c"security.selinux".as_ptr(), other.as_ptr().cast());
        let relabel = |path: &Path| {
            check(unsafe { libc::setxattr(c(path).as_ptr(), name, value, 27, 0) } as i64)
        };
        assert_eq!(relabel(&at.join("f")), Err(libc::EOPNOTSUPP), "the mount gives the label");
        assert_eq!(relabel(Path::new("/proc/self/status")), Err(libc::EOPNOTSUPP));
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        let shown = format!("{} tmpfs rw,context=\"{SECRET}\",relatime", at.display());
        assert!(mounts.contains(&shown), "{mounts}");
        assert_eq!(umount(&at, 0), Ok(0));
        assert_eq!(mount_with(&at, &options("rootcontext", SECRET)), Ok(0));
        assert_eq!(context(&at), SECRET);
        assert_eq!(umount(&at, 0), Ok(0));
        for wrong in ["a:b", "system_u:object_r:tmp_t:s16", "system_u:object_r:none_t:s0", ""] {
            assert_eq!(mount_with(&at, &options("context", wrong)), Err(libc::EINVAL), "{wrong}");
        }
        let twice = format!("context=\"{SECRET}\",context=\"{SECRET}\"");
        assert_eq!(mount_with(&at, &twice), Err(libc::EINVAL));
        let both = format!("context=\"{SECRET}\",defcontext=\"{SECRET}\"");
        assert_eq!(mount_with(&at, &both), Err(libc::EINVAL));
    });
}

//! The labels and the attributes of files.
use abi::{c, check};
use std::{ffi::CString, path::Path};

const ROOM: usize = 8192;

fn value(path: &CString, name: &CString) -> Vec<u8> {
    let mut bytes = vec![0; ROOM];
    // SAFETY: the strings end with NUL, and there is room.
    let length = check(unsafe {
        libc::lgetxattr(path.as_ptr(), name.as_ptr(), bytes.as_mut_ptr().cast(), bytes.len())
    } as i64);
    bytes.truncate(length.unwrap_or(0) as usize);
    bytes
}

/// Returns the context of a file.
pub fn label_of(path: &Path) -> String {
    let text = value(&c(path), &c("security.selinux"));
    String::from_utf8_lossy(text.strip_suffix(b"\0").unwrap_or(&text)).into_owned()
}

/// Returns the names and the values of a file's attributes, which may hold tokens.
pub fn attributes_of(path: &Path) -> Vec<Vec<u8>> {
    let (path, mut names) = (c(path), vec![0u8; ROOM]);
    // SAFETY: the string ends with NUL, and there is room.
    let length =
        check(unsafe { libc::llistxattr(path.as_ptr(), names.as_mut_ptr().cast(), names.len()) }
            as i64);
    names.truncate(length.unwrap_or(0) as usize);
    let of_each = names.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let values = of_each.filter_map(|name| CString::new(name).ok()).map(|name| value(&path, &name));
    let mut found: Vec<Vec<u8>> = values.collect();
    found.push(names);
    found
}

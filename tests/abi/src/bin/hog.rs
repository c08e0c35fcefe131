//! Takes all memory with a file without a name, a mebibyte at a time, and prints the error that stopped
//! it.
use std::{fs::File, io::Write, os::fd::FromRawFd};

const PIECE: usize = 1 << 20;

fn main() {
    // SAFETY: a name that ends.
    let fd = unsafe { libc::memfd_create(c"hog".as_ptr(), libc::MFD_CLOEXEC) };
    assert!(fd >= 0, "memfd_create: {}", std::io::Error::last_os_error());
    // SAFETY: just made, and nobody else's.
    let mut file = unsafe { File::from_raw_fd(fd) };
    let error = loop {
        if let Err(error) = file.write_all(&[1; PIECE]) {
            break error;
        }
    };
    println!("{error}");
}

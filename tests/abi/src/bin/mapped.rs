//! `mapped FILE PAGE [get|set]`: reads or writes the first byte of a page through a shared mapping, and
//! prints the byte or the result of `msync`.
use std::{fs::OpenOptions, os::fd::AsRawFd};

const PAGE: usize = 4096;

fn main() {
    let word = |at: usize| std::env::args().nth(at).expect("mapped FILE PAGE get|set");
    let file = OpenOptions::new().read(true).write(true).open(word(1)).expect("a file");
    let offset = word(2).parse::<i64>().expect("a page") * PAGE as i64;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping, placed where nothing is.
    let address = unsafe {
        let (shared, fd) = (libc::MAP_SHARED, file.as_raw_fd());
        libc::mmap(std::ptr::null_mut(), PAGE, protection, shared, fd, offset)
    };
    assert!(address != libc::MAP_FAILED, "mmap: {}", std::io::Error::last_os_error());
    let byte = address.cast::<u8>();
    if word(3) == "get" {
        // SAFETY: within the mapping; where the page cannot be had the process ends by SIGBUS.
        println!("{}", unsafe { byte.read_volatile() });
        return;
    }
    // SAFETY: as above, and nothing else refers to it.
    unsafe { byte.write_volatile(b'x') };
    // SAFETY: the mapping as it was made.
    let result = unsafe { libc::msync(address, PAGE, libc::MS_SYNC) };
    let error = std::io::Error::last_os_error().raw_os_error();
    println!("{}", if result == 0 { 0 } else { error.unwrap_or(0) });
}

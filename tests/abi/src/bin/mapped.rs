//! `mapped FILE PAGE get|set`: reads or writes the first byte of a page through a shared mapping, and
//! says it or what `msync` said. `mapped FILE PAGES sum|fill`: reads or writes the first bytes of so many pages,
//! twice, and says the sum of what was read, or 0.
use std::{
    fs::{File, OpenOptions},
    os::fd::AsRawFd,
};

const PAGE: usize = 4096;

/// Goes through the pages of a mapping of `pages` pages of `file` twice.
fn walk(file: &File, pages: usize, is_filling: bool) -> u64 {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping, placed where nothing is.
    let address = unsafe {
        let (shared, fd) = (libc::MAP_SHARED, file.as_raw_fd());
        libc::mmap(std::ptr::null_mut(), pages * PAGE, protection, shared, fd, 0)
    };
    assert!(address != libc::MAP_FAILED, "mmap: {}", std::io::Error::last_os_error());
    let mut sum = 0;
    for page in (0..pages).chain(0..pages) {
        let byte = address.cast::<u8>().wrapping_add(page * PAGE);
        if is_filling {
            // SAFETY: within the mapping, and nothing else refers to it.
            unsafe { byte.write_volatile(page as u8) };
        } else {
            // SAFETY: within the mapping.
            sum += u64::from(unsafe { byte.read_volatile() });
        }
    }
    sum
}

fn main() {
    let word = |at: usize| std::env::args().nth(at).expect("mapped FILE PAGE get|set");
    let file = OpenOptions::new().read(true).write(true).open(word(1)).expect("a file");
    if let way @ ("sum" | "fill") = word(3).as_str() {
        let pages = word(2).parse().expect("how many pages");
        return println!("{}", walk(&file, pages, way == "fill"));
    }
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

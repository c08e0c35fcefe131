//! Instructions that calls take, the kernel's and the program's, by the time stamp counter of a machine whose clock counts instructions.
//!
//! An interrupt in the midst of a call adds its own instructions, and the moment of an interrupt depends on all that ran before. So
//! the count of a call is the least of many. Calls that make objects of the kernel are left out: the kernel's heap is shared
//! by all levels (`docs/mls-channels.md`).
use abi::{close, must, open, read, write};
use std::{arch::x86_64::_rdtsc, path::Path, ptr};

/// Times that a call is measured.
const TIMES: u32 = 40;

fn least(mut call: impl FnMut()) -> u64 {
    let one = |call: &mut dyn FnMut()| {
        // SAFETY: the instruction reads a counter.
        let start = unsafe { _rdtsc() };
        call();
        // SAFETY: as above.
        unsafe { _rdtsc() }.wrapping_sub(start)
    };
    (0..TIMES).map(|_| one(&mut call)).min().unwrap_or(0)
}

/// Measures calls that work in the folders `memory` and `disk`.
pub fn all(memory: &Path, disk: &Path) -> Vec<(String, u64)> {
    let mut found = Vec::new();
    let mut note = |name: &str, count: u64| found.push((name.to_owned(), count));
    note(
        "getppid",
        least(|| {
            // SAFETY: takes no pointers.
            must(unsafe { libc::getppid() });
        }),
    );
    let mut ends = [0; 2];
    // SAFETY: there is room for two descriptors.
    must(unsafe { libc::pipe(ends.as_mut_ptr()) });
    let through = |ends: [i32; 2]| {
        write(ends[1], b"x").expect("writing");
        read(ends[0], 1).expect("reading");
    };
    note("pipe", least(|| through(ends)));
    ends.into_iter().for_each(close);
    let kind = libc::SOCK_STREAM;
    // SAFETY: as above.
    must(unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) });
    note("socket", least(|| through(ends)));
    ends.into_iter().for_each(close);
    note("page", least(map_a_page));
    found.extend(of_files("tmpfs", memory));
    found.extend(of_files("ext4", disk));
    found
}

/// Calls on the file `read` of a folder.
fn of_files(place: &str, folder: &Path) -> Vec<(String, u64)> {
    let mut found = Vec::new();
    let mut note = |name: &str, count: u64| found.push((format!("{name} {place}"), count));

    let path = folder.join("read");
    note(
        "stat",
        least(|| {
            abi::stat(&path).expect("the file");
        }),
    );
    let missing = folder.join("missing");
    note(
        "stat missing",
        least(|| {
            abi::stat(&missing).expect_err("no file");
        }),
    );
    note(
        "open",
        least(|| {
            close(open(&path, libc::O_RDONLY, 0).expect("opening"));
        }),
    );
    let file = open(&path, libc::O_RDWR, 0).expect("opening");
    note(
        "read",
        least(|| {
            // SAFETY: takes no pointers.
            must(unsafe { libc::lseek(file, 0, libc::SEEK_SET) });
            drop(read(file, 4096));
        }),
    );
    close(file);
    found
}

/// Maps, touches and unmaps a page.
fn map_a_page() {
    let (protection, flags) = (libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a place of the system's choice.
    let page = unsafe { libc::mmap(ptr::null_mut(), 4096, protection, flags, -1, 0) };
    assert_ne!(page, libc::MAP_FAILED);
    // SAFETY: the page can be written.
    unsafe { page.cast::<u8>().write_volatile(1) };
    // SAFETY: nothing refers to the page.
    must(unsafe { libc::munmap(page, 4096) });
}

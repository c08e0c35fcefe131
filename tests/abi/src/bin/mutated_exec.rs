//! Mutated ELF files through execve: `mutated_exec COUNT SEED [PROGRAM]`. Each is a copy of a real
//! program with changed bytes in its headers. It may run, die or be refused, but no other process may
//! suffer.
use abi::{Ended, c, fork, wait};
use std::{fs, os::unix::fs::PermissionsExt};

fn next(seed: &mut u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed
}

fn main() {
    let number = |at: usize, default: u64| {
        std::env::args().nth(at).and_then(|word| word.parse().ok()).unwrap_or(default)
    };
    let (count, mut seed) = (number(1, 1000), number(2, 1) | 1);
    let program = std::env::args().nth(3).unwrap_or_else(|| "/bin/busybox".to_owned());
    let whole = fs::read(&program).expect("reading the program to mutate");
    let path = "/tmp/mutated";
    let (mut refused, mut died, mut ran) = (0, 0, 0);
    for _ in 0..count {
        let mut image = whole.clone();
        for _ in 0..1 + next(&mut seed) % 6 {
            // The header and the program headers: 64 bytes and 56 each.
            let at = (next(&mut seed) % 700) as usize % image.len();
            image[at] = match next(&mut seed) % 4 {
                0 => 0,
                1 => 0xff,
                2 => image[at] ^ (1 << (next(&mut seed) % 8)),
                _ => next(&mut seed) as u8,
            };
        }
        if next(&mut seed).is_multiple_of(5) {
            image.truncate((next(&mut seed) % whole.len() as u64) as usize);
        }
        let _ = fs::remove_file(path);
        fs::write(path, &image).expect("writing the mutated program");
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("making it executable");
        let child = fork(|| {
            let words = [c(path), c("true")];
            let pointers = [words[0].as_ptr(), words[1].as_ptr(), std::ptr::null()];
            let quiet = abi::open("/dev/null", libc::O_RDWR, 0).unwrap_or(0);
            // SAFETY: a plain number.
            unsafe { libc::alarm(5) };
            for fd in 0..3 {
                // SAFETY: plain numbers.
                unsafe { libc::dup2(quiet, fd) };
            }
            // SAFETY: NUL-terminated words, and a null pointer after the last.
            unsafe { libc::execv(words[0].as_ptr(), pointers.as_ptr()) };
            // SAFETY: a plain number.
            unsafe { libc::_exit(99) }
        });
        match wait(child) {
            Ended::Exited(99) => refused += 1,
            Ended::Exited(_) => ran += 1,
            Ended::Signalled(_) => died += 1,
        }
    }
    println!("{count} files: {refused} refused, {died} died, {ran} ran");
}

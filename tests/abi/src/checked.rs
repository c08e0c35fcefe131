//! Files written and read back with checksums, by programs that watch a component being harmed.
use std::{
    fs::File,
    hash::{DefaultHasher, Hasher},
    io::{self, Read, Write},
    os::fd::AsRawFd,
    path::Path,
};

/// A generator of random numbers, xorshift64*.
pub struct Random(u64);

impl Random {
    /// Makes a generator with this seed.
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }
    /// Returns the next number.
    #[allow(clippy::should_implement_trait, reason = "it never ends")]
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
    /// Returns the next number below `most`.
    pub fn below(&mut self, most: u64) -> u64 {
        self.next() % most
    }
}

fn checksum(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

/// Makes the cache drop the pages of `file`.
pub fn forget(file: &File) {
    // SAFETY: advice about a file of ours.
    unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
}

/// Writes a file of less than `bytes_max` bytes, makes the cache drop its pages, and reads it back.
///
/// # Errors
/// The error of a call, or an error that says that the bytes are wrong.
pub fn check_file(path: &Path, random: &mut Random, bytes_max: u64) -> io::Result<()> {
    let length = random.below(bytes_max) as usize;
    let bytes: Vec<u8> =
        std::iter::repeat_with(|| random.next().to_le_bytes()).flatten().take(length).collect();
    let mut file = File::create(path)?;
    file.write_all(&bytes)?;
    file.sync_all()?;
    forget(&file);
    let mut back = Vec::new();
    File::open(path)?.read_to_end(&mut back)?;
    if checksum(&back) == checksum(&bytes) { Ok(()) } else { Err(io::Error::other("wrong bytes")) }
}

/// Returns the processor time of the calling thread, in nanoseconds.
pub fn thread_cpu_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is written, and is there.
    let done = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    assert_eq!(done, 0, "the clock of this thread");
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

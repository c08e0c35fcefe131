//! `fsx FILE COUNT SEED`: random operations on one file, checked against a model in memory after the
//! idea of Apple's fsx: write, read, both by mapping, truncate, allocate, punch, zero, collapse, insert,
//! fsync, forget the cache, close and open.
use std::{
    fs::{File, OpenOptions},
    io,
    os::{fd::AsRawFd, unix::fs::FileExt},
    process::ExitCode,
};

/// Greatest length of the file.
const LONGEST: usize = 512 * 1024;
/// Greatest length of one operation.
const MOST: usize = 64 * 1024;
/// Unit in which collapse and insert work: a block.
const BLOCK: usize = 4096;
const PAGE: usize = 4096;

struct Exerciser {
    path: String,
    file: File,
    model: Vec<u8>,
    state: u64,
    /// Number of operations that the file system refused.
    refused: u64,
}

fn open(path: &str) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().collect();
    let [_, path, count, seed] = &words[..] else {
        eprintln!("usage: fsx FILE COUNT SEED");
        return ExitCode::from(2);
    };
    let (Ok(count), Ok(seed)) = (count.parse::<u64>(), seed.parse::<u64>()) else {
        eprintln!("fsx: COUNT and SEED are numbers");
        return ExitCode::from(2);
    };
    let _ = std::fs::remove_file(path);
    let file = open(path).expect("making the file");
    let mut exerciser =
        Exerciser { path: path.clone(), file, model: Vec::new(), state: seed | 1, refused: 0 };
    for number in 0..count {
        if let Err(why) = exerciser.operate() {
            eprintln!("fsx: operation {number} of seed {seed}: {why}");
            return ExitCode::FAILURE;
        }
    }
    println!("{count} operations, {} refused as unsupported", exerciser.refused);
    ExitCode::SUCCESS
}

impl Exerciser {
    fn below(&mut self, limit: usize) -> usize {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state >> 13) as usize % limit.max(1)
    }

    /// Returns a non-empty range that starts within the file or at its end.
    fn range(&mut self) -> (usize, usize) {
        let start = self.below(self.model.len() + 1).min(LONGEST - 1);
        let most = if self.below(4) == 0 { MOST } else { 3000 };
        (start, (1 + self.below(most)).min(LONGEST - start))
    }

    fn operate(&mut self) -> Result<(), String> {
        let kind = self.below(22);
        match kind {
            0..=4 => self.write(),
            5..=8 => self.read(),
            9..=10 => self.write_mapped(),
            11..=12 => self.read_mapped(),
            13 => self.truncate(),
            14 => self.allocate(0),
            15 => self.allocate(libc::FALLOC_FL_KEEP_SIZE | libc::FALLOC_FL_PUNCH_HOLE),
            16 => self.allocate(libc::FALLOC_FL_ZERO_RANGE),
            17 => self.allocate(libc::FALLOC_FL_COLLAPSE_RANGE),
            18 => self.allocate(libc::FALLOC_FL_INSERT_RANGE),
            19 => self.file.sync_all().map_err(|error| format!("fsync: {error}")),
            20 => self.forget(),
            _ => self.reopen(),
        }
        .and_then(|()| self.check_length())
    }

    fn check_length(&self) -> Result<(), String> {
        let length = self.file.metadata().map_err(|error| format!("fstat: {error}"))?.len();
        if length == self.model.len() as u64 {
            return Ok(());
        }
        Err(format!("{length} bytes long, should be {}", self.model.len()))
    }

    fn compare(&self, what: &str, start: usize, found: &[u8]) -> Result<(), String> {
        let expected = &self.model[start..start + found.len()];
        match found.iter().zip(expected).position(|(found, expected)| found != expected) {
            None => Ok(()),
            Some(at) => Err(format!(
                "{what} of {} bytes at {start}: byte {} is {:#x}, should be {:#x}",
                found.len(),
                start + at,
                found[at],
                expected[at]
            )),
        }
    }

    fn fill(&mut self, length: usize) -> Vec<u8> {
        let first = self.below(256);
        (0..length).map(|at| (first + at * 7) as u8 | 1).collect()
    }

    fn write(&mut self) -> Result<(), String> {
        let (mut start, length) = self.range();
        if self.below(10) == 0 {
            // The range begins past the end, which leaves a hole.
            start = (start + self.below(MOST)).min(LONGEST - length);
        }
        let bytes = self.fill(length);
        self.file.write_all_at(&bytes, start as u64).map_err(|error| format!("write: {error}"))?;
        self.model.resize(self.model.len().max(start + length), 0);
        self.model[start..start + length].copy_from_slice(&bytes);
        Ok(())
    }

    fn read(&mut self) -> Result<(), String> {
        let (start, length) = self.range();
        let mut bytes = vec![0xee; length];
        let count = self
            .file
            .read_at(&mut bytes, start as u64)
            .map_err(|error| format!("read: {error}"))?;
        if count != length.min(self.model.len() - start) {
            return Err(format!("read of {length} bytes at {start} brought {count}"));
        }
        self.compare("read", start, &bytes[..count])
    }

    /// Maps the pages of a range within the file and passes them on.
    fn mapped(
        &mut self,
        start: usize,
        length: usize,
        then: impl FnOnce(&mut [u8]) -> Result<(), String>,
    ) -> Result<(), String> {
        let first = start / PAGE * PAGE;
        let bytes = start + length - first;
        // SAFETY: a new place of the kernel's choice.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                self.file.as_raw_fd(),
                first as i64,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(format!("mmap: {}", io::Error::last_os_error()));
        }
        // SAFETY: just mapped so long, inside the file, which nobody else changes meanwhile.
        let memory = unsafe { std::slice::from_raw_parts_mut(address.cast::<u8>(), bytes) };
        let result = then(&mut memory[start - first..]);
        // SAFETY: the mapping made above; the slice is not used again.
        unsafe { libc::munmap(address, bytes) };
        result
    }

    fn range_inside(&mut self) -> Option<(usize, usize)> {
        let (start, length) = self.range();
        let length = length.min(self.model.len() - start);
        (length > 0).then_some((start, length))
    }

    fn write_mapped(&mut self) -> Result<(), String> {
        let Some((start, length)) = self.range_inside() else { return Ok(()) };
        let bytes = self.fill(length);
        self.mapped(start, length, |memory| {
            memory.copy_from_slice(&bytes);
            Ok(())
        })?;
        self.model[start..start + length].copy_from_slice(&bytes);
        Ok(())
    }

    fn read_mapped(&mut self) -> Result<(), String> {
        let Some((start, length)) = self.range_inside() else { return Ok(()) };
        let mut bytes = vec![0; length];
        self.mapped(start, length, |memory| {
            bytes.copy_from_slice(memory);
            Ok(())
        })?;
        self.compare("mapped read", start, &bytes)
    }

    fn truncate(&mut self) -> Result<(), String> {
        let length = self.below(LONGEST);
        self.file.set_len(length as u64).map_err(|error| format!("truncate: {error}"))?;
        self.model.resize(length, 0);
        Ok(())
    }

    fn allocate(&mut self, mode: i32) -> Result<(), String> {
        let moves = mode & (libc::FALLOC_FL_COLLAPSE_RANGE | libc::FALLOC_FL_INSERT_RANGE) != 0;
        let (mut start, mut length) = self.range();
        if moves {
            start = start / BLOCK * BLOCK;
            length = (length / BLOCK * BLOCK).max(BLOCK);
            let is_inside = start + length < self.model.len();
            let fits = self.model.len() + length <= LONGEST && start < self.model.len();
            if if mode == libc::FALLOC_FL_COLLAPSE_RANGE { !is_inside } else { !fits } {
                return Ok(());
            }
        }
        // SAFETY: plain numbers.
        let result =
            unsafe { libc::fallocate(self.file.as_raw_fd(), mode, start as i64, length as i64) };
        if result < 0 {
            let error = io::Error::last_os_error();
            if error.raw_os_error() == Some(libc::EOPNOTSUPP) {
                self.refused += 1;
                return Ok(());
            }
            return Err(format!("fallocate {mode:#x} of {length} at {start}: {error}"));
        }
        self.apply_allocation(mode, start, length);
        Ok(())
    }

    fn apply_allocation(&mut self, mode: i32, start: usize, length: usize) {
        let end = (start + length).min(self.model.len());
        match mode {
            libc::FALLOC_FL_COLLAPSE_RANGE => drop(self.model.drain(start..start + length)),
            libc::FALLOC_FL_INSERT_RANGE => {
                drop(self.model.splice(start..start, std::iter::repeat_n(0, length)));
            }
            0 => self.model.resize(self.model.len().max(start + length), 0),
            libc::FALLOC_FL_ZERO_RANGE => {
                self.model[start.min(end)..end].fill(0);
                self.model.resize(self.model.len().max(start + length), 0);
            }
            _ => self.model[start.min(end)..end].fill(0),
        }
    }

    /// Writes dirty pages back and asks for the file's pages to be dropped from the cache.
    fn forget(&mut self) -> Result<(), String> {
        self.file.sync_data().map_err(|error| format!("fdatasync: {error}"))?;
        // SAFETY: plain numbers.
        unsafe { libc::posix_fadvise(self.file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
        Ok(())
    }

    fn reopen(&mut self) -> Result<(), String> {
        self.file = open(&self.path).map_err(|error| format!("open: {error}"))?;
        Ok(())
    }
}

//! [`RoughUsage`]: the space of a file system as those are told who do not see what other levels use.
//!
//! All levels share the space, so each free block tells what others do (K1). Their answer is rounded down to 64 steps, and stays for
//! 20 s: so each of its two numbers tells at most 0.3 bits per second.
use interfaces::file_system::FileSystemUsage;
use rt::{lock_class, sync::Mutex, time::Instant};

lock_class! {
    static ROUGH = "vfs.instance.rough";
}

const STEPS: u64 = 64;
const STAYS_NS: u64 = 20_000_000_000;

/// The answer that stays, and the end of its time.
pub struct RoughUsage(Mutex<Option<(Instant, FileSystemUsage)>>);

impl RoughUsage {
    /// Makes one without an answer.
    pub const fn new() -> RoughUsage {
        RoughUsage(Mutex::new(&ROUGH, None))
    }
    /// Returns the answer that stays at `now`, or else takes that of `usage`.
    ///
    /// # Errors
    /// Those of `usage`.
    pub fn at<E>(
        &self,
        now: Instant,
        usage: impl FnOnce() -> Result<FileSystemUsage, E>,
    ) -> Result<FileSystemUsage, E> {
        if let Some((end, usage)) = &*self.0.lock()
            && now < *end
        {
            return Ok(*usage);
        }
        let usage = rounded(usage()?);
        *self.0.lock() = Some((now.after_ns(STAYS_NS), usage));
        Ok(usage)
    }
}

fn rounded(usage: FileSystemUsage) -> FileSystemUsage {
    let down = |part: u64, all: u64| part.min(all) - part.min(all) % (all / STEPS).max(1);
    FileSystemUsage {
        free: down(usage.free, usage.blocks),
        available: down(usage.available, usage.blocks),
        files_free: down(usage.files_free, usage.files),
        ..usage
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_rounded_and_stays_for_its_time() {
        let of = |free| {
            let usage =
                FileSystemUsage { blocks: 6400, free, available: free, ..Default::default() };
            Ok::<_, ()>(FileSystemUsage { files: 64, files_free: free / 100, ..usage })
        };
        let (rough, start) = (RoughUsage::new(), Instant(5));
        let first = rough.at(start, || of(1234)).unwrap();
        assert_eq!((first.free, first.available, first.files_free), (1200, 1200, 12));
        let later = rough.at(start.after_ns(STAYS_NS - 1), || of(700)).unwrap();
        assert_eq!(later.free, 1200, "it stays");
        assert_eq!(rough.at(start.after_ns(STAYS_NS), || of(700)).unwrap().free, 700);
        let empty = rounded(FileSystemUsage { free: 9, ..Default::default() });
        assert_eq!(empty.free, 0, "a file system without blocks");
    }
}

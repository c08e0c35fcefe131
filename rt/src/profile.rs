//! The sampling profiler (B9): a number of times a second the activity of each processor is recorded in the processor's ring.
//! While it is off it costs nothing anywhere. The rings are made at first use and kept.
use crate::{NoMemory, sync::Once, thread, world};
use alloc::vec::Vec;
use core::sync::atomic::AtomicU64;
use sync::samples::Samples;

/// The ring of a processor's samples.
type Ring = Samples<&'static [AtomicU64]>;

/// Most samples a second.
pub const RATE_MAX: u64 = 1000;
/// Words of a ring: at [`RATE_MAX`] room for a second of the longest samples, or for several seconds of usual ones.
const WORDS: usize = 1 << 16;
const NS_PER_S: u64 = 1_000_000_000;

static RINGS: Once<Vec<Ring>> = Once::new();

fn ring() -> Result<Ring, NoMemory> {
    let mut words = Vec::new();
    words.try_reserve_exact(WORDS).map_err(|_| NoMemory)?;
    words.resize_with(WORDS, || AtomicU64::new(0));
    Ok(Samples::new(words.leak()))
}

/// Starts sampling of every processor, `rate` times a second, at most [`RATE_MAX`]. A rate of 0 stops it.
///
/// # Errors
/// [`NoMemory`] if memory for a ring was refused.
pub fn set_rate(rate: u64) -> Result<(), NoMemory> {
    if rate == 0 && RINGS.get().is_none() {
        return Ok(());
    }
    let processors = 0..thread::processors().0;
    let rings = RINGS.get_or_try_init(|| processors.map(|_| ring()).collect::<Result<_, _>>())?;
    world::system::sample_every(NS_PER_S.checked_div(rate.min(RATE_MAX)).unwrap_or(0), rings);
    Ok(())
}

/// A sample of a processor that was not idle.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Time of the sample.
    pub time_ns: u64,
    /// Number of the thread that ran.
    pub thread: u64,
    /// Its name, NUL-padded.
    pub name: [u8; 16],
    /// Its place in the kernel: the instruction, then the calls that led there, innermost first; empty in user mode.
    pub kernel: Vec<u64>,
    /// The same for its program, as far as the program keeps frame pointers.
    pub program: Vec<u64>,
}

impl Sample {
    /// Decodes a sample from the words that the nucleus wrote (`nucleus/src/thread/sampling.rs`).
    fn of(words: &mut dyn Iterator<Item = u64>) -> Sample {
        let mut next = || words.next().unwrap_or(0);
        let (time_ns, thread) = (next(), next());
        let mut name = [0; 16];
        name.as_chunks_mut::<8>().0.iter_mut().for_each(|part| *part = next().to_le_bytes());
        let kernel = words.take_while(|&address| address != 0).collect();
        Sample { time_ns, thread, name, kernel, program: words.collect() }
    }
}

/// Takes the oldest sample of `processor`, unless that is later than `until_ns`. One caller at a time.
pub fn take(processor: usize, until_ns: u64) -> Option<Sample> {
    let ring = RINGS.get()?.get(processor)?;
    ring.first().filter(|&time_ns| time_ns <= until_ns)?;
    ring.take(Sample::of)
}

/// Returns the number of samples of all processors that found no room so far.
pub fn lost() -> u64 {
    RINGS.get().map_or(0, |rings| rings.iter().map(Samples::lost).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_read_as_it_was_laid_out() {
        let name = u64::from_le_bytes(*b"virtio\0\0");
        let words = [5, 7, name, 0, 0xffff_8000, 0xffff_9000, 0, 0x40_1000];
        let sample = Sample::of(&mut words.into_iter());
        assert_eq!((sample.time_ns, sample.thread), (5, 7));
        assert_eq!(&sample.name[..7], b"virtio\0");
        assert_eq!(sample.kernel, [0xffff_8000, 0xffff_9000]);
        assert_eq!(sample.program, [0x40_1000]);
        assert_eq!(Sample::of(&mut core::iter::empty()), Sample::default());
    }

    #[test]
    fn what_was_never_on_is_off_without_rings() {
        assert!(set_rate(0).is_ok());
        assert_eq!((take(0, u64::MAX), lost()), (None, 0));
    }
}

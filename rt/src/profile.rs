//! The sampling profiler (B9): a number of times a second the activity of each processor is recorded in the processor's ring.
//! While it is off it costs nothing anywhere. The rings are regions, which the nucleus writes while it samples. They are made
//! when sampling starts, and go when it has ended and all samples were taken.
//!
//! The lock `rt.profile` guards the rings.
use crate::{
    NoMemory,
    memory::Region,
    sync::{LockClass, Mutex},
    thread, world,
};
use alloc::vec::Vec;
use sync::samples::Samples;

/// The ring of a processor's samples.
type Ring = Samples<Region>;

/// The greatest number of samples a second.
pub const RATE_MAX: u64 = 1000;
/// Size of a ring: at [`RATE_MAX`] room for a second of the longest samples, or for several seconds of usual ones.
const RING_BYTES: usize = 512 << 10;
const NS_PER_S: u64 = 1_000_000_000;

static CLASS: LockClass = LockClass::new("rt.profile");
static PROFILE: Mutex<Profile> =
    Mutex::new(&CLASS, Profile { rings: Vec::new(), is_on: false, lost: 0 });

struct Profile {
    /// The rings, by processor.
    rings: Vec<Ring>,
    is_on: bool,
    /// Samples that found no room in rings that are gone.
    lost: u64,
}

impl Profile {
    /// Makes empty rings if there are none.
    fn make(&mut self) -> Result<(), NoMemory> {
        if self.rings.is_empty() {
            let ring = |_| Region::new(RING_BYTES).map(Samples::new);
            self.rings = (0..thread::processors().0).map(ring).collect::<Result<_, _>>()?;
        }
        Ok(())
    }

    /// Drops the rings if sampling has ended and all samples were taken.
    fn drop_empty(&mut self) {
        if !self.is_on && self.rings.iter().all(|ring| ring.first().is_none()) {
            self.lost = self.all_lost();
            self.rings = Vec::new();
        }
    }

    fn all_lost(&self) -> u64 {
        self.lost + self.rings.iter().map(Samples::lost).sum::<u64>()
    }
}

/// Starts sampling of every processor, `rate` times a second, at most [`RATE_MAX`]. A rate of 0 stops it.
///
/// # Errors
/// [`NoMemory`] if memory for a ring was refused.
pub fn set_rate(rate: u64) -> Result<(), NoMemory> {
    let mut profile = PROFILE.lock();
    let Some(period_ns) = NS_PER_S.checked_div(rate.min(RATE_MAX)) else {
        if core::mem::take(&mut profile.is_on) {
            world::system::sample_every(0, Vec::new());
        }
        profile.drop_empty();
        return Ok(());
    };
    profile.make()?;
    let regions = profile.rings.iter().map(|ring| ring.memory().0.clone()).collect();
    world::system::sample_every(period_ns, regions);
    profile.is_on = true;
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

/// Takes the oldest sample of `processor`, unless that is later than `until_ns`.
pub fn take(processor: usize, until_ns: u64) -> Option<Sample> {
    let mut profile = PROFILE.lock();
    let ring = profile.rings.get(processor)?;
    if ring.first().is_some_and(|time_ns| time_ns > until_ns) {
        return None;
    }
    let sample = ring.take(Sample::of);
    if sample.is_none() {
        profile.drop_empty();
    }
    sample
}

/// Returns the number of samples of all processors that found no room so far.
pub fn lost() -> u64 {
    PROFILE.lock().all_lost()
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

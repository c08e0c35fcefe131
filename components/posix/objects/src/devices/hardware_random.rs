//! Entropy from devices: `/dev/hwrng`, and the seeds of the pool.
//!
//! A thread mixes a seed of the first working source into the pool at the start and once a minute. Reads of `/dev/hwrng` return
//! the sources' bits unchanged. Source: Linux `Documentation/admin-guide/hw_random.rst`, `drivers/char/hw_random/core.c`.
use super::memory::put_pieces;
use alloc::{sync::Arc, vec::Vec};
use interfaces::entropy::{Entropy, Seed};
use linux_raw_sys::general as raw;
use rt::{
    sync::Once,
    thread::{self, Policy},
    time,
};
use vfs::{
    Caller, Errno, Vnode,
    file::{File, IoFlags, Opener, Places},
    io::{Sink, Source},
};

/// The device number of `/dev/hwrng`.
pub const NUMBER: (u32, u32) = (10, 183);

/// Bytes of a [`Seed`].
const SEED_BYTES: usize = size_of::<Seed>();
/// Time between two seeds of the pool (Linux `CRNG_RESEED_INTERVAL`).
const INTERVAL_NS: u64 = 60_000_000_000;

static SOURCES: Once<Vec<Arc<dyn Entropy>>> = Once::new();

/// Sets the sources, once, and starts the thread that seeds the pool from them.
pub fn announce(sources: &[Arc<dyn Entropy>]) {
    SOURCES.get_or_init(|| sources.to_vec());
    if !exists() {
        return;
    }
    if thread::spawn("entropy", Policy::Fair { nice: 0 }, seed_for_ever).is_err() {
        log::error!("no memory for the thread that seeds the pool of entropy");
    }
}

/// Returns whether there is a source.
pub fn exists() -> bool {
    SOURCES.get().is_some_and(|sources| !sources.is_empty())
}

/// Returns a seed of the first source that has one.
fn seed(sources: &[Arc<dyn Entropy>]) -> Option<Seed> {
    sources.iter().find_map(|source| source.seed())
}

/// Seeds the pool once a minute, and logs when the sources stop or start giving seeds.
fn seed_for_ever() {
    let mut did_give = None;
    loop {
        let gives = seed_pool(SOURCES.get().map(Vec::as_slice).unwrap_or_default());
        if did_give.replace(gives) != Some(gives) {
            match gives {
                true => log::info!("a device seeds the pool of entropy"),
                false => log::warn!("no device seeds the pool of entropy: the processor does"),
            }
        }
        time::sleep_until(time::now().after_ns(INTERVAL_NS));
    }
}

/// Mixes a seed into the pool; returns `false` if no source gives one.
fn seed_pool(sources: &[Arc<dyn Entropy>]) -> bool {
    let seed = seed(sources);
    seed.into_iter().for_each(rt::entropy::add);
    seed.is_some()
}

/// The opener of `/dev/hwrng`.
pub struct HardwareRandom;

impl Opener for HardwareRandom {
    /// It can be opened for reading only.
    fn open(&self, _: &Arc<Vnode>, flags: u32, _: &Caller<'_>) -> Result<Arc<dyn File>, Errno> {
        match flags & raw::O_ACCMODE {
            raw::O_RDONLY => Ok(Arc::new(HardwareRandom)),
            _ => Err(Errno::EINVAL),
        }
    }
}

impl File for HardwareRandom {
    fn is_seekable(&self) -> bool {
        true
    }
    fn places(&self) -> Places {
        Places::Start
    }
    fn read(&self, _: u64, sink: &mut dyn Sink, _: IoFlags) -> Result<usize, Errno> {
        read(SOURCES.get().map(Vec::as_slice).unwrap_or_default(), sink)
    }
    fn write(&self, _: u64, _: &mut dyn Source, _: IoFlags) -> Result<(usize, u64), Errno> {
        Err(Errno::EINVAL)
    }
    fn as_any(&self) -> &dyn core::any::Any {
        self
    }
}

/// Fills `sink` with bits of `sources`; a signal or the last source's failure ends it early.
fn read(sources: &[Arc<dyn Entropy>], sink: &mut dyn Sink) -> Result<usize, Errno> {
    put_pieces::<SEED_BYTES>(sink, SEED_BYTES, |piece| {
        let bytes = seed(sources).ok_or(Errno::ENODEV)?.map(u64::to_ne_bytes);
        piece.copy_from_slice(bytes.as_flattened().split_at(piece.len()).0);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
    use vfs::io::SliceSink;

    /// A source that gives this many seeds, each made of one number four times, and then none.
    struct Few(AtomicU64);

    impl Entropy for Few {
        fn seed(&self) -> Option<Seed> {
            let left = self.0.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).ok()?;
            Some([left; 4])
        }
    }

    fn sources<const N: usize>(seeds: [u64; N]) -> Vec<Arc<dyn Entropy>> {
        seeds.map(|seeds| Arc::new(Few(AtomicU64::new(seeds))) as Arc<dyn Entropy>).to_vec()
    }

    #[test]
    fn the_first_source_that_gives_seeds_the_pool() {
        let sources = sources([0, 2]);
        assert!(seed_pool(&sources) && seed_pool(&sources));
        assert!(!seed_pool(&sources));
        assert_eq!(rt::host::seeds(), [[2; 4], [1; 4]]);
    }

    #[test]
    fn a_read_goes_on_until_no_source_gives_any_more() {
        let mut out = [9; 50];
        assert_eq!(read(&sources([2]), &mut SliceSink::new(&mut out)), Ok(50));
        assert_eq!((out[0], out[31], out[32], out[49]), (2, 0, 1, 0));
        assert_eq!(read(&sources([1]), &mut SliceSink::new(&mut out)), Ok(32));
        assert_eq!(read(&sources([0, 0]), &mut SliceSink::new(&mut out)), Err(Errno::ENODEV));
        assert_eq!(read(&sources([0]), &mut SliceSink::new(&mut [])), Ok(0));
    }
}

//! A source of entropy: its queue, its buffer, and the caller's wait for the device.
use crate::health::Health;
use alloc::{sync::Arc, vec::Vec};
use interfaces::entropy::{Entropy, SEED_WORDS, Seed};
use rt::{
    device::DmaBuffer,
    lock_class,
    sync::Mutex,
    time::{self, Instant},
};
use virtio::{
    Buffer, BufferAccess, Candidate, Device, Error, Queue, QueuePlan, Vector, candidates, kind,
};

lock_class! {
    static STATE = "virtio-rng.state";
}

/// Bytes that the device is asked for at a time: enough for some seeds, so that few callers wait.
const BUFFER_BYTES: usize = 256;
const SEED_BYTES: usize = SEED_WORDS * 8;
/// Longest time that a caller waits for the device. A device may be slow on purpose (QEMU `max-bytes`, `period`).
const PATIENCE_NS: u64 = 1_000_000_000;

/// A source of entropy.
pub struct EntropySource {
    device: Device,
    vector: Vector,
    state: Mutex<SourceState>,
}

struct SourceState {
    queue: Queue<()>,
    buffer: DmaBuffer,
    health: Health,
    /// Bytes that passed the tests and were not handed out yet.
    fresh: Vec<u8>,
    /// The device broke the protocol and was reset permanently.
    is_dead: bool,
}

/// Opens every virtio source of entropy. A device that cannot be used is named in the log and left out.
pub fn probe() -> Vec<Arc<EntropySource>> {
    let mut sources = Vec::new();
    for candidate in candidates(kind::ENTROPY) {
        match EntropySource::open(candidate) {
            Ok(source) => sources.push(source),
            Err(error) => {
                log::error!("virtio-rng: the source at {candidate} is not used: {error}");
            }
        }
    }
    sources
}

impl EntropySource {
    /// Opens one device.
    ///
    /// # Errors
    /// [`Error`].
    pub fn open(candidate: Candidate) -> Result<Arc<EntropySource>, Error> {
        let device = Device::open(candidate, 0)?;
        let vector = device.vectors(1)?.pop().ok_or(Error::NoVector)?;
        let queue = device.queue(QueuePlan { index: 0, size: 1, indirect: 0, vector: 0 })?;
        let buffer = DmaBuffer::allocate(BUFFER_BYTES)?;
        device.start();
        log::info!("virtio-rng: a source of entropy at {candidate}");
        let (health, fresh) = (Health::default(), Vec::with_capacity(BUFFER_BYTES));
        let state = SourceState { queue, buffer, health, fresh, is_dead: false };
        Ok(Arc::new(EntropySource { device, vector, state: Mutex::new(&STATE, state) }))
    }

    /// Waits until `deadline` for bytes of the device and tests them. Returns whether more may come before that.
    fn refill(&self, state: &mut SourceState, deadline: Instant) -> bool {
        match self.receive(state, deadline) {
            Ok(Some(bytes)) => {
                let received = bytes.len();
                match state.health.test(&bytes) {
                    Ok(()) if state.health.is_good() => state.fresh.extend(bytes),
                    Ok(()) => {}
                    Err(failure) => {
                        state.fresh.clear();
                        log::error!("virtio-rng: the source failed its health test: {failure:?}");
                        return false;
                    }
                }
                received > 0
            }
            Ok(None) => false,
            Err(error) => {
                log::error!("virtio-rng: {error}; the source is given up");
                state.is_dead = true;
                self.device.reset();
                false
            }
        }
    }

    /// Returns the next bytes of the device; `None` if there are none before `deadline`.
    fn receive(
        &self,
        state: &mut SourceState,
        deadline: Instant,
    ) -> Result<Option<Vec<u8>>, Error> {
        if state.queue.in_flight() == 0 {
            let buffer = Buffer {
                address: state.buffer.device_address(),
                bytes: BUFFER_BYTES as u32,
                access: BufferAccess::Write,
            };
            // The queue is empty, so there is room.
            let _ = state.queue.add(&[buffer], ());
            state.queue.publish();
        }
        loop {
            if let Some(used) = state.queue.take()? {
                let mut bytes = alloc::vec![0; (used.written as usize).min(BUFFER_BYTES)];
                state.buffer.read(0, &mut bytes);
                // No copy of a seed may stay in memory that the device reads.
                (0..BUFFER_BYTES / 8).for_each(|word| state.buffer.store64(word * 8, 0));
                return Ok(Some(bytes));
            }
            if time::now() >= deadline {
                return Ok(None);
            }
            if !state.queue.arm() {
                self.vector.wait(Some(deadline));
            }
        }
    }
}

impl Entropy for EntropySource {
    fn seed(&self) -> Option<Seed> {
        let mut state = self.state.lock();
        let state = &mut *state;
        let deadline = time::now().after_ns(PATIENCE_NS);
        while !state.is_dead && state.fresh.len() < SEED_BYTES {
            if !self.refill(state, deadline) {
                return None;
            }
        }
        let start = state.fresh.len().checked_sub(SEED_BYTES)?;
        let mut seed = [0; SEED_WORDS];
        let words = state.fresh.get(start..)?.chunks_exact(8);
        for (word, bytes) in seed.iter_mut().zip(words) {
            *word = u64::from_ne_bytes(bytes.try_into().ok()?);
        }
        // A seed that is handed out is overwritten, so it is never handed out again.
        state.fresh.get_mut(start..)?.fill(0);
        state.fresh.truncate(start);
        Some(seed)
    }
}

impl core::fmt::Debug for EntropySource {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Source").finish_non_exhaustive()
    }
}

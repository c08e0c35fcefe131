//! Rings in a [`Region`], for all bulk traffic between components (architecture: "Messages").
//!
//! A [`Part`] of a region holds one ring: [`Producer`] and [`Consumer`] of `libs/shared-ring` over it, in the worlds of the two
//! parties. A party that finds the ring empty (or full) announces its wait in the ring and blocks on its [`Bell`], which the
//! other party rings when [`Doorbell`] says so. Everything that the other party writes is checked; the most that it can do is
//! leave a bell unrung.
use crate::{
    NoMemory,
    memory::Region,
    thread::{Policy, Woken},
    time::Instant,
    world,
};
use alloc::boxed::Box;
use core::{
    ptr::NonNull,
    sync::atomic::{AtomicU64, Ordering::*, fence},
};
use shared_ring::{CONSUMER_WAITS, PRODUCER_WAITS, WAITS};
pub use shared_ring::{Consumer, Corrupt, Doorbell, Entry, Memory, Producer, PushError, words_for};

/// The words of a region that hold one ring.
#[derive(Clone, Debug)]
pub struct Part {
    region: Region,
    first: usize,
    /// The words themselves. `region` keeps them in place.
    words: NonNull<[AtomicU64]>,
}

// SAFETY: words of a region, which may be shared with anyone.
unsafe impl Send for Part {}
// SAFETY: as above.
unsafe impl Sync for Part {}

impl Part {
    /// Returns the `words` words of `region` from `first`; `None` if the region is shorter.
    pub fn of(region: &Region, first: usize, words: usize) -> Option<Part> {
        let words = region.words().get(first..first.checked_add(words)?)?;
        Some(Part { region: region.clone(), first, words: NonNull::from(words) })
    }
    /// Zeroes the part, so that a new ring may begin in it. The caller ensures that no other party uses it.
    pub fn clear(&self) {
        self.words().iter().for_each(|word| word.store(0, Release));
    }
    /// Returns the bell for which the producer waits.
    pub fn producer_bell(&self) -> Bell {
        Bell { region: self.region.clone(), word: self.first + PRODUCER_WAITS }
    }
    /// Returns the bell for which the consumer waits.
    pub fn consumer_bell(&self) -> Bell {
        Bell { region: self.region.clone(), word: self.first + CONSUMER_WAITS }
    }
}

impl Memory for Part {
    fn words(&self) -> &[AtomicU64] {
        // SAFETY: of `region`, whose words stay where they are for as long as a clone of it lives.
        unsafe { self.words.as_ref() }
    }
}

/// The place at which one party of a ring waits for the other.
#[derive(Clone, Debug)]
pub struct Bell {
    region: Region,
    word: usize,
}

impl Bell {
    /// Blocks until the bell is rung, after the wait was announced (`wait_begins`), or until the deadline. It may return early.
    pub fn wait(&self, deadline: Option<Instant>) -> Woken {
        self.wait_while(WAITS, deadline)
    }
    /// Blocks while the word is that of an announced wait or `noted`. If the bell was rung before this, the thread need not enter
    /// the nucleus.
    fn wait_while(&self, noted: u64, deadline: Option<Instant>) -> Woken {
        match self.region.words().get(self.word).map(|word| word.load(Acquire)) {
            Some(value) if value == WAITS || value == noted => {
                self.region.wait(self.word, value as u32, deadline)
            }
            _ => Woken::Signalled,
        }
    }
    /// Notes that the thread of `note` looks, so that it blocks after that even if nobody announces a wait.
    #[cfg(not(all(target_os = "none", not(skerry_process))))]
    fn take_ring(&self, note: u64) {
        if let Some(word) = self.region.words().get(self.word) {
            let value = word.load(Acquire);
            // A thread that has announced a wait is not disturbed. If the word changes meanwhile, the thread looks once more.
            if value != WAITS {
                let _ = word.compare_exchange(value, note, SeqCst, Relaxed);
            }
        }
    }
    /// Wakes the party that waits or is about to. The other party calls it if [`Doorbell::Ring`] says so. Other callers may
    /// ring after a change that the waiter looks at after it has announced its wait.
    pub fn ring(&self) {
        fence(SeqCst);
        if let Some(word) = self.region.words().get(self.word) {
            word.store(0, SeqCst);
        }
        self.region.wake(self.word);
    }
    /// Calls `handler` now, and for ever whenever the bell is rung. The handler takes the entries in the ring and announces
    /// the wait before it returns; one for room in the ring announces it only if entries find none. It does not wait for the
    /// other party, and may be called on several threads at once. In the kernel world the ringing thread calls it, so no
    /// switch to another thread is needed. In other worlds a thread called `name` waits for the bell and calls it.
    ///
    /// # Errors
    /// [`NoMemory`].
    pub fn set_handler(
        &self,
        name: &str,
        policy: Policy,
        handler: impl Fn() + Send + Sync + 'static,
    ) -> Result<(), NoMemory> {
        world::thread::set_handler(self.clone(), name, policy, Box::new(handler))
    }
    /// Returns the bell's word, for functions that wait for it.
    #[cfg(all(target_os = "none", not(skerry_process)))]
    pub(crate) fn word(&self) -> Option<&core::sync::atomic::AtomicU32> {
        self.region.low_half(self.word)
    }
    /// Rings if `doorbell` says so.
    pub fn answer(&self, doorbell: Doorbell) {
        // The party that returned `Ring` has cleared the word.
        if doorbell == Doorbell::Ring {
            self.region.wake(self.word);
        }
    }
}

/// Attends a bell with a thread of its own. The thread stores a number of its own in the bell's word before it looks: the other
/// party need not ring then, and a thread that finds another's number knows that it may have missed a ring.
#[cfg(not(all(target_os = "none", not(skerry_process))))]
pub(crate) fn handle_by_thread(
    bell: Bell,
    name: &str,
    policy: Policy,
    handler: WakeHandler,
) -> Result<(), NoMemory> {
    static NOTES: AtomicU64 = AtomicU64::new(WAITS);
    let note = NOTES.fetch_add(1, Relaxed) + 1;
    let serve = move || loop {
        bell.take_ring(note);
        handler();
        bell.wait_while(note, None);
    };
    crate::thread::spawn(name, policy, serve).map(drop)
}

/// The function that is called when a bell is rung.
pub(crate) type WakeHandler = Box<dyn Fn() + Send + Sync>;

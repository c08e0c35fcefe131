//! The client's end of two rings whose driver may die: [`Link`], to which drivers are attached one after another, and
//! [`Rings`], the memory that both share.
//!
//! A link counts its drivers (`epoch`). Entries of a driver are ignored after its successor was started. While there is no
//! driver, or it broke the protocol, nothing is sent. [`Linked`] guards the sending half and the [`Traffic`], which decides
//! what becomes of unsent entries. The traffic has the receiving half for itself. No lock is held over a message.
use crate::{call::Failure, wire::Wire};
use alloc::{boxed::Box, string::String};
use rt::{
    NoMemory,
    memory::Region,
    ring::{Bell, Consumer, Corrupt, Doorbell, Entry, Part, Producer},
    sync::{Event, LockClass, Mutex, MutexGuard},
};

/// The reason why a driver did not take the rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
pub enum AttachError {
    /// The region is too small for the rings.
    TooSmall,
    /// Memory was refused.
    NoMemory,
    /// The message, or its answer, was lost.
    Lost,
    /// The driver's description of itself is impossible.
    Senseless,
}

impl From<NoMemory> for AttachError {
    fn from(_: NoMemory) -> AttachError {
        AttachError::NoMemory
    }
}

impl From<Failure> for AttachError {
    fn from(_: Failure) -> AttachError {
        AttachError::Lost
    }
}

/// The sending and the receiving half of one party.
pub(crate) type Halves<S, R> = (Producer<Part, S>, Consumer<Part, R>);

/// Two rings in a region, one behind the other: from the client to the driver, and back.
#[derive(Clone, Debug)]
pub(crate) struct Rings {
    region: Region,
    pub(crate) forth: Part,
    pub(crate) back: Part,
}

impl Rings {
    /// Lays out rings of these sizes, in words, in `region`.
    ///
    /// # Errors
    /// [`AttachError::TooSmall`].
    pub(crate) fn of(region: Region, [forth, back]: [usize; 2]) -> Result<Rings, AttachError> {
        let part = |first, words| Part::of(&region, first, words).ok_or(AttachError::TooSmall);
        let (forth, back) = (part(0, forth)?, part(forth, back)?);
        Ok(Rings { region, forth, back })
    }
    /// Allocates rings of these sizes, in words.
    ///
    /// # Errors
    /// [`AttachError`].
    pub(crate) fn new(words: [usize; 2]) -> Result<Rings, AttachError> {
        let bytes = words.iter().sum::<usize>() * size_of::<u64>();
        Rings::of(Region::new(bytes)?, words)
    }
    /// Empties both rings. The caller ensures that no other thread uses them.
    pub(crate) fn clear(&self) {
        self.forth.clear();
        self.back.clear();
    }
    /// Removes the traces of an earlier session of the same driver. A thread that waited for entries looks again.
    pub(crate) fn take_over(&self) {
        self.clear();
        self.back.consumer_bell().ring();
        self.forth.producer_bell().ring();
    }
    /// Returns the client's halves.
    ///
    /// # Errors
    /// [`AttachError::TooSmall`].
    pub(crate) fn client<S: Entry, R: Entry>(&self) -> Result<Halves<S, R>, AttachError> {
        let halves = (Producer::new(self.forth.clone()), Consumer::new(self.back.clone()));
        halves.0.zip(halves.1).ok_or(AttachError::TooSmall)
    }
    /// Returns the driver's halves.
    ///
    /// # Errors
    /// [`AttachError::TooSmall`].
    pub(crate) fn driver<S: Entry, R: Entry>(&self) -> Result<Halves<S, R>, AttachError> {
        let halves = (Producer::new(self.back.clone()), Consumer::new(self.forth.clone()));
        halves.0.zip(halves.1).ok_or(AttachError::TooSmall)
    }
}

/// The entries that a link carries.
pub(crate) trait Traffic {
    /// The type of the client's entries.
    type Sent: Entry;
    /// Takes the entries that a dead driver left in `rings` and queues all that it did not end to be sent again. `sent` is
    /// the sending half of the rings. Empties the rings and returns their new sending half.
    ///
    /// # Errors
    /// [`AttachError`].
    fn renew(
        &mut self,
        sent: &Producer<Part, Self::Sent>,
        rings: &Rings,
    ) -> Result<Producer<Part, Self::Sent>, AttachError>;
    /// Puts the entries that may be sent into the ring.
    ///
    /// # Errors
    /// [`Corrupt`].
    fn send(&mut self, ring: &mut Producer<Part, Self::Sent>) -> Result<Doorbell, Corrupt>;
}

/// Whether entries are sent to the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LinkStatus {
    /// A driver has the rings.
    Up,
    /// There is no driver, or it broke the protocol.
    Down,
    /// There is no driver, and none is expected.
    Closed,
}

/// The state that a link's lock guards.
#[derive(Debug)]
pub(crate) struct Linked<T: Traffic> {
    status: LinkStatus,
    /// Number of drivers so far.
    epoch: u64,
    pub(crate) sent: Producer<Part, T::Sent>,
    pub(crate) traffic: T,
}

impl<T: Traffic> Linked<T> {
    /// Returns whether there is no driver and none is expected.
    pub(crate) fn is_closed(&self) -> bool {
        self.status == LinkStatus::Closed
    }
    /// Returns the number of drivers so far.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }
    /// Returns the number of drivers so far; `None` while nothing is sent.
    pub(crate) fn epoch_up(&self) -> Option<u64> {
        (self.status == LinkStatus::Up).then_some(self.epoch)
    }
    /// Sends the entries that may be sent, if there is a driver.
    ///
    /// # Errors
    /// [`Corrupt`].
    pub(crate) fn send(&mut self) -> Result<Doorbell, Corrupt> {
        match self.status {
            LinkStatus::Up => self.traffic.send(&mut self.sent),
            LinkStatus::Down | LinkStatus::Closed => Ok(Doorbell::Silent),
        }
    }
}

/// The client's end of two rings, to which drivers are attached one after another.
pub(crate) struct Link<T: Traffic> {
    name: String,
    rings: Rings,
    state: Mutex<Linked<T>>,
    /// Signalled when a driver was attached, and when the link was closed.
    pub(crate) changed: Event,
    driver_bell: Bell,
    /// The bell at which the client waits for the driver's entries, and the one at which it waits for room.
    pub(crate) bell: Bell,
    pub(crate) room_bell: Bell,
    /// Called when the driver broke the protocol and should be ended. The caller may be the driver's own thread, so it must
    /// not wait for the end.
    on_corrupt: Box<dyn Fn() + Send + Sync>,
}

impl<T: Traffic> Link<T> {
    /// Makes a link without a driver over rings of these sizes, in words. The log calls it `name`; `traffic` takes the
    /// receiving half.
    ///
    /// # Errors
    /// [`AttachError`].
    pub(crate) fn new<R: Entry>(
        name: String,
        class: &'static LockClass,
        words: [usize; 2],
        traffic: impl FnOnce(Consumer<Part, R>) -> T,
        on_corrupt: Box<dyn Fn() + Send + Sync>,
    ) -> Result<Link<T>, AttachError> {
        let rings = Rings::new(words)?;
        let (sent, received) = rings.client()?;
        let traffic = traffic(received);
        let linked = Linked { status: LinkStatus::Down, epoch: 0, sent, traffic };
        Ok(Link {
            name,
            state: Mutex::new(class, linked),
            changed: Event::new(),
            driver_bell: rings.forth.consumer_bell(),
            bell: rings.back.consumer_bell(),
            room_bell: rings.forth.producer_bell(),
            rings,
            on_corrupt,
        })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Linked<T>> {
        self.state.lock()
    }

    /// Attaches the successor of a driver that has died and cannot touch the rings any more. Recalls the entries that the
    /// dead driver was sent, gives the emptied rings to the successor by `attach`, passes its answer to `resume`, and sends.
    /// Opens a closed link. Blocks meanwhile.
    ///
    /// # Errors
    /// [`AttachError`]; unsent entries are kept.
    pub(crate) fn restart<A>(
        &self,
        attach: impl FnOnce(Region) -> Result<A, AttachError>,
        resume: impl FnOnce(&mut T, A),
    ) -> Result<(), AttachError> {
        let epoch = {
            let mut linked = self.state.lock();
            let Linked { sent, traffic, .. } = &mut *linked;
            *sent = traffic.renew(sent, &self.rings)?;
            linked.status = LinkStatus::Down;
            linked.epoch += 1;
            linked.epoch
        };
        self.wake();
        let answer = attach(self.rings.region.clone())?;
        let doorbell = {
            let mut linked = self.state.lock();
            if linked.epoch != epoch || linked.is_closed() {
                return Ok(());
            }
            linked.status = LinkStatus::Up;
            resume(&mut linked.traffic, answer);
            linked.send()
        };
        self.answer(doorbell);
        self.wake();
        Ok(())
    }

    /// Closes the link: no driver is expected until [`Link::restart`].
    pub(crate) fn close(&self) {
        self.state.lock().status = LinkStatus::Closed;
        self.wake();
    }

    /// Wakes all threads that wait for the link, so that they look again.
    fn wake(&self) {
        self.bell.ring();
        self.room_bell.ring();
        self.changed.signal();
    }

    /// Returns the bell at which the driver waits for room.
    pub(crate) fn driver_room_bell(&self) -> Bell {
        self.rings.back.producer_bell()
    }

    /// Rings the driver's bell if that is due, or ends the driver if `doorbell` is [`Corrupt`].
    pub(crate) fn answer(&self, doorbell: Result<Doorbell, Corrupt>) {
        match doorbell {
            Ok(doorbell) => self.driver_bell.answer(doorbell),
            Err(Corrupt) => self.break_off(),
        }
    }

    /// Stops sending to a driver that broke the protocol, and reports it.
    pub(crate) fn break_off(&self) {
        {
            let mut linked = self.state.lock();
            if linked.status != LinkStatus::Up {
                return;
            }
            linked.status = LinkStatus::Down;
        }
        log::error!("{}: the driver breaks the protocol of its rings", self.name);
        (self.on_corrupt)();
    }
}

impl<T: Traffic> core::fmt::Debug for Link<T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Link").field("name", &self.name).finish_non_exhaustive()
    }
}

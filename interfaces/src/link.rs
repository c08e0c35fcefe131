//! The client's end of two rings whose driver may die: [`Link`], on which drivers come and go, and [`Rings`], the
//! memory between the two.
//!
//! A link counts its drivers (`epoch`): what one of them says after its successor was started is nobody's. While there
//! is none, or it broke the protocol, nothing is sent; what that means is the [`Traffic`]'s, which [`Linked`] guards
//! along with the sending half. The receiving half is the traffic's own. No lock is held over a message.
use crate::{call::Failure, wire::Wire};
use alloc::{boxed::Box, string::String};
use rt::{
    NoMemory,
    memory::Region,
    ring::{Bell, Consumer, Corrupt, Doorbell, Entry, Part, Producer},
    sync::{Event, LockClass, Mutex, MutexGuard},
};

/// Why rings were not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
pub enum AttachError {
    /// The region is too small for them.
    TooSmall,
    /// Memory was refused.
    NoMemory,
    /// The message, or its answer, was lost.
    Lost,
    /// The driver's description of itself makes no sense.
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
    /// In `region`, of so many words each.
    ///
    /// # Errors
    /// [`AttachError::TooSmall`].
    pub(crate) fn of(region: Region, [forth, back]: [usize; 2]) -> Result<Rings, AttachError> {
        let part = |first, words| Part::of(&region, first, words).ok_or(AttachError::TooSmall);
        let (forth, back) = (part(0, forth)?, part(forth, back)?);
        Ok(Rings { region, forth, back })
    }
    /// In memory of their own.
    ///
    /// # Errors
    /// [`AttachError`].
    pub(crate) fn new(words: [usize; 2]) -> Result<Rings, AttachError> {
        let bytes = words.iter().sum::<usize>() * size_of::<u64>();
        Rings::of(Region::new(bytes)?, words)
    }
    /// Empties both; nobody may use them meanwhile.
    pub(crate) fn clear(&self) {
        self.forth.clear();
        self.back.clear();
    }
    /// Traces of another session of the same driver are gone; a thread that waited in vain looks again.
    pub(crate) fn take_over(&self) {
        self.clear();
        self.back.consumer_bell().ring();
        self.forth.producer_bell().ring();
    }
    /// The client's halves.
    ///
    /// # Errors
    /// [`AttachError::TooSmall`].
    pub(crate) fn client<S: Entry, R: Entry>(&self) -> Result<Halves<S, R>, AttachError> {
        let halves = (Producer::new(self.forth.clone()), Consumer::new(self.back.clone()));
        halves.0.zip(halves.1).ok_or(AttachError::TooSmall)
    }
    /// The driver's halves.
    ///
    /// # Errors
    /// [`AttachError::TooSmall`].
    pub(crate) fn driver<S: Entry, R: Entry>(&self) -> Result<Halves<S, R>, AttachError> {
        let halves = (Producer::new(self.back.clone()), Consumer::new(self.forth.clone()));
        halves.0.zip(halves.1).ok_or(AttachError::TooSmall)
    }
}

/// The traffic over a link.
pub(crate) trait Traffic {
    /// The client's entries.
    type Sent: Entry;
    /// The driver is no more: what it left in `rings`, of which `sent` is the sending half, is taken out, and what
    /// it has not ended is to be sent again. The rings are empty then, with new halves, of which this gives the sending one.
    ///
    /// # Errors
    /// [`AttachError`].
    fn renew(
        &mut self,
        sent: &Producer<Part, Self::Sent>,
        rings: &Rings,
    ) -> Result<Producer<Part, Self::Sent>, AttachError>;
    /// Puts what may be sent into the ring.
    ///
    /// # Errors
    /// [`Corrupt`].
    fn send(&mut self, ring: &mut Producer<Part, Self::Sent>) -> Result<Doorbell, Corrupt>;
}

/// Whether the driver is sent anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    /// It is, and has the rings.
    Up,
    /// There is none, or it broke the protocol.
    Down,
    /// There is none, and nobody waits for one.
    Closed,
}

/// The state that a link's lock guards.
#[derive(Debug)]
pub(crate) struct Linked<T: Traffic> {
    status: Status,
    /// Drivers so far.
    epoch: u64,
    pub(crate) sent: Producer<Part, T::Sent>,
    pub(crate) traffic: T,
}

impl<T: Traffic> Linked<T> {
    /// There is no driver, and nobody waits for one.
    pub(crate) fn is_closed(&self) -> bool {
        self.status == Status::Closed
    }
    /// Counts the drivers; `None` while none is sent anything.
    pub(crate) fn epoch_up(&self) -> Option<u64> {
        (self.status == Status::Up).then_some(self.epoch)
    }
    /// Sends what may be sent, if there is a driver.
    ///
    /// # Errors
    /// [`Corrupt`].
    pub(crate) fn send(&mut self) -> Result<Doorbell, Corrupt> {
        match self.status {
            Status::Up => self.traffic.send(&mut self.sent),
            Status::Down | Status::Closed => Ok(Doorbell::Silent),
        }
    }
}

/// See the module's page.
pub(crate) struct Link<T: Traffic> {
    name: String,
    rings: Rings,
    state: Mutex<Linked<T>>,
    /// Signalled when a driver was attached, or there will be none for now.
    pub(crate) changed: Event,
    driver_bell: Bell,
    /// The bell at which the client waits for the driver's entries, and the one at which it waits for room.
    pub(crate) bell: Bell,
    pub(crate) room_bell: Bell,
    /// Told that the driver broke the protocol and should be ended; by its own thread, maybe, so it does not wait for that.
    on_corrupt: Box<dyn Fn() + Send + Sync>,
}

impl<T: Traffic> Link<T> {
    /// A link without a driver, called `name` in the log, over rings of so many words; `traffic` takes the receiving half.
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
        let linked = Linked { status: Status::Down, epoch: 0, sent, traffic };
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

    /// The driver has died and cannot touch the rings any more: recalls what it was sent, gives its successor the
    /// emptied rings by `attach`, and what that answered to `resume`; then sends. Opens a closed link. Blocks meanwhile.
    ///
    /// # Errors
    /// [`AttachError`]; what there is to send waits on.
    pub(crate) fn restart<A>(
        &self,
        attach: impl FnOnce(Region) -> Result<A, AttachError>,
        resume: impl FnOnce(&mut T, A),
    ) -> Result<(), AttachError> {
        let epoch = {
            let mut linked = self.state.lock();
            let Linked { sent, traffic, .. } = &mut *linked;
            *sent = traffic.renew(sent, &self.rings)?;
            linked.status = Status::Down;
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
            linked.status = Status::Up;
            resume(&mut linked.traffic, answer);
            linked.send()
        };
        self.answer(doorbell);
        self.wake();
        Ok(())
    }

    /// There will be no other driver, until there is ([`Link::restart`]).
    pub(crate) fn close(&self) {
        self.state.lock().status = Status::Closed;
        self.wake();
    }

    /// Lets whoever waits here look again.
    fn wake(&self) {
        self.bell.ring();
        self.room_bell.ring();
        self.changed.signal();
    }

    /// Rings the driver's bell where that is due, or ends the driver.
    pub(crate) fn answer(&self, doorbell: Result<Doorbell, Corrupt>) {
        match doorbell {
            Ok(doorbell) => self.driver_bell.answer(doorbell),
            Err(Corrupt) => self.break_off(),
        }
    }

    /// The driver broke the protocol: it is sent nothing more and reported.
    pub(crate) fn break_off(&self) {
        {
            let mut linked = self.state.lock();
            if linked.status != Status::Up {
                return;
            }
            linked.status = Status::Down;
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

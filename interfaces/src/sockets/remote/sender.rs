//! [`RecordSender`]: the stack's way to its client: records, in order, from any thread.
use super::{
    cells::{Cell, Outbox, Record, put_parts},
    kinds::back,
    packets::{put_datagram, put_report},
};
use crate::{
    AttachError,
    link::Rings,
    nic::PacketSegment,
    sockets::{EndNumber, FarClient, QueueChange, StreamChange},
};
use alloc::{sync::Arc, vec::Vec};
use rt::{
    lock_class,
    memory::Frame,
    ring::{Bell, Corrupt, Doorbell, Part, Producer},
    sync::{Event, Mutex, Once},
    thread::{self, Policy},
};

lock_class! {
    static POST = "network.post";
}

/// The rings' half that the stack writes, and what waits for room in it.
struct Sending {
    ring: Option<Producer<Part, Cell>>,
    outbox: Outbox,
    /// Memory for bodies.
    body: Vec<u8>,
    /// Threads that hold the bell back.
    holders: usize,
    /// Threads that wait for the client: no bell is held back meanwhile.
    waiters: usize,
    /// The client waits for records, and was not woken for those that are there.
    is_owed: bool,
    /// A test has ended the stack.
    is_dead: bool,
}

impl Sending {
    /// Gives the ring what it has room for. Returns the doorbell, unless it is held back: that of a full ring is not.
    fn flush(&mut self) -> Result<Doorbell, Corrupt> {
        let Some(ring) = &mut self.ring else { return Ok(Doorbell::Silent) };
        let must_ring = self.outbox.flush(ring)? == Doorbell::Ring || self.is_owed;
        let is_crowded = !self.outbox.is_empty();
        self.is_owed = must_ring && self.holders > 0 && self.waiters == 0 && !is_crowded;
        Ok(if must_ring && !self.is_owed { Doorbell::Ring } else { Doorbell::Silent })
    }
}

/// The stack's way to its client.
pub struct RecordSender {
    sending: Mutex<Sending>,
    bell: Once<Bell>,
    /// Signalled when there was no room for a record.
    crowded: Event,
}

impl RecordSender {
    /// Makes a way that goes nowhere until [`RecordSender::open`]. What is posted before waits.
    pub(crate) fn new() -> RecordSender {
        let sending = Sending {
            ring: None,
            outbox: Outbox::default(),
            body: Vec::new(),
            holders: 0,
            waiters: 0,
            is_owed: false,
            is_dead: false,
        };
        RecordSender {
            sending: Mutex::new(&POST, sending),
            bell: Once::new(),
            crowded: Event::new(),
        }
    }
    /// Sends by `ring` of `rings` from now on.
    ///
    /// # Errors
    /// [`AttachError::NoMemory`] for the thread that waits for room.
    pub(crate) fn open(
        self: &Arc<RecordSender>,
        rings: &Rings,
        ring: Producer<Part, Cell>,
        policy: Policy,
    ) -> Result<(), AttachError> {
        self.bell.get_or_init(|| rings.back.consumer_bell());
        self.sending.lock().ring = Some(ring);
        let (sender, room) = (Arc::clone(self), rings.back.producer_bell());
        thread::spawn("inet/room", policy, move || sender.tend(&room))?;
        Ok(())
    }
    /// Body of the thread that sends what found no room.
    fn tend(&self, room: &Bell) -> ! {
        loop {
            let ticket = self.crowded.ticket();
            // The wait for room is announced if some is left.
            self.send(|_, _| ());
            if self.sending.lock().outbox.is_empty() {
                self.crowded.wait(ticket, None);
            } else {
                room.wait(None);
            }
        }
    }
    /// Dies: nothing is posted any more.
    #[cfg(not(target_os = "none"))]
    pub(crate) fn die(&self) {
        let mut sending = self.sending.lock();
        (sending.ring, sending.is_dead) = (None, true);
        sending.outbox.clear();
    }
    /// Posts records, as `put` makes them; the second argument is empty memory for a body.
    pub(crate) fn send(&self, put: impl FnOnce(&mut Outbox, &mut Vec<u8>)) {
        let (doorbell, is_crowded) = {
            let sending = &mut *self.sending.lock();
            if sending.is_dead {
                return;
            }
            sending.body.clear();
            put(&mut sending.outbox, &mut sending.body);
            (sending.flush(), !sending.outbox.is_empty())
        };
        if is_crowded {
            self.crowded.signal();
        }
        match (doorbell, self.bell.get()) {
            (Ok(doorbell), Some(bell)) => bell.answer(doorbell),
            (Err(Corrupt), _) => log::error!("inet: the client's count of records is impossible"),
            (Ok(_), None) => {}
        }
    }
    /// Holds the client's bell back until the result is dropped: records of one piece of work wake the client once.
    pub(crate) fn hold_bell(&self) -> HeldBell<'_> {
        self.sending.lock().holders += 1;
        HeldBell(self)
    }
    /// Wakes the client for all records, those of other threads too, until the result is dropped: the caller waits for the client.
    pub(crate) fn free_bell(&self) -> FreeBell<'_> {
        self.ring(|sending| sending.waiters += 1);
        FreeBell(self)
    }
    /// Changes the counts, and wakes the client for the records that were posted while the bell was held back.
    fn ring(&self, change: impl FnOnce(&mut Sending)) {
        let is_owed = {
            let sending = &mut *self.sending.lock();
            change(sending);
            core::mem::take(&mut sending.is_owed)
        };
        if is_owed && let Some(bell) = self.bell.get() {
            bell.answer(Doorbell::Ring);
        }
    }
    /// Posts a record without a body.
    pub(crate) fn tell(&self, kind: u8, number: u32, value: u64) {
        self.send(|outbox, _| {
            outbox.put(&Record { kind, number, value, ..Record::default() });
        });
    }
}

/// Holds the client's bell back. Its drop wakes the client.
pub(crate) struct HeldBell<'a>(&'a RecordSender);

impl Drop for HeldBell<'_> {
    fn drop(&mut self) {
        self.0.ring(|sending| sending.holders -= 1);
    }
}

/// Holds back no bell. Its drop allows it again.
pub(crate) struct FreeBell<'a>(&'a RecordSender);

impl Drop for FreeBell<'_> {
    fn drop(&mut self) {
        self.0.sending.lock().waiters -= 1;
    }
}

impl FarClient for RecordSender {
    fn delivered(&self, stream: EndNumber, segments: &mut Vec<PacketSegment>) {
        self.send(|outbox, body| {
            put_parts(body, segments, Frame::is_of_client);
            let (kind, number) = (back::DELIVERED, stream.0);
            outbox.put(&Record { kind, number, body, ..Record::default() });
        });
        segments.clear();
    }
    fn changed(&self, stream: EndNumber, change: StreamChange) {
        let (kind, value) = match change {
            StreamChange::Acknowledged(to) => (back::ACKNOWLEDGED, to),
            StreamChange::Entered(state) => (back::ENTERED, state.bits().into()),
            StreamChange::Failed(error) => (back::FAILED, error as u64),
            StreamChange::Urgent => (back::URGENT, 0),
            StreamChange::Notified(events) => (back::NOTIFIED, events.bits().into()),
            StreamChange::Awaits(bytes) => (back::AWAITS, bytes as u64),
            StreamChange::Grows(bytes) => (back::GROWS, bytes as u64),
            StreamChange::Kept(words) => {
                return self.send(|outbox, body| {
                    words.iter().for_each(|word| body.extend_from_slice(&word.to_le_bytes()));
                    let (kind, number) = (back::KEPT, stream.0);
                    outbox.put(&Record { kind, number, body, ..Record::default() });
                });
            }
        };
        self.tell(kind, stream.0, value);
    }
    fn queue_changed(&self, queue: EndNumber, change: QueueChange) {
        match change {
            QueueChange::Failed(error) => {
                self.tell(back::QUEUE_FAILED, queue.0, error as u64);
            }
            QueueChange::Pushed(datagram) => self.send(|outbox, body| {
                put_datagram(&datagram, body, Frame::is_of_client);
                let (kind, number) = (back::PUSHED, queue.0);
                outbox.put(&Record { kind, number, body, ..Record::default() });
            }),
            QueueChange::Reported(report) => self.send(|outbox, body| {
                put_report(&report, body, Frame::is_of_client);
                let (kind, number) = (back::REPORTED, queue.0);
                outbox.put(&Record { kind, number, body, ..Record::default() });
            }),
        }
    }
    fn dropped(&self, end: EndNumber) {
        self.tell(back::DROPPED, end.0, 0);
    }
}

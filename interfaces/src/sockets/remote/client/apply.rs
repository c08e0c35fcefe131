//! The client's part of what the stack does: records become changes of streams, queues and cards.
use super::{
    super::{
        cells::{Cell, PartBytes, RecordRead, take_parts},
        kinds::back,
        packets::{take_datagram, take_packet, take_report},
    },
    NetworkProxy,
    handed::ReturnedBuffer,
    stream::{ChildStart, RemoteStream, RemoteStreamHandle},
};
use crate::{
    marshal::{Marshal, decode},
    nic::PacketSegment,
    sockets::{EndNumber, FrameSource, KEPT_WORDS, SocketError, SocketEvents, StreamState},
};
use alloc::{sync::Arc, vec::Vec};
use rt::{
    memory::{Frame, FrameId},
    ring::{Corrupt, Doorbell},
};

/// Records of the stack are taken in such batches under one hold of the lock.
const BATCH: usize = 64;

/// The record that is being read, and memory.
#[derive(Default)]
pub(super) struct Applying {
    record: RecordRead,
    cells: Vec<Cell>,
    segments: Vec<PacketSegment>,
}

impl Applying {
    /// Forgets a record that is not whole.
    pub(super) fn clear(&mut self) {
        self.record.clear();
    }
}

impl NetworkProxy {
    /// Takes records until there are none. A record that another thread has taken has come about, too, when this returns.
    pub(super) fn apply_all(&self) {
        let mut applying = self.applying.lock();
        loop {
            let mut cells = core::mem::take(&mut applying.cells);
            let mut room = Doorbell::Silent;
            let taken = {
                let mut linked = self.link.lock();
                let received = &mut linked.traffic.received;
                let mut take = || {
                    while cells.len() < BATCH
                        && let Some((cell, doorbell)) = received.pop()?
                    {
                        cells.push(cell);
                        if doorbell == Doorbell::Ring {
                            room = doorbell;
                        }
                    }
                    if cells.len() < BATCH { received.wait_begins() } else { Ok(false) }
                };
                take()
            };
            self.stack_room.answer(room);
            let result = cells.drain(..).try_for_each(|cell| self.apply_cell(&mut applying, &cell));
            applying.cells = cells;
            match result.and(taken) {
                Ok(false) => {}
                Ok(true) => return,
                Err(Corrupt) => {
                    applying.clear();
                    drop(applying);
                    return self.link.break_off();
                }
            }
        }
    }
    /// Adds a cell to the record, and does what the record says if it is whole.
    ///
    /// # Errors
    /// [`Corrupt`].
    pub(super) fn apply_cell(&self, applying: &mut Applying, cell: &Cell) -> Result<(), Corrupt> {
        if !applying.record.add(cell)? {
            return Ok(());
        }
        let Applying { record, segments, .. } = applying;
        match record.kind {
            back::RELEASED => self.take_back(&record.body),
            back::PACKET => self.send_packet(record),
            back::COMMAND => self.note_command(record),
            back::NOTICE => self.administration.heard(&record.body),
            back::SEEN => self.taps.heard(&record.body),
            back::PUSHED | back::QUEUE_FAILED | back::REPORTED => self.change_queue(record),
            back::UNREADABLE => Err(Corrupt),
            back::MADE => self.make_stream(record),
            back::ARRIVED => self.bring_connection(record),
            back::DROPPED => {
                if let Some(stream) = self.forget_stream(EndNumber(record.number)) {
                    stream.dropped();
                }
                Ok(())
            }
            _ => match self.find_stream(record.number) {
                Some(stream) => self.change_stream(&stream, record, segments),
                // It is closed.
                None => Ok(()),
            },
        }
    }
    fn change_stream(
        &self,
        remote: &RemoteStream,
        record: &RecordRead,
        segments: &mut Vec<PacketSegment>,
    ) -> Result<(), Corrupt> {
        let (stream, value) = (remote.stream(), record.value);
        match record.kind {
            back::DELIVERED => {
                segments.clear();
                take_parts(&record.body, |part| {
                    segments.push(match part {
                        PartBytes::Inline(bytes) => remote.pack(bytes).ok_or(Corrupt)?,
                        PartBytes::Frame(id, offset, length) => {
                            PacketSegment { frame: self.kept(id)?, offset, length }
                        }
                    });
                    Ok(())
                })?;
                stream.deliver(segments);
            }
            back::ACKNOWLEDGED => {
                stream.acknowledge(value);
            }
            back::ENTERED => {
                let bits = u8::try_from(value).map_err(|_| Corrupt)?;
                remote.enter(StreamState::from_bits(bits).ok_or(Corrupt)?);
            }
            back::FAILED => stream.fail(error(value)?),
            back::URGENT => stream.announce_urgent(),
            back::NOTIFIED => {
                let bits = u8::try_from(value).map_err(|_| Corrupt)?;
                stream.observer().notify(SocketEvents::from_bits(bits).ok_or(Corrupt)?);
            }
            back::KEPT => {
                let words: [u64; KEPT_WORDS] = decode(&record.body).ok_or(Corrupt)?;
                stream.kept().store(&words);
            }
            back::AWAITS => {
                if stream.await_room(usize::try_from(value).map_err(|_| Corrupt)?) {
                    remote.tell_read();
                }
            }
            back::GROWS => {
                stream.grow_receive_limit(usize::try_from(value).map_err(|_| Corrupt)?);
            }
            _ => return Err(Corrupt),
        }
        Ok(())
    }
    /// Returns a frame that the client keeps.
    fn kept(&self, id: FrameId) -> Result<Frame, Corrupt> {
        let frame = self.frames.find(id).ok_or(Corrupt)?;
        self.handed.keep(id);
        Ok(frame)
    }
    fn change_queue(&self, record: &RecordRead) -> Result<(), Corrupt> {
        let Some(queue) = self.find_queue(record.number) else { return Ok(()) };
        match record.kind {
            back::PUSHED => {
                let datagram = take_datagram(&record.body, |part| self.part(part))?;
                queue.push(datagram);
            }
            back::REPORTED => queue.report(take_report(&record.body, |part| self.part(part))?),
            _ => queue.fail(error(record.value)?),
        }
        Ok(())
    }
    /// Makes a segment of a part. Bytes that stand in no frame get one.
    fn part(&self, part: PartBytes<'_>) -> Result<PacketSegment, Corrupt> {
        match part {
            PartBytes::Frame(id, offset, length) => {
                Ok(PacketSegment { frame: self.kept(id)?, offset, length })
            }
            PartBytes::Inline(bytes) => {
                let frame = Frame::zeroed().map_err(|_| Corrupt)?;
                let length = frame.write(0, bytes) as u32;
                Ok(PacketSegment { frame, offset: 0, length })
            }
        }
    }
    fn send_packet(&self, record: &RecordRead) -> Result<(), Corrupt> {
        let card = self.cards.get(record.number as usize).ok_or(Corrupt)?;
        let packet = take_packet(record.value, &record.body, |part| self.part(part))?;
        card.send(self.epoch(), packet);
        Ok(())
    }
    fn note_command(&self, record: &RecordRead) -> Result<(), Corrupt> {
        let command = decode(&record.body).ok_or(Corrupt)?;
        let entry = (self.epoch(), record.number, record.value, command);
        self.commands.lock().push_back(entry);
        self.commanded.signal();
        Ok(())
    }
    fn take_back(&self, mut body: &[u8]) -> Result<(), Corrupt> {
        let mut buffers = Vec::new();
        while !body.is_empty() {
            let (id, count) = Marshal::take(&mut body).ok_or(Corrupt)?;
            buffers.extend(self.handed.take_back(FrameId(id), count));
        }
        self.lend_again(buffers.into_iter());
        Ok(())
    }
    /// Lends buffers to their cards again, those of a card that stand together in one call.
    pub(super) fn lend_again(&self, buffers: impl Iterator<Item = ReturnedBuffer>) {
        let mut buffers = buffers.peekable();
        while let Some(&ReturnedBuffer { card: number, .. }) = buffers.peek() {
            let of_card = core::iter::from_fn(|| buffers.next_if(|one| one.card == number));
            let lent = of_card.map(|ReturnedBuffer { number, frame, .. }| (number, frame));
            match self.cards.get(number as usize) {
                Some(card) => card.lend(lent),
                None => lent.for_each(drop),
            }
        }
    }
    fn make_stream(&self, record: &RecordRead) -> Result<(), Corrupt> {
        let number = EndNumber(record.number);
        if !number.is_of_stack() || self.find_stream(number.0).is_some() {
            return Err(Corrupt);
        }
        let listener = u32::try_from(record.value).ok().and_then(|one| self.find_stream(one));
        let made = listener.and_then(|listener| {
            let stream = listener.acceptor()?.stream()?;
            Some((listener, stream))
        });
        let Some((listener, stream)) = made else {
            self.refuse(number);
            return Ok(());
        };
        self.prepare(number, &stream);
        let this = self.itself().ok_or(Corrupt)?;
        let families = listener.families();
        let child = ChildStart {
            options: listener.options(),
            names: (super::stream::unspecified(families), None),
            epoch: self.epoch(),
        };
        let remote = Arc::new(RemoteStream::new(this, (number, stream), families, Some(child)));
        self.add_stream(number, &remote);
        Ok(())
    }
    fn bring_connection(&self, record: &RecordRead) -> Result<(), Corrupt> {
        let (local, peer) = decode(&record.body).ok_or(Corrupt)?;
        let peer = Option::ok_or(peer, Corrupt)?;
        let Some(remote) = self.find_stream(record.number) else { return Ok(()) };
        remote.set_names((local, peer));
        let listener = u32::try_from(record.value).ok().and_then(|one| self.find_stream(one));
        match listener.and_then(|listener| Some((listener.acceptor()?, listener))) {
            Some((acceptor, listener)) => {
                listener.note_arrival((local, peer));
                acceptor.arrived(remote.stream(), Arc::new(RemoteStreamHandle(remote)));
            }
            None => self.refuse(remote.number()),
        }
        Ok(())
    }
}

/// Returns the error of that number.
fn error(value: u64) -> Result<SocketError, Corrupt> {
    let byte = u8::try_from(value).map_err(|_| Corrupt)?;
    decode(&[byte]).ok_or(Corrupt)
}

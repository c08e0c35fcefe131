//! [`FarCard`]: a card whose driver the client of a stack in another world uses for it.
//!
//! The client lends buffers to the card, and hands their frames to the stack with each packet. It gets them back when the stack has
//! dropped them, so the stack lends nothing.
use super::{
    calls::{CardAnswer, CardCommand},
    cells::{PartBytes, Record, RecordRead, take_parts},
    kinds::back,
    packets::put_packet,
    sender::RecordSender,
};
use crate::{
    marshal::Marshal,
    nic::{
        Filter, Lead, LinkState, MacAddress, Nic, NicError, NicInfo, NicSink, NicStatistics,
        Offloads, Packet, ReceiveBuffer, Received, ReceivedPiece, SendSink, Sent,
    },
};
use alloc::{collections::BTreeMap, sync::Arc, vec::Vec};
use rt::{
    lock_class,
    memory::Frame,
    ring::Corrupt,
    sync::{Event, Mutex},
};

lock_class! {
    static CARD = "network.card";
}

/// A packet that the client has not ended.
struct CardFlight {
    sent: Sent,
    sink: Arc<dyn SendSink>,
}

/// The state that changes.
#[derive(Default)]
struct CardState {
    sink: Option<Arc<dyn NicSink>>,
    link: Option<LinkState>,
    mac: Option<MacAddress>,
    flights: BTreeMap<u64, CardFlight>,
    next_tag: u64,
    next_command: u64,
    /// Answers to commands that nobody has taken.
    answers: BTreeMap<u64, CardAnswer>,
}

/// A card behind the client.
pub(crate) struct FarCard {
    number: u32,
    info: NicInfo,
    post: Arc<RecordSender>,
    state: Mutex<CardState>,
    answered: Event,
}

impl FarCard {
    /// Makes the card number `number`, whose driver describes it so.
    pub(crate) fn new(number: u32, info: NicInfo, post: Arc<RecordSender>) -> FarCard {
        // The client lends the buffers, so the stack needs none.
        let info = NicInfo { buffers: 0, ..info };
        let state = Mutex::new(&CARD, CardState::default());
        FarCard { number, info, post, state, answered: Event::new() }
    }
    /// Takes a packet that came.
    ///
    /// # Errors
    /// [`Corrupt`].
    pub(crate) fn receive(
        &self,
        entry: &RecordRead,
        batch: &mut Vec<Received>,
    ) -> Result<(), Corrupt> {
        let mut pieces = Vec::new();
        let mut body = entry.body.as_slice();
        let (checksum, segmentation) = Marshal::take(&mut body).ok_or(Corrupt)?;
        take_parts(body, |part| {
            let PartBytes::Frame(id, offset, length) = part else { return Err(Corrupt) };
            let frame = Frame::handed(id).ok_or(Corrupt)?;
            pieces.push(ReceivedPiece {
                buffer: ReceiveBuffer { number: 0, frame },
                offset: offset as u16,
                length: length as u16,
                lead: Lead::default(),
            });
            Ok(())
        })?;
        let mut pieces = pieces.into_iter();
        let first = pieces.next().ok_or(Corrupt)?;
        batch.push(Received { first, more: pieces.collect(), checksum, segmentation });
        Ok(())
    }
    /// Gives packets to the stack.
    pub(crate) fn bring(&self, batch: &mut Vec<Received>) {
        let sink = self.state.lock().sink.clone();
        if let Some(sink) = sink {
            sink.received(batch);
        }
        batch.clear();
    }
    /// Ends packets.
    pub(crate) fn end(&self, entry: &RecordRead) {
        let mut ended = Vec::new();
        {
            let mut state = self.state.lock();
            for tag in entry.body.as_chunks::<8>().0 {
                ended.extend(state.flights.remove(&u64::from_le_bytes(*tag)));
            }
        }
        for CardFlight { sent, sink } in ended {
            sink.sent(&mut Vec::from([sent]));
        }
    }
    /// Notes the state of the link.
    pub(crate) fn note_link(&self, link: LinkState) {
        let sink = {
            let mut state = self.state.lock();
            state.link = Some(link);
            state.sink.clone()
        };
        if let Some(sink) = sink {
            sink.link(link);
        }
    }
    /// Has the stack tell the network of its addresses.
    pub(crate) fn announce(&self) {
        let sink = self.state.lock().sink.clone();
        if let Some(sink) = sink {
            sink.announce();
        }
    }
    /// Takes the answer to a command.
    pub(crate) fn answer(&self, command: u64, answer: CardAnswer) {
        self.state.lock().answers.insert(command, answer);
        self.answered.signal();
    }
    /// Has the client do `command`, and waits for its end.
    fn command(&self, command: &CardCommand) -> CardAnswer {
        let number = {
            let mut state = self.state.lock();
            state.next_command += 1;
            state.next_command
        };
        self.post.send(|outbox, body| {
            command.put(body);
            let (kind, card, value) = (back::COMMAND, self.number, number);
            outbox.put(&Record { kind, number: card, value, body, ..Record::default() });
        });
        let _free = self.post.free_bell();
        loop {
            let ticket = self.answered.ticket();
            if let Some(answer) = self.state.lock().answers.remove(&number) {
                return answer;
            }
            self.answered.wait(ticket, None);
        }
    }
}

impl Nic for FarCard {
    fn info(&self) -> NicInfo {
        let state = self.state.lock();
        NicInfo {
            mac: state.mac.unwrap_or(self.info.mac),
            link: state.link.unwrap_or(self.info.link),
            ..self.info.clone()
        }
    }
    fn set_sink(&self, sink: Arc<dyn NicSink>) {
        self.state.lock().sink = Some(sink);
    }
    fn submit(&self, batch: &mut Vec<Packet>, sink: &Arc<dyn SendSink>) {
        let mut tagged = Vec::with_capacity(batch.len());
        {
            let mut state = self.state.lock();
            let room = self.info.depth.saturating_sub(state.flights.len()).min(batch.len());
            for mut packet in batch.drain(..room) {
                let sent =
                    Sent { tag: packet.tag, result: Ok(()), segments: packet.segments.clone() };
                state.next_tag += 1;
                packet.tag = state.next_tag;
                state.flights.insert(packet.tag, CardFlight { sent, sink: Arc::clone(sink) });
                tagged.push(packet);
            }
        }
        self.post.send(|outbox, body| {
            for packet in &tagged {
                body.clear();
                put_packet(packet, body, Frame::is_of_client);
                let (kind, number, value) = (back::PACKET, self.number, packet.tag);
                outbox.put(&Record { kind, number, value, body, ..Record::default() });
            }
        });
    }
    fn lend(&self, buffers: &mut Vec<ReceiveBuffer>) {
        // The drop of the last reference to a frame gives the buffer back.
        buffers.clear();
    }
    fn lend_unused(&self, buffers: &mut Vec<ReceiveBuffer>) {
        buffers.clear();
    }
    fn set_mac(&self, mac: &MacAddress) -> Result<(), NicError> {
        self.command(&CardCommand::Mac(*mac))?;
        self.state.lock().mac = Some(*mac);
        Ok(())
    }
    fn set_filter(&self, filter: &Filter) -> Result<(), NicError> {
        self.command(&CardCommand::Filter(filter.clone())).map(drop)
    }
    fn set_offloads(&self, offloads: Offloads) -> Result<(), NicError> {
        self.command(&CardCommand::Offloads(offloads.bits())).map(drop)
    }
    fn set_pairs(&self, pairs: u16) -> Result<(), NicError> {
        self.command(&CardCommand::Pairs(pairs)).map(drop)
    }
    fn statistics(&self) -> NicStatistics {
        self.command(&CardCommand::Statistics).ok().flatten().unwrap_or_default()
    }
}

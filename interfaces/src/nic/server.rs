//! The driver's side: [`NicService`] gives any [`Nic`] the packets and buffers that come through rings.
//!
//! A [`NicSession`] is one client's rings: a thread takes packets and buffers, batch by batch as they come; ends and received
//! packets go into the other ring on whatever thread brings them. A malformed entry ends the session; the client then ends the
//! driver.
use super::{
    HeaderBytes, LinkState, Nic, NicError, NicSink, NicStatistics, Offloads, Packet, PacketSegment,
    ReceiveBuffer, Received, SendSink, Sent,
    control::{FilterMessage, MacBytes, NicControl, NicDescription},
    entries::{self, BackEntry, ForthEntry, SENDS, SegmentEntry},
};
use crate::{AttachError, link::Rings};
use alloc::{format, sync::Arc, vec, vec::Vec};
use rt::{
    lock_class,
    memory::{Frame, FrameId, Region},
    ring::{Bell, Consumer, Corrupt, Doorbell, Part, Producer},
    sync::{Event, Mutex},
    thread::{self, Policy},
};

lock_class! {
    static SESSION = "nic.session";
    static SENDING = "nic.news";
}

const SERVER_NICE: i8 = -10;
/// The greatest number of entries taken at once.
const BATCH: usize = 64;
/// Tag value for no packet. No slot of the client has this number.
const NOT_HELD: u64 = u64::MAX;

/// Serves a network interface to one client.
pub struct NicService {
    nic: Arc<dyn Nic>,
    session: Mutex<Option<Arc<NicSession>>>,
}

impl NicService {
    /// Makes a service for `nic`. It takes packets once rings are attached.
    pub fn new(nic: Arc<dyn Nic>) -> NicService {
        NicService { nic, session: Mutex::new(&SESSION, None) }
    }
}

impl NicControl for NicService {
    fn describe(&self) -> Option<NicDescription> {
        Some(NicDescription::of(&self.nic.info()))
    }

    fn detach(&self) -> Option<()> {
        let mut session = self.session.lock();
        if let Some(before) = &*session {
            before.close()?;
        }
        *session = None;
        Some(())
    }

    fn attach(&self, rings: Region) -> Result<(), AttachError> {
        let mut session = self.session.lock();
        let rings = Rings::of(rings, entries::RINGS)?;
        if let Some(before) = &*session {
            before.close().ok_or(AttachError::Lost)?;
            rings.take_over();
        }
        *session = None;
        let (news, forth) = rings.driver()?;
        let fresh = Arc::new(NicSession::new(&rings, news));
        let (ours, nic) = (fresh.clone(), self.nic.clone());
        let policy = Policy::Fair { nice: SERVER_NICE };
        let name = format!("{}/rings", nic.info().name);
        self.nic.set_sink(fresh.clone());
        thread::spawn(&name, policy, move || ours.serve(&*nic, forth))?;
        *session = Some(fresh);
        Ok(())
    }

    fn is_sending(&self, tag: u64) -> Option<bool> {
        let session = self.session.lock().clone();
        let is_sending = session.is_some_and(|session| session.holds(tag));
        self.nic.look_again();
        Some(is_sending)
    }

    fn set_mac(&self, mac: MacBytes) -> Result<(), NicError> {
        self.nic.set_mac(&mac)
    }

    fn set_filter(&self, filter: FilterMessage) -> Result<(), NicError> {
        self.nic.set_filter(&filter.filter().ok_or(NicError::Invalid)?)
    }

    fn set_offloads(&self, offloads: u32) -> Result<(), NicError> {
        self.nic.set_offloads(Offloads::from_bits(offloads).ok_or(NicError::Invalid)?)
    }

    fn set_pairs(&self, pairs: u16) -> Result<(), NicError> {
        self.nic.set_pairs(pairs)
    }

    fn statistics(&self) -> Option<NicStatistics> {
        Some(self.nic.statistics())
    }
}

impl core::fmt::Debug for NicService {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("NicService").finish_non_exhaustive()
    }
}

struct NewsSending {
    news: Producer<Part, BackEntry>,
    /// The last tag at each slot number, until the packet's end.
    held: Vec<u64>,
    /// A change of the link for which there was no room.
    link: Option<LinkState>,
    /// Something came through the rings.
    is_used: bool,
    /// Packets wait for room at the device.
    has_waiting: bool,
    is_closed: bool,
    /// The session's thread has ended.
    is_over: bool,
}

impl NewsSending {
    fn push(&mut self, entry: &BackEntry, doorbell: &mut Doorbell) {
        match self.news.push(entry) {
            Ok(Doorbell::Ring) => *doorbell = Doorbell::Ring,
            Ok(Doorbell::Silent) => {}
            Err(_) => log::error!("a client's ring of packets is full or corrupt"),
        }
    }
}

/// Returns the number of the client's slot, the lower half of the tag.
fn place_of(tag: u64) -> usize {
    tag as u32 as usize
}

/// The session of one client: its rings.
struct NicSession {
    sending: Mutex<NewsSending>,
    /// Signalled when the session's thread has ended.
    ended: Event,
    forth_bell: Bell,
    news_bell: Bell,
}

/// Packets and buffers that came out of the ring.
#[derive(Default)]
struct Gathered {
    packets: Vec<Packet>,
    buffers: Vec<ReceiveBuffer>,
    /// A packet of which the second entry is missing.
    partial: Option<Packet>,
}

impl Gathered {
    /// Takes one entry.
    ///
    /// # Errors
    /// [`Corrupt`]: the entry is no part of anything.
    fn add(&mut self, entry: &ForthEntry) -> Result<(), Corrupt> {
        let count = usize::from(entry.count);
        match (entry.kind, self.partial.take()) {
            (entries::PACKET, None) => {
                let packet = decode_packet(entry)?;
                match entry.flags & entries::MORE {
                    0 => self.packets.push(packet),
                    _ => self.partial = Some(packet),
                }
            }
            (entries::MORE_SEGMENTS, Some(mut packet)) if packet.tag == entry.tag => {
                let segments = entry.more_segments();
                decode_segments(segments.get(..count).ok_or(Corrupt)?, &mut packet.segments)?;
                self.packets.push(packet);
            }
            (entries::LEND, None) => {
                for buffer in entry.buffers().get(..count).ok_or(Corrupt)? {
                    let frame = Frame::lent(FrameId(buffer.frame)).ok_or(Corrupt)?;
                    self.buffers.push(ReceiveBuffer { number: buffer.number, frame });
                }
            }
            _ => return Err(Corrupt),
        }
        Ok(())
    }
}

fn decode_packet(entry: &ForthEntry) -> Result<Packet, Corrupt> {
    let (checksum, segmentation) = entry.offloads().ok_or(Corrupt)?;
    let header = entry.bytes.get(..entry.header_length.into()).ok_or(Corrupt)?;
    let header = HeaderBytes::new(header).ok_or(Corrupt)?;
    let said = entry.segments.get(..entry.count.into()).ok_or(Corrupt)?;
    let mut segments = Vec::with_capacity(said.len());
    decode_segments(said, &mut segments)?;
    let (tag, flow) = (entry.tag, entry.flow);
    Ok(Packet { tag, header, segments, checksum, segmentation, flow })
}

fn decode_segments(
    said: &[SegmentEntry],
    segments: &mut Vec<PacketSegment>,
) -> Result<(), Corrupt> {
    for SegmentEntry { frame, offset, length } in said {
        let frame = Frame::lent(FrameId(*frame)).ok_or(Corrupt)?;
        segments.push(PacketSegment { frame, offset: (*offset).into(), length: (*length).into() });
    }
    Ok(())
}

impl NicSession {
    fn new(rings: &Rings, news: Producer<Part, BackEntry>) -> NicSession {
        let sending = NewsSending {
            news,
            held: vec![NOT_HELD; SENDS],
            link: None,
            is_used: false,
            has_waiting: false,
            is_closed: false,
            is_over: false,
        };
        NicSession {
            sending: Mutex::new(&SENDING, sending),
            ended: Event::new(),
            forth_bell: rings.forth.consumer_bell(),
            news_bell: rings.back.consumer_bell(),
        }
    }

    /// Ends a session through which nothing came; `None` for others. Blocks until its thread has ended.
    fn close(&self) -> Option<()> {
        {
            let mut sending = self.sending.lock();
            if sending.is_used {
                return None;
            }
            sending.is_closed = true;
        }
        self.forth_bell.ring();
        loop {
            let ticket = self.ended.ticket();
            let (is_over, is_used) = {
                let sending = self.sending.lock();
                (sending.is_over, sending.is_used)
            };
            if is_over {
                return (!is_used).then_some(());
            }
            self.ended.wait(ticket, None);
        }
    }

    /// Returns whether the packet with that tag came and has not ended.
    fn holds(&self, tag: u64) -> bool {
        let is_held = self.sending.lock().held.get(place_of(tag)) == Some(&tag);
        if !is_held {
            self.forth_bell.ring();
        }
        is_held
    }

    /// Body of the session's thread.
    fn serve(self: Arc<NicSession>, nic: &dyn Nic, mut forth: Consumer<Part, ForthEntry>) {
        let sink: Arc<dyn SendSink> = self.clone();
        let mut gathered = Gathered::default();
        // Packets for which the device has no room come before those that are gathered.
        let mut waiting = Vec::new();
        loop {
            let taken = gather(&mut forth, &mut gathered);
            if self.note(&gathered) {
                break;
            }
            if !gathered.buffers.is_empty() {
                nic.lend(&mut gathered.buffers);
            }
            waiting.append(&mut gathered.packets);
            if !waiting.is_empty() {
                // Noted before the device is asked, so that an end meanwhile rings.
                self.sending.lock().has_waiting = true;
                nic.submit(&mut waiting, &sink);
                self.sending.lock().has_waiting = !waiting.is_empty();
            }
            match taken {
                Ok(false) => {}
                Ok(true) => {
                    self.forth_bell.wait(None);
                }
                Err(Corrupt) => break,
            }
        }
        let mut sending = self.sending.lock();
        if !sending.is_closed {
            log::error!("{}: its client breaks the protocol of the rings", nic.info().name);
        }
        sending.is_over = true;
        drop(sending);
        self.ended.signal();
    }

    /// Notes what came. Returns whether the session is closed.
    fn note(&self, gathered: &Gathered) -> bool {
        let mut sending = self.sending.lock();
        for packet in &gathered.packets {
            if let Some(place) = sending.held.get_mut(place_of(packet.tag)) {
                *place = packet.tag;
            }
        }
        sending.is_used |= !gathered.packets.is_empty() || !gathered.buffers.is_empty();
        sending.is_closed
    }

    /// Puts entries into the ring, as `push` makes them, behind a change of the link that waits.
    fn tell(&self, push: impl FnOnce(&mut NewsSending, &mut Doorbell)) {
        let mut doorbell = Doorbell::Silent;
        {
            let mut sending = self.sending.lock();
            if sending.is_closed {
                return;
            }
            push(&mut sending, &mut doorbell);
            if let Some(state) = sending.link {
                let entry = BackEntry::event(entries::LINK, (state == LinkState::Up).into());
                if let Ok(rings) = sending.news.push(&entry) {
                    sending.link = None;
                    if rings == Doorbell::Ring {
                        doorbell = Doorbell::Ring;
                    }
                }
            }
        }
        self.news_bell.answer(doorbell);
    }
}

/// Takes the entries in the ring, up to a batch. At a malformed one it takes those before it. Returns whether the ring was
/// emptied, and the wait for more announced.
fn gather(
    forth: &mut Consumer<Part, ForthEntry>,
    gathered: &mut Gathered,
) -> Result<bool, Corrupt> {
    let waiting = forth.waiting()?.min(BATCH as u64);
    for _ in 0..waiting {
        let Some((entry, _)) = forth.pop()? else { break };
        gathered.add(&entry)?;
    }
    if waiting < BATCH as u64 { forth.wait_begins() } else { Ok(false) }
}

impl SendSink for NicSession {
    fn sent(&self, batch: &mut Vec<Sent>) {
        let mut has_waiting = false;
        self.tell(|sending, doorbell| {
            for sent in batch.drain(..) {
                if let Some(place) = sending.held.get_mut(place_of(sent.tag)) {
                    *place = NOT_HELD;
                }
                sending.push(&BackEntry::sent(sent.tag, sent.result), doorbell);
            }
            has_waiting = sending.has_waiting;
        });
        if has_waiting {
            self.forth_bell.ring();
        }
    }
}

impl NicSink for NicSession {
    fn received(&self, batch: &mut Vec<Received>) {
        self.tell(|sending, doorbell| {
            for one in batch.drain(..) {
                let last = one.more.len();
                for (index, piece) in one.pieces().enumerate() {
                    let mut entry =
                        BackEntry::piece(piece, if index < last { entries::MORE } else { 0 });
                    if index == 0 {
                        entry.note(one.checksum, one.segmentation);
                    }
                    sending.push(&entry, doorbell);
                }
            }
        });
    }

    fn link(&self, state: LinkState) {
        self.tell(|sending, _| sending.link = Some(state));
    }

    fn announce(&self) {
        self.tell(|sending, doorbell| {
            sending.push(&BackEntry::event(entries::ANNOUNCE, 0), doorbell);
        });
    }
}

#[cfg(test)]
impl NicService {
    /// Kills the session: from now on its thread does nothing, and nothing reaches the client.
    pub(super) fn die(&self) {
        let Some(session) = self.session.lock().take() else { return };
        {
            let mut sending = session.sending.lock();
            (sending.is_closed, sending.is_used) = (true, false);
        }
        session.forth_bell.ring();
        loop {
            let ticket = session.ended.ticket();
            if session.sending.lock().is_over {
                return;
            }
            session.ended.wait(ticket, None);
        }
    }
}

//! Opening a connection (RFC 9293 section 3.5): SYNs, their options, Fast Open (RFC 7413).
use super::{
    Connection, Reset,
    acks::AckKind,
    settings::{DEFAULT_MSS, Ecn, MIN_MSS, Settings},
    types::{Arrival, FastOpen, TcpEvents, TcpState},
};
use crate::{
    clock::{NEVER, tick},
    receive::acknowledge::Acknowledge,
    wire::{
        secret::{Flow, OwnNumbers, Secret},
        segment::{FastOpenCookie, TcpFlags, TcpSegment},
        sequence::Origin,
    },
};
use alloc::boxed::Box;

/// The features that this side's settings and the peer's SYN agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Agreement {
    /// Selective acknowledgements.
    pub(crate) has_sack: bool,
    /// Timestamps.
    pub(crate) has_timestamps: bool,
    /// Congestion notification.
    pub(crate) has_ecn: bool,
    /// Shift of the peer's window field; `None` without window scaling.
    pub(crate) scale: Option<u8>,
}

impl Agreement {
    /// Compares the settings with a SYN or a SYN-ACK.
    pub(crate) fn new(settings: &Settings, syn: &TcpSegment) -> Agreement {
        let options = &syn.options;
        let ece = syn.flags.intersection(TcpFlags::ECE | TcpFlags::CWR);
        Agreement {
            has_sack: settings.sack && options.sack_permitted,
            has_timestamps: settings.timestamps && options.timestamps.is_some(),
            has_ecn: if syn.has(TcpFlags::ACK) {
                settings.ecn == Ecn::Request && ece == TcpFlags::ECE
            } else {
                settings.ecn != Ecn::Off && ece == TcpFlags::ECE | TcpFlags::CWR
            },
            scale: options.wscale.filter(|_| settings.window_scaling).map(|scale| scale.min(14)),
        }
    }
}

impl Connection {
    /// Opens a connection to a peer. The SYN is the first segment that [`Connection::output`] gives. `room` is the size of the
    /// receive buffer in bytes.
    pub fn connect(
        now_ns: u64,
        flow: &Flow,
        secret: &Secret,
        settings: Settings,
        room: u64,
        fast_open: FastOpen,
    ) -> Box<Connection> {
        let iss = secret.initial_sequence(flow, now_ns);
        let numbers = OwnNumbers { iss, clock_offset: secret.timestamps_offset(flow) };
        Connection::connect_with(now_ns, numbers, &settings, room, fast_open)
    }

    /// Does the same with numbers that the caller has of the secret.
    pub fn connect_with(
        now_ns: u64,
        numbers: OwnNumbers,
        settings: &Settings,
        room: u64,
        fast_open: FastOpen,
    ) -> Box<Connection> {
        let mut connection = Connection::boxed(settings, numbers.iss, numbers.clock_offset);
        connection.state = TcpState::SynSent;
        connection.receive.window.set_room(room);
        connection.send.cookie = match fast_open {
            FastOpen::Off => None,
            FastOpen::Request => Some(FastOpenCookie::default()),
            FastOpen::Cookie(cookie) => Some(cookie),
        };
        connection.keepalive.heard_ns = now_ns;
        connection
    }

    /// Sets the initial sequence number, before the first [`Connection::output`]: the one that
    /// [`TimeWait::reuse_for_connect`](crate::TimeWait::reuse_for_connect) chose for the same ports.
    pub fn start_at(&mut self, iss: u32) {
        if self.state == TcpState::SynSent && self.send.nxt == 0 {
            self.send.origin = Origin(iss);
        }
    }

    /// Makes a connection whose SYN is to be sent one of a predecessor, which sent the SYN first at `syn_ns`: the peer may answer that
    /// one, and echo its timestamp.
    pub fn resume_at(&mut self, iss: u32, syn_ns: u64) {
        self.start_at(iss);
        self.send.syn_ns = syn_ns;
    }

    /// Makes the connection that answers a SYN, in SYN-RECEIVED.
    pub(crate) fn answer(
        now_ns: u64,
        settings: &Settings,
        syn: &TcpSegment,
        iss: u32,
        clock_offset: u32,
        room: u64,
    ) -> Box<Connection> {
        let mut connection = Connection::boxed(settings, iss, clock_offset);
        connection.state = TcpState::SynReceived;
        connection.receive.window.set_room(room);
        connection.take_syn(now_ns, syn);
        connection
    }

    /// Notes that a SYN-ACK was sent at these times: the first one, and the last one if it was repeated or the first is unknown.
    pub(crate) fn note_syn_ack(&mut self, first_ns: u64, repeated_ns: Option<u64>) {
        self.receive.window.advertise_unscaled(self.receive.received);
        self.sender.sent(0..1, first_ns);
        if let Some(repeated_ns) = repeated_ns {
            self.sender.sent(0..1, repeated_ns);
        }
        self.send.nxt = 1;
    }

    /// Gives the SYN of an open that nothing was sent of yet to an answerer in the hands of the same caller. `None` if more than a SYN
    /// is to be sent.
    pub(crate) fn give_syn(&mut self, now_ns: u64) -> Option<TcpSegment> {
        let is_plain = self.state == TcpState::SynSent
            && self.send.nxt == 0
            && self.send.cookie.is_none()
            && !self.send.is_closed
            && self.reset.is_none();
        is_plain.then(|| {
            self.totals.segments_out += 1;
            self.syn(now_ns).segment
        })
    }

    /// Gives the SYN-ACK of an answer whose peer takes it in the same step.
    pub(crate) fn give_syn_ack(&mut self, now_ns: u64) -> TcpSegment {
        self.syn_ack(now_ns).segment
    }

    /// Takes the SYN-ACK that answers [`Connection::give_syn`]. Returns the acknowledgement.
    pub(crate) fn take_syn_ack(&mut self, now_ns: u64, segment: &TcpSegment) -> TcpSegment {
        self.totals.segments_in += 1;
        self.take_syn(now_ns, segment);
        self.be_open(now_ns, segment);
        self.acks.be_quick(self.receive.window.size(self.receive.received));
        self.acks.demand();
        self.totals.segments_out += 1;
        self.bare_segment(now_ns)
    }

    /// Takes the acknowledgement of [`Connection::give_syn_ack`].
    pub(crate) fn take_last_of_open(&mut self, now_ns: u64, segment: &TcpSegment) {
        self.totals.segments_in += 1;
        self.be_open(now_ns, segment);
    }

    /// Enters ESTABLISHED: the SYN of this side went and came back acknowledged at once.
    fn be_open(&mut self, now_ns: u64, segment: &TcpSegment) {
        self.state = TcpState::Established;
        self.set_first_window(segment, 1);
        (self.send.una, self.send.nxt) = (1, 1);
        self.sender.exchange(1, now_ns);
        self.start(now_ns);
    }

    /// Takes the data of a SYN whose Fast Open cookie is right (RFC 7413 section 4.2). Data may be sent at once.
    pub(crate) fn take_syn_data(&mut self, now_ns: u64, syn: &TcpSegment) -> Arrival {
        self.receive.window.advertise_unscaled(1);
        self.send.is_early = true;
        self.start(now_ns);
        let mut arrival = Arrival::default();
        self.take_payload(now_ns, syn, 0, &mut arrival);
        arrival
    }

    /// Takes the sequence number and the options of the peer's SYN.
    pub(super) fn take_syn(&mut self, now_ns: u64, syn: &TcpSegment) {
        self.receive.origin = Origin(syn.seq);
        self.receive.received = 1;
        self.receive.acked = 1;
        let options = &syn.options;
        self.send.peer_mss = options.mss.unwrap_or(DEFAULT_MSS).max(MIN_MSS);
        let agreed = Agreement::new(&self.settings, syn);
        self.send.has_sack = agreed.has_sack;
        self.send.has_ecn = agreed.has_ecn;
        self.send.scale = agreed.scale.unwrap_or(0);
        self.receive.is_scaled = agreed.scale.is_some();
        if agreed.scale.is_none() {
            self.receive.window.set_scale(0);
        }
        self.clock.is_enabled = agreed.has_timestamps;
        self.clock.recent = options.timestamps.map_or(0, |clock| clock.value);
        self.clock.recent_ns = now_ns;
        self.update_mss();
        self.send.window_field = syn.window;
        self.send.edge = self.send.una + u64::from(syn.window);
        self.send.max_window = u64::from(syn.window);
        let hint = self.send.mss.min(u32::from(DEFAULT_MSS));
        self.acks = Acknowledge::new(hint);
    }

    /// Computes the payload of full segments from the peer's MSS, the path, and the timestamps.
    pub(super) fn update_mss(&mut self) {
        let mss = self.send.peer_mss.min(self.send.path_mss).max(MIN_MSS);
        let options = if self.clock.is_enabled { 12 } else { 0 };
        self.send.mss = u32::from(mss) - options;
    }

    /// Starts the transfer of data after the handshake.
    pub(super) fn start(&mut self, now_ns: u64) {
        self.sender
            .established(recovery::Options { mss: self.send.mss, has_sack: self.send.has_sack });
        self.keepalive.heard_ns = now_ns;
        self.arm_keepalive(now_ns);
        self.start_tuning(now_ns);
    }

    /// Handles a segment in SYN-SENT (RFC 9293 section 3.10.7.3).
    pub(super) fn input_syn_sent(&mut self, now_ns: u64, segment: &TcpSegment) -> Arrival {
        let has_ack = segment.has(TcpFlags::ACK);
        let acked = segment.ack.wrapping_sub(self.send.origin.number(0));
        let is_acceptable = acked >= 1 && u64::from(acked) <= 1 + self.send.syn_data;
        if has_ack
            && (!is_acceptable || self.send.nxt == 0 || self.is_foreign_echo(now_ns, segment))
        {
            if !segment.has(TcpFlags::RST) {
                self.reset = Some(Reset { seq: segment.ack, ack: None });
            }
            return Arrival::default();
        }
        if segment.has(TcpFlags::RST) {
            let events = if has_ack { self.be_reset() } else { TcpEvents::empty() };
            return Arrival { payload: None, events };
        }
        if !segment.has(TcpFlags::SYN) {
            return Arrival::default();
        }
        self.take_syn(now_ns, segment);
        if !has_ack {
            self.state = TcpState::SynReceived;
            self.is_syn_ack_due = true;
            return Arrival::default();
        }
        self.be_connected(now_ns, segment, u64::from(acked))
    }

    /// Whether the echoed timestamp is none that this side's SYNs carried (Linux: PAWSACTIVEREJECTED).
    fn is_foreign_echo(&self, now_ns: u64, segment: &TcpSegment) -> bool {
        let first = tick(self.send.syn_ns).wrapping_add(self.clock.offset);
        let span = tick(now_ns).wrapping_sub(tick(self.send.syn_ns));
        self.settings.timestamps
            && self.send.syn_ns != NEVER
            && segment
                .options
                .timestamps
                .is_some_and(|clock| clock.echo != 0 && clock.echo.wrapping_sub(first) > span)
    }

    fn be_connected(&mut self, now_ns: u64, segment: &TcpSegment, acked: u64) -> Arrival {
        self.state = if self.send.is_closed { TcpState::FinWait1 } else { TcpState::Established };
        self.send.given_cookie = segment.options.fast_open.filter(|cookie| !cookie.is_request());
        if acked > 1 {
            // The data of the SYN arrived. If not, it was never sent, as far as loss recovery knows.
            self.send.is_syn_data_acked = true;
            self.sender.sent(1..acked, self.send.syn_ns);
            self.send.nxt = acked;
        }
        self.set_first_window(segment, acked);
        let mut events = TcpEvents::CONNECTED;
        events |= self.pass_ack(now_ns, segment, acked, AckKind::Plain);
        self.start(now_ns);
        self.acks.be_quick(self.receive.window.size(self.receive.received));
        self.acks.demand();
        let mut arrival = Arrival { payload: None, events };
        self.take_payload(now_ns, segment, 0, &mut arrival);
        arrival
    }
}

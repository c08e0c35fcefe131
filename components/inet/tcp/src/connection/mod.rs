//! A TCP connection (RFC 9293).
//!
//! The connection counts; the caller holds the bytes. Inside, both directions count *positions* of sequence space: the SYN has
//! position 0 and stream offset `o` has position `o + 1`. Every public function takes and returns stream offsets.
//!
//! [`Connection::input`] takes a segment, [`Connection::output`] gives the next one to send until it gives none, and
//! [`Connection::expired`] runs the timers. No call waits, and none allocates while data and acknowledgements are in order.
mod acks;
mod data;
mod direct;
pub(crate) mod handshake;
mod icmp;
mod info;
mod input;
pub(crate) mod kept;
pub(crate) mod kept_words;
mod output;
mod pacing;
mod parts;
pub mod settings;
pub(crate) mod time_wait;
mod timers;
mod tuning;
pub mod types;
mod user;

use crate::{
    clock::{NEVER, tick},
    receive::acknowledge::Acknowledge,
    wire::{
        segment::{FastOpenCookie, Timestamps},
        sequence::Origin,
    },
};
use alloc::boxed::Box;
use core::ops::Range;
use pacing::Pacing;
use parts::{Keepalive, Probe, Receive, Reset, Send, TimestampClock, Totals};
use recovery::{IdleRestart, Sender, Setup};
use settings::Settings;
use time_wait::TimeWait;
use tuning::Tuning;
use types::{TcpError, TcpEvents, TcpState};

/// The state machine of one connection.
#[derive(Debug)]
pub struct Connection {
    state: TcpState,
    /// No program holds the socket any more.
    is_detached: bool,
    /// The SYN-ACK of this side is due.
    is_syn_ack_due: bool,
    send: Send,
    receive: Receive,
    clock: TimestampClock,
    acks: Acknowledge,
    sender: Sender,
    probe: Probe,
    keepalive: Keepalive,
    settings: Settings,
    pacing: Pacing,
    tuning: Tuning,
    /// A tail-loss probe that is due.
    tail_probe: Option<Range<u64>>,
    reset: Option<Reset>,
    /// Time at which retransmissions began, [`NEVER`] if there is none.
    retry_since_ns: u64,
    /// End of FIN-WAIT-2 without a program, or of a linger.
    linger_deadline_ns: u64,
    /// Time of the last answer to an invalid segment.
    invalid_answered_ns: u64,
    error: Option<TcpError>,
    soft_error: Option<TcpError>,
    time_wait: Option<TimeWait>,
    totals: Totals,
    /// The headers of the peer's SYN (TCP_SAVE_SYN).
    saved_syn: Option<Box<[u8]>>,
}

impl Connection {
    /// Makes a closed connection. `iss` is the initial sequence number, `clock_offset` is added to the clock of timestamps. It is
    /// written into its box field by field: a connection is too large to be moved there.
    fn boxed(settings: &Settings, iss: u32, clock_offset: u32) -> Box<Connection> {
        let path_mss = settings.path_mss.min(settings.mss);
        let place = Box::new_uninit();
        let connection = Connection {
            state: TcpState::Closed,
            is_detached: false,
            is_syn_ack_due: false,
            send: Send::new(Origin(iss), path_mss),
            receive: Receive::new(settings),
            clock: TimestampClock { offset: clock_offset, ..TimestampClock::default() },
            acks: Acknowledge::new(u32::from(settings.mss.min(settings::DEFAULT_MSS))),
            sender: Sender::new(Setup {
                start: 0,
                mss: u32::from(path_mss),
                algorithm: settings.algorithm,
                idle: match settings.keeps_idle_window {
                    true => IdleRestart::Keep,
                    false => IdleRestart::Decay,
                },
            }),
            probe: Probe::default(),
            keepalive: Keepalive::default(),
            settings: *settings,
            pacing: Pacing::default(),
            tuning: Tuning::default(),
            tail_probe: None,
            reset: None,
            retry_since_ns: NEVER,
            linger_deadline_ns: NEVER,
            invalid_answered_ns: NEVER,
            error: None,
            soft_error: None,
            time_wait: None,
            totals: Totals::default(),
            saved_syn: None,
        };
        Box::write(place, connection)
    }

    /// Returns the state.
    #[inline]
    pub fn state(&self) -> TcpState {
        self.state
    }

    /// Returns the options.
    #[inline]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the error that ended the connection, and forgets it (SO_ERROR).
    pub fn take_error(&mut self) -> Option<TcpError> {
        self.error.take()
    }

    /// Returns the error that ended the connection.
    pub fn error(&self) -> Option<TcpError> {
        self.error
    }

    /// Returns the number of bytes that the peer has acknowledged.
    #[inline]
    pub fn acked(&self) -> u64 {
        self.send.una.clamp(1, self.send.written) - 1
    }

    /// Returns the number of bytes that were sent at least once.
    pub fn sent(&self) -> u64 {
        self.send.nxt.clamp(1, self.send.written) - 1
    }

    /// Returns the number of bytes that the program has written.
    pub fn written(&self) -> u64 {
        self.send.written - 1
    }

    /// Returns the number of bytes that arrived in order.
    pub fn received(&self) -> u64 {
        self.receive.data_end() - 1
    }

    /// Returns the number of bytes that the program has read.
    pub fn read(&self) -> u64 {
        self.receive.read - 1
    }

    /// Returns the stream offset up to which the peer may send.
    pub fn window_edge(&self) -> u64 {
        self.receive.window.edge().max(1) - 1
    }

    /// Returns whether the peer closed its direction and all its data arrived.
    pub fn is_peer_closed(&self) -> bool {
        self.receive.is_finished()
    }

    /// Returns the stream offset of the urgent byte that the peer announced last and the program has not passed (`SIOCATMARK`).
    /// Without SO_OOBINLINE the program's reads leave this byte out, and MSG_OOB gives it.
    pub fn urgent_mark(&self) -> Option<u64> {
        self.receive.urgent.filter(|mark| *mark >= self.receive.read).map(|mark| mark - 1)
    }

    /// Returns the state of TIME-WAIT that takes the place of this connection.
    pub fn time_wait(&self) -> Option<TimeWait> {
        self.time_wait
    }

    /// Returns the Fast Open cookie that the peer gave.
    pub fn fast_open_cookie(&self) -> Option<FastOpenCookie> {
        self.send.given_cookie
    }

    /// Returns the headers of the peer's SYN, if they were kept (TCP_SAVED_SYN).
    pub fn saved_syn(&self) -> Option<&[u8]> {
        self.saved_syn.as_deref()
    }

    /// Forgets the headers of the peer's SYN.
    pub fn forget_syn(&mut self) {
        self.saved_syn = None;
    }

    /// Keeps the headers of the peer's SYN.
    pub(crate) fn keep_syn(&mut self, headers: Option<Box<[u8]>>) {
        self.saved_syn = headers;
    }

    /// Enters CLOSED and stops all timers.
    fn finish(&mut self) -> TcpEvents {
        self.state = TcpState::Closed;
        self.linger_deadline_ns = NEVER;
        self.keepalive.deadline_ns = NEVER;
        self.probe = Probe::default();
        self.tail_probe = None;
        self.pacing = Pacing::default();
        TcpEvents::CLOSED
    }

    /// Ends the connection by an error.
    fn fail(&mut self, error: TcpError) -> TcpEvents {
        self.error = Some(error);
        self.finish() | TcpEvents::FAILED
    }

    /// Queues a reset of the connection.
    fn queue_reset(&mut self) {
        self.reset = Some(Reset { seq: self.sequence_now(), ack: Some(self.acknowledgement()) });
    }

    /// The sequence number of a segment without data: the next to be sent, kept inside of the peer's window (Linux:
    /// tcp_acceptable_seq).
    fn sequence_now(&self) -> u32 {
        self.send.origin.number(self.send.nxt.min(self.send.edge.max(self.send.una)))
    }

    /// The acknowledgement number of the next segment.
    #[inline]
    fn acknowledgement(&self) -> u32 {
        self.receive.origin.number(self.receive.received)
    }

    /// The timestamps of a segment that is sent now.
    #[inline]
    fn timestamps(&self, now_ns: u64) -> Option<Timestamps> {
        self.clock.is_enabled.then(|| Timestamps {
            value: tick(now_ns).wrapping_add(self.clock.offset),
            echo: self.clock.recent,
        })
    }

    /// Demands an acknowledgement that answers an invalid segment, unless one was sent within the last 500 ms (RFC 5961 section
    /// 7; Linux: `tcp_invalid_ratelimit`).
    fn challenge(&mut self, now_ns: u64) {
        let since = now_ns.wrapping_sub(self.invalid_answered_ns);
        if self.invalid_answered_ns == NEVER || since >= settings::INVALID_INTERVAL_NS {
            self.invalid_answered_ns = now_ns;
            self.totals.challenges += 1;
            self.acks.demand();
        }
    }
}

//! A half-open request of a listener.
use super::Context;
use crate::{
    clock::{SECOND, tick},
    connection::{Connection, settings::Settings},
    wire::{
        segment::{FastOpenCookie, SegmentOptions, TcpFlags, TcpSegment, Timestamps},
        sequence::is_before,
    },
};
use alloc::boxed::Box;

/// A SYN that was answered and not yet acknowledged.
#[derive(Clone, Debug)]
pub(super) struct HalfOpen {
    /// The peer's SYN.
    pub(super) syn: TcpSegment,
    /// The initial sequence number of this side.
    pub(super) iss: u32,
    clock_offset: u32,
    /// Size of the receive buffer in bytes.
    pub(super) room: u64,
    /// Time of the first SYN-ACK.
    pub(super) first_ns: u64,
    /// Time of the last SYN-ACK, if it was repeated.
    pub(super) repeated_ns: Option<u64>,
    /// Time of the next SYN-ACK.
    pub(super) deadline_ns: u64,
    pub(super) timeouts: u32,
    /// Whether the peer has acknowledged the SYN-ACK, and the child waits for data or for room in the accept queue.
    pub(super) is_acked: bool,
    /// The Fast Open cookie to give.
    cookie: Option<FastOpenCookie>,
    /// The headers of the SYN, which the child keeps.
    pub(super) headers: Option<Box<[u8]>>,
}

impl HalfOpen {
    pub(super) fn new(
        context: &Context<'_>,
        syn: &TcpSegment,
        iss: u32,
        clock_offset: u32,
        cookie: Option<FastOpenCookie>,
    ) -> HalfOpen {
        HalfOpen {
            syn: TcpSegment { length: 0, ..*syn },
            iss,
            clock_offset,
            room: context.room,
            first_ns: context.now_ns,
            repeated_ns: None,
            deadline_ns: context.now_ns.saturating_add(SECOND),
            timeouts: 0,
            is_acked: false,
            cookie,
            headers: context.headers.map(Box::from),
        }
    }

    /// Notes that the SYN-ACK is repeated.
    pub(super) fn note_repeated(&mut self, now_ns: u64) {
        self.repeated_ns = Some(now_ns);
    }

    /// Makes the connection, in SYN-RECEIVED.
    pub(super) fn connection(&self, settings: &Settings) -> Connection {
        Connection::answer(
            self.first_ns,
            *settings,
            &self.syn,
            self.iss,
            self.clock_offset,
            self.room,
        )
    }

    /// The SYN-ACK.
    pub(super) fn syn_ack(&self, now_ns: u64, settings: &Settings) -> TcpSegment {
        let mut segment = self.connection(settings).syn_ack(now_ns).segment;
        segment.options.fast_open = self.cookie;
        segment
    }

    /// Whether a segment lies in the receive window and its timestamp is not old.
    pub(super) fn is_inside(&self, segment: &TcpSegment) -> bool {
        let start = self.syn.seq.wrapping_add(1);
        let window = self.room.min(u64::from(u16::MAX)) as u32;
        let clocks = segment.options.timestamps.zip(self.syn.options.timestamps);
        let is_old = clocks.is_some_and(|(new, old)| is_before(new.value, old.value));
        segment.seq.wrapping_sub(start) <= window && (!is_old || segment.has(TcpFlags::RST))
    }

    /// The acknowledgement that answers a segment outside of the window.
    pub(super) fn acknowledgement(&self, now_ns: u64, settings: &Settings) -> TcpSegment {
        let timestamps = self.syn.options.timestamps.filter(|_| settings.timestamps).map(|clock| {
            Timestamps { value: tick(now_ns).wrapping_add(self.clock_offset), echo: clock.value }
        });
        TcpSegment {
            seq: self.iss.wrapping_add(1),
            ack: self.syn.seq.wrapping_add(1),
            flags: TcpFlags::ACK,
            window: self.room.min(u64::from(u16::MAX)) as u16,
            options: SegmentOptions { timestamps, ..SegmentOptions::default() },
            ..TcpSegment::default()
        }
    }
}

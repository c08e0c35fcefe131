//! A half-open request of a listener.
use super::Context;
use crate::{
    clock::{SECOND, tick},
    connection::{Connection, handshake::Agreement, settings::Settings},
    receive::window::scale_for,
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
    pub(super) fn connection(&self, settings: &Settings) -> Box<Connection> {
        Connection::answer(
            self.first_ns,
            settings,
            &self.syn,
            self.iss,
            self.clock_offset,
            self.room,
        )
    }

    /// The SYN-ACK: that of [`HalfOpen::connection`], without making it.
    pub(super) fn syn_ack(&self, now_ns: u64, settings: &Settings) -> TcpSegment {
        let agreed = Agreement::new(settings, &self.syn);
        let mut flags = TcpFlags::SYN | TcpFlags::ACK;
        flags.set(TcpFlags::ECE, agreed.has_ecn);
        let options = SegmentOptions {
            mss: Some(settings.mss),
            wscale: agreed.scale.map(|_| scale_for(settings.buffer_limit)),
            sack_permitted: agreed.has_sack,
            timestamps: self.timestamps(now_ns, settings),
            fast_open: self.cookie,
            ..SegmentOptions::default()
        };
        TcpSegment { seq: self.iss, flags, options, ..self.bare() }
    }

    /// The timestamps of a segment that is sent now.
    fn timestamps(&self, now_ns: u64, settings: &Settings) -> Option<Timestamps> {
        self.syn.options.timestamps.filter(|_| settings.timestamps).map(|clock| Timestamps {
            value: tick(now_ns).wrapping_add(self.clock_offset),
            echo: clock.value,
        })
    }

    /// A segment with the acknowledgement of the SYN and the window.
    fn bare(&self) -> TcpSegment {
        TcpSegment {
            ack: self.syn.seq.wrapping_add(1),
            flags: TcpFlags::ACK,
            window: self.room.min(u64::from(u16::MAX)) as u16,
            ..TcpSegment::default()
        }
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
        let timestamps = self.timestamps(now_ns, settings);
        let options = SegmentOptions { timestamps, ..SegmentOptions::default() };
        TcpSegment { seq: self.iss.wrapping_add(1), options, ..self.bare() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        connection::settings::Ecn,
        wire::secret::{Flow, Secret},
    };
    use proptest::prelude::*;

    fn settings() -> impl Strategy<Value = Settings> {
        let ecn = prop_oneof![Just(Ecn::Off), Just(Ecn::Request), Just(Ecn::Accept)];
        let switches = any::<(bool, bool, bool)>();
        (switches, ecn, any::<u32>(), 48_u16..9000).prop_map(|(switches, ecn, limit, mss)| {
            let (window_scaling, timestamps, sack) = switches;
            let buffer_limit = limit.into();
            let all = Settings::default();
            Settings { window_scaling, timestamps, sack, ecn, buffer_limit, mss, ..all }
        })
    }

    fn syn() -> impl Strategy<Value = TcpSegment> {
        let options = any::<(Option<u32>, Option<u16>, Option<u8>, bool)>();
        (any::<(u32, u16)>(), options, any::<bool>()).prop_map(
            |((seq, window), options, is_ecn)| {
                let (clock, mss, wscale, sack_permitted) = options;
                let timestamps = clock.map(|value| Timestamps { value, echo: 0 });
                let mut flags = TcpFlags::SYN;
                flags.set(TcpFlags::ECE | TcpFlags::CWR, is_ecn);
                let all = SegmentOptions::default();
                let options = SegmentOptions { timestamps, mss, wscale, sack_permitted, ..all };
                TcpSegment { seq, flags, window, options, ..TcpSegment::default() }
            },
        )
    }

    proptest! {
        #[test]
        fn the_syn_ack_is_that_of_the_connection(
            settings in settings(),
            syn in syn(),
            (iss, offset, room) in (any::<u32>(), any::<u32>(), 0_u64..1 << 20),
        ) {
            let flow = Flow { local: [1; 16], remote: [2; 16], local_port: 1, remote_port: 2 };
            let secret = &Secret::new([0; 16]);
            let context = Context { now_ns: 5 * SECOND, flow, secret, room, headers: None };
            let request = HalfOpen::new(&context, &syn, iss, offset, None);
            let expected = request.connection(&settings).syn_ack(7 * SECOND).segment;
            prop_assert_eq!(request.syn_ack(7 * SECOND, &settings), expected);
        }
    }
}

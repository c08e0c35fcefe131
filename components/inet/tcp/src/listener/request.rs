//! A half-open request of a listener.
use super::Context;
use crate::{
    clock::{SECOND, tick},
    connection::{Connection, handshake::Agreement, kept_words::KEPT_WORDS, settings::Settings},
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

const SCALED: u64 = 1 << 40;
const SACK: u64 = 1 << 41;
const ECN: u64 = 1 << 42;
const CLOCK: u64 = 1 << 43;
const SIZED: u64 = 1 << 44;
/// The greatest window scale (RFC 7323 section 2.3).
const SCALE_MAX: u8 = 14;

impl HalfOpen {
    /// Returns words of which a successor makes the request again. Lost are the headers of the SYN and the Fast Open cookie, which
    /// the peer has by then or asks for again.
    pub(super) fn words(&self) -> [u64; KEPT_WORDS] {
        let options = &self.syn.options;
        let flag = |is_set: bool, flag: u64| u64::from(is_set) * flag;
        let marks = TcpFlags::ECE | TcpFlags::CWR;
        let flags = flag(options.wscale.is_some(), SCALED)
            | flag(options.sack_permitted, SACK)
            | flag(self.syn.flags.contains(marks), ECN)
            | flag(options.timestamps.is_some(), CLOCK)
            | flag(options.mss.is_some(), SIZED);
        let small = u64::from(self.syn.window) << 16 | u64::from(options.mss.unwrap_or(0));
        [
            u64::from(self.syn.seq) << 32 | u64::from(self.iss),
            flags | u64::from(options.wscale.unwrap_or(0)) << 32 | small,
            options.timestamps.map_or(0, |clock| clock.value.into()),
            self.room,
            self.first_ns,
            0,
        ]
    }

    /// Makes the request of the words that a predecessor kept. Its SYN-ACK is to be repeated now.
    pub(super) fn of_words(words: &[u64; KEPT_WORDS], clock_offset: u32, now_ns: u64) -> HalfOpen {
        let [numbers, shape, clock, room, first_ns, _] = *words;
        let has = |flag: u64| shape & flag != 0;
        let mut flags = TcpFlags::SYN;
        flags.set(TcpFlags::ECE | TcpFlags::CWR, has(ECN));
        let options = SegmentOptions {
            mss: has(SIZED).then_some(shape as u16),
            wscale: has(SCALED).then_some(((shape >> 32) as u8).min(SCALE_MAX)),
            sack_permitted: has(SACK),
            timestamps: has(CLOCK).then_some(Timestamps { value: clock as u32, echo: 0 }),
            ..SegmentOptions::default()
        };
        let (seq, window) = ((numbers >> 32) as u32, (shape >> 16) as u16);
        HalfOpen {
            syn: TcpSegment { seq, flags, window, options, ..TcpSegment::default() },
            iss: numbers as u32,
            clock_offset,
            room,
            first_ns,
            // A round trip that the death of a stack has prolonged is no measure.
            repeated_ns: Some(now_ns),
            deadline_ns: now_ns,
            timeouts: 0,
            is_acked: false,
            cookie: None,
            headers: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        connection::settings::Ecn,
        wire::secret::{Flow, Secret},
    };
    use labels::SecrecyId;
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
            let flow = Flow { local: [1; 16], remote: [2; 16], local_port: 1, remote_port: 2, label: SecrecyId::NONE };
            let secret = &Secret::new([0; 16]);
            let context = Context { now_ns: 5 * SECOND, flow, secret, room, headers: None };
            let request = HalfOpen::new(&context, &syn, iss, offset, None);
            let expected = request.connection(&settings).syn_ack(7 * SECOND).segment;
            prop_assert_eq!(request.syn_ack(7 * SECOND, &settings), expected);
        }
    }
}

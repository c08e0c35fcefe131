//! The kept state of a connection as words, which a client keeps for a stack.
//!
//! ```text
//! word 0  bytes that were sent
//!      1  stream offset up to which the peer may send
//!      2  the peer's window 32 (high) | the peer's timestamp to echo 32
//!      3  initial sequence numbers of this side 32 and of the peer 32
//!      4  state 8 | flags 8 | window scale of the peer 8 and of this side 8 | MSS of the peer 16 and of the path 16
//!      5  offset of this side's clock of timestamps; in SYN-SENT the time of the first SYN in nanoseconds
//! ```
//! Words of zeroes are no connection. The other counters are those of the client's stream.
use super::{
    Connection,
    kept::{KeptClock, KeptConnection},
    types::TcpState,
};

/// Number of words.
pub const KEPT_WORDS: usize = 6;
/// Number of words that change with each segment.
pub const MOVING_WORDS: usize = 3;

/// The states that are kept, by their code. The first one is that of no connection.
const STATES: [TcpState; 8] = [
    TcpState::Closed,
    TcpState::SynSent,
    TcpState::Established,
    TcpState::FinWait1,
    TcpState::FinWait2,
    TcpState::CloseWait,
    TcpState::Closing,
    TcpState::LastAck,
];
const DETACHED: u8 = 1;
const SACK: u8 = 2;
const ECN: u8 = 4;
const SCALED: u8 = 8;
const CLOCK: u8 = 16;

/// The meaning of kept words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptState {
    /// There was no connection, or it had ended.
    None,
    /// A SYN was sent.
    Connecting {
        /// Initial sequence number of this side.
        iss: u32,
        /// Time of the first SYN, in nanoseconds.
        syn_ns: u64,
    },
    /// A connection, if it does not contradict itself: [`Connection::rebuild`] checks that.
    Connected(KeptConnection),
}

/// The changing part of the kept state beside [`Connection::moving_words`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptShape {
    state: TcpState,
    is_detached: bool,
    path_mss: u16,
}

impl Connection {
    /// Returns the part of the state that changes the last three words.
    #[inline]
    pub fn kept_shape(&self) -> KeptShape {
        let (state, is_detached) = (self.state, self.is_detached);
        KeptShape { state, is_detached, path_mss: self.send.path_mss }
    }

    /// Returns the first three words, which change with each segment.
    #[inline]
    pub fn moving_words(&self) -> [u64; MOVING_WORDS] {
        let window = self.send.window();
        let recent = if self.clock.is_enabled { self.clock.recent } else { 0 };
        [self.sent(), self.window_edge().max(self.received()), window_word(window, recent)]
    }

    /// Returns the words to keep.
    pub fn kept_words(&self) -> [u64; KEPT_WORDS] {
        match self.kept() {
            Some(kept) => kept.words(),
            None if self.state == TcpState::SynSent => {
                let state = code_of(TcpState::SynSent);
                [
                    0,
                    0,
                    0,
                    pair(self.send.origin.0, 0),
                    pair(u32::from_be_bytes([state, 0, 0, 0]), 0),
                    self.send.syn_ns,
                ]
            }
            None => [0; KEPT_WORDS],
        }
    }
}

/// Returns the place of a state in [`STATES`]; 0 for one that is not kept.
fn code_of(state: TcpState) -> u8 {
    match state {
        TcpState::SynSent => 1,
        TcpState::Established => 2,
        TcpState::FinWait1 => 3,
        TcpState::FinWait2 => 4,
        TcpState::CloseWait => 5,
        TcpState::Closing => 6,
        TcpState::LastAck => 7,
        TcpState::Closed | TcpState::SynReceived | TcpState::TimeWait => 0,
    }
}

/// The counters of a stream, in bytes since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeptCounters {
    /// Bytes that the program has written.
    pub written: u64,
    /// Bytes that the peer has acknowledged.
    pub acked: u64,
    /// Bytes that arrived in order.
    pub received: u64,
    /// Bytes that the program has read.
    pub read: u64,
}

#[inline]
fn window_word(window: u64, recent: u32) -> u64 {
    pair(u32::try_from(window).unwrap_or(u32::MAX), recent)
}

#[inline]
fn pair(high: u32, low: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

impl KeptConnection {
    /// Returns the words.
    fn words(&self) -> [u64; KEPT_WORDS] {
        let flag = |is_set: bool, flag: u8| u8::from(is_set) * flag;
        let flags = flag(self.is_detached, DETACHED)
            | flag(self.has_sack, SACK)
            | flag(self.has_ecn, ECN)
            | flag(self.send_scale.is_some(), SCALED)
            | flag(self.clock.is_some(), CLOCK);
        let small = [code_of(self.state), flags, self.send_scale.unwrap_or(0), self.receive_scale];
        let segments = u32::from(self.peer_mss) << 16 | u32::from(self.path_mss);
        let clock = self.clock.unwrap_or(KeptClock { offset: 0, recent: 0 });
        [
            self.sent,
            self.edge,
            window_word(self.window, clock.recent),
            pair(self.iss, self.irs),
            pair(u32::from_be_bytes(small), segments),
            clock.offset.into(),
        ]
    }
}

impl KeptState {
    /// Returns the meaning of words.
    pub fn of_words(words: &[u64; KEPT_WORDS], counters: &KeptCounters) -> KeptState {
        let [sent, edge, window, origins, shape, offset] = *words;
        let [code, flags, send_scale, receive_scale] = ((shape >> 32) as u32).to_be_bytes();
        let has = |flag: u8| flags & flag != 0;
        let iss = (origins >> 32) as u32;
        let state = match STATES.get(usize::from(code)) {
            None | Some(TcpState::Closed) => return KeptState::None,
            Some(TcpState::SynSent) => return KeptState::Connecting { iss, syn_ns: offset },
            Some(state) => *state,
        };
        let KeptCounters { written, acked, received, read } = *counters;
        KeptState::Connected(KeptConnection {
            state,
            is_detached: has(DETACHED),
            iss,
            irs: origins as u32,
            written,
            sent,
            acked,
            received,
            read,
            edge,
            window: window >> 32,
            send_scale: has(SCALED).then_some(send_scale),
            receive_scale,
            peer_mss: (shape >> 16) as u16,
            path_mss: shape as u16,
            has_sack: has(SACK),
            has_ecn: has(ECN),
            clock: has(CLOCK).then_some(KeptClock { offset: offset as u32, recent: window as u32 }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Words say all that is kept beside the counters.
        #[test]
        fn words_keep_everything(
            (sent, edge, window) in (any::<u64>(), any::<u64>(), any::<u32>()),
            (iss, irs, offset, recent) in any::<(u32, u32, u32, u32)>(),
            (send_scale, receive_scale, peer_mss, path_mss) in any::<(Option<u8>, u8, u16, u16)>(),
            (is_detached, has_sack, has_ecn, has_clock) in any::<(bool, bool, bool, bool)>(),
            code in 2..STATES.len(),
        ) {
            let counters = KeptCounters { written: 4, acked: 3, received: 2, read: 1 };
            let kept = KeptConnection {
                state: STATES[code],
                is_detached, iss, irs, written: 4, sent, acked: 3, received: 2, read: 1, edge,
                window: window.into(),
                send_scale, receive_scale, peer_mss, path_mss, has_sack, has_ecn,
                clock: has_clock.then_some(KeptClock { offset, recent }),
            };
            prop_assert_eq!(KeptState::of_words(&kept.words(), &counters), KeptState::Connected(kept));
        }
    }

    #[test]
    fn zeroes_and_unknown_states_are_no_connection() {
        let of = |words| KeptState::of_words(&words, &KeptCounters::default());
        assert_eq!(of([0; KEPT_WORDS]), KeptState::None);
        assert_eq!(of([0, 0, 0, 0, 0xff << 56, 0]), KeptState::None);
        let connecting = KeptState::Connecting { iss: 7, syn_ns: 9 };
        assert_eq!(of([0, 0, 0, 7 << 32, 1 << 56, 9]), connecting);
        let codes = STATES.map(|state| usize::from(code_of(state)));
        assert!(codes.into_iter().eq(0..STATES.len()));
    }
}

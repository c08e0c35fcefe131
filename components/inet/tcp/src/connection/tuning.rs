//! The room that the receive buffer needs, so that the peer is not held back by the window while the program reads as fast as bytes
//! come: twice what was read in a round trip, and more while that grows (Linux: `tcp_rcv_space_adjust`).
use super::Connection;
use crate::{clock::tick, wire::segment::TcpSegment};
use recovery::TIMESTAMP_TICK_NS;

/// Segments that count as read in a first round trip (RFC 6928), and those that are added to the room.
const FIRST_SEGMENTS: u64 = 10;
const MORE_SEGMENTS: u64 = 16;

/// The pace of the program's reads.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tuning {
    /// Round-trip time as the receiver sees it, 0 before the first measurement.
    pub(crate) rtt_ns: u64,
    /// The echoed timestamp of the last measurement.
    last_echo: u32,
    /// Time at which the round trip under way began, and the position up to which the program had read then.
    since_ns: u64,
    read: u64,
    /// The most bytes that were read in a round trip; at first those that the window lets come.
    pub(crate) space: u64,
}

impl Tuning {
    fn measure(&mut self, sample_ns: u64) {
        self.rtt_ns = match self.rtt_ns {
            0 => sample_ns,
            known => known - known / 8 + sample_ns / 8,
        };
    }

    /// Ends a round trip in which the program read up to `read`. Returns the room to have, in bytes, if it read more than ever.
    fn end_round(&mut self, now_ns: u64, read: u64, mss: u64) -> Option<u64> {
        let copied = read.saturating_sub(self.read);
        (self.since_ns, self.read) = (now_ns, read);
        let before = self.space.max(1);
        if copied <= before {
            return None;
        }
        self.space = copied;
        let window = copied.saturating_mul(2).saturating_add(MORE_SEGMENTS * mss);
        let growth = u128::from(window) * u128::from(copied - before) / u128::from(before);
        let growth = u64::try_from(growth).unwrap_or(u64::MAX);
        Some(window.saturating_add(growth.saturating_mul(2)))
    }
}

impl Connection {
    /// Begins with the first window.
    pub(super) fn start_tuning(&mut self, now_ns: u64) {
        let window = self.receive.window.size(self.receive.received);
        self.tuning.space = window.min(FIRST_SEGMENTS * u64::from(self.receive.mss));
        (self.tuning.since_ns, self.tuning.read) = (now_ns, self.receive.read);
    }

    /// Measures the round-trip time by the echo that a full segment carries.
    #[inline]
    pub(super) fn measure_by_echo(&mut self, now_ns: u64, segment: &TcpSegment) {
        if let Some(clock) = segment.options.timestamps
            && clock.echo != self.tuning.last_echo
            && segment.length >= self.acks.peer_mss()
        {
            self.tuning.last_echo = clock.echo;
            let age = tick(now_ns).wrapping_sub(clock.echo.wrapping_sub(self.clock.offset));
            if age < 1 << 31 {
                self.tuning.measure(u64::from(age.max(1)) * TIMESTAMP_TICK_NS);
            }
        }
    }

    /// Takes the least time that can be measured for the round trip of bytes that came without a segment.
    #[inline]
    pub(super) fn measure_direct(&mut self) {
        if self.tuning.rtt_ns == 0 {
            self.tuning.measure(TIMESTAMP_TICK_NS);
        }
    }

    /// Returns the room that the receive buffer should have, in bytes of payload, if the program's reads call for more. The caller
    /// asks after [`Connection::read_to`].
    #[inline]
    pub fn wanted_room(&mut self, now_ns: u64) -> Option<u64> {
        let tuning = &mut self.tuning;
        if tuning.rtt_ns == 0 || now_ns.saturating_sub(tuning.since_ns) < tuning.rtt_ns {
            return None;
        }
        tuning.end_round(now_ns, self.receive.read, self.receive.mss.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fast_reader_gets_more_than_twice_what_it_reads_in_a_round_trip() {
        let mut tuning = Tuning { space: 10_000, ..Tuning::default() };
        tuning.measure(8_000_000);
        tuning.measure(16_000_000);
        assert_eq!(tuning.rtt_ns, 9_000_000);
        assert_eq!(tuning.end_round(1, 10_000, 1000), None, "as much as the first window");
        assert_eq!(tuning.end_round(2, 30_000, 1000), Some(56_000 + 2 * 56_000));
        assert_eq!(tuning.end_round(3, 50_000, 1000), None, "no more than before");
        assert_eq!(tuning.end_round(4, 75_000, 1000), Some(66_000 + 2 * 66_000 / 4));
    }
}

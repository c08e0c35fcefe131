//! Numbers that an attacker off the path cannot guess: initial sequence numbers (RFC 6528), offsets of timestamps, SYN cookies
//! (RFC 4987) and Fast Open cookies (RFC 7413), all by SipHash-2-4 with a secret key.
use super::segment::FastOpenCookie;
use hash::SipKey;
use labels::SecrecyId;

/// The two ends of a connection. An IPv4 address is written as an IPv4-mapped IPv6 address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Flow {
    /// Local address.
    pub local: [u8; 16],
    /// Remote address.
    pub remote: [u8; 16],
    /// Local port.
    pub local_port: u16,
    /// Remote port.
    pub remote_port: u16,
    /// The secrecy of its segments: connections of different secrecies differ, whatever their addresses.
    pub label: SecrecyId,
}

/// The numbers that an end of a connection begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnNumbers {
    /// The initial sequence number.
    pub iss: u32,
    /// The offset that is added to the clock of timestamps.
    pub clock_offset: u32,
}

/// The secret key of a stack.
#[derive(Clone, Copy, Debug)]
pub struct Secret {
    key: SipKey,
}

/// The purpose of a keyed hash, which separates the values of one flow from each other.
#[derive(Clone, Copy)]
enum Purpose {
    Number = 1,
    Clock,
    CookieFixed,
    CookieTimed,
    FastOpen,
}

/// Units of a SYN cookie's clock, in nanoseconds.
const COOKIE_TICK_NS: u64 = 60_000_000_000;
/// Greatest age of a SYN cookie, in ticks (Linux: MAX_SYNCOOKIE_AGE).
const COOKIE_AGE_TICKS: u32 = 2;
const COOKIE_BITS: u32 = 24;
const COOKIE_MASK: u32 = (1 << COOKIE_BITS) - 1;

impl Secret {
    /// Makes the key of 16 random bytes.
    pub fn new(bytes: [u8; 16]) -> Secret {
        Secret { key: SipKey::new(bytes) }
    }

    /// Returns the initial sequence number of a connection that opens now: a clock of 64 ns plus a keyed hash of the flow
    /// (RFC 6528 section 3; the period of the clock is Linux's).
    pub fn initial_sequence(&self, flow: &Flow, now_ns: u64) -> u32 {
        let clock = (now_ns >> 6) as u32;
        clock.wrapping_add(self.hash(Purpose::Number, flow, 0) as u32)
    }

    /// Returns the same, and one for the other end, should that be on this host: the other half of the hash.
    pub fn initial_sequences(&self, flow: &Flow, now_ns: u64) -> (u32, u32) {
        let (clock, hash) = ((now_ns >> 6) as u32, self.hash(Purpose::Number, flow, 0));
        (clock.wrapping_add(hash as u32), clock.wrapping_add((hash >> 32) as u32))
    }

    /// Returns the offset that is added to the clock of the flow's timestamps (RFC 7323 section 5.4). It is the same for all
    /// ports, so that the timestamps of later connections grow (RFC 6191).
    pub fn timestamps_offset(&self, flow: &Flow) -> u32 {
        let flow = Flow { local_port: 0, remote_port: 0, ..*flow };
        self.hash(Purpose::Clock, &flow, 0) as u32
    }

    /// Returns the SYN cookie for a SYN with sequence number `irs`: a sequence number that carries `data`, at most 24 bits, and the
    /// minute.
    pub(crate) fn syn_cookie(&self, flow: &Flow, irs: u32, now_ns: u64, data: u32) -> u32 {
        let tick = (now_ns / COOKIE_TICK_NS) as u32;
        let timed =
            (self.hash(Purpose::CookieTimed, flow, u64::from(tick)) as u32).wrapping_add(data);
        (self.hash(Purpose::CookieFixed, flow, 0) as u32)
            .wrapping_add(irs)
            .wrapping_add(tick << COOKIE_BITS)
            .wrapping_add(timed & COOKIE_MASK)
    }

    /// Returns the data of a SYN cookie that this key made within the last two minutes. A forged cookie gives random data: the
    /// caller refuses data that it does not make.
    pub(crate) fn cookie_data(
        &self,
        flow: &Flow,
        irs: u32,
        now_ns: u64,
        cookie: u32,
    ) -> Option<u32> {
        let tick = (now_ns / COOKIE_TICK_NS) as u32;
        let rest =
            cookie.wrapping_sub(self.hash(Purpose::CookieFixed, flow, 0) as u32).wrapping_sub(irs);
        let age = tick.wrapping_sub(rest >> COOKIE_BITS) & (u32::MAX >> COOKIE_BITS);
        if age >= COOKIE_AGE_TICKS {
            return None;
        }
        let made = tick.wrapping_sub(age);
        let timed = self.hash(Purpose::CookieTimed, flow, u64::from(made)) as u32;
        Some(rest.wrapping_sub(timed) & COOKIE_MASK)
    }

    /// Returns the Fast Open cookie of the remote address, of 8 bytes.
    pub fn fast_open_cookie(&self, flow: &Flow) -> FastOpenCookie {
        let flow = Flow { local_port: 0, remote_port: 0, ..*flow };
        let bytes = self.hash(Purpose::FastOpen, &flow, 0).to_le_bytes();
        FastOpenCookie::new(&bytes).unwrap_or_default()
    }

    fn hash(&self, purpose: Purpose, flow: &Flow, number: u64) -> u64 {
        let ports = u64::from(flow.local_port) << 16 | u64::from(flow.remote_port);
        let last = ports | (purpose as u64) << 32;
        // The length is part of the hash: a short one never is that of addresses of IPv6.
        if let Some((local, remote)) = version4(&flow.local).zip(version4(&flow.remote)) {
            let addresses = u64::from(local) << 32 | u64::from(remote);
            return match purpose {
                Purpose::CookieTimed => self.key.hash_words([addresses, last, number]),
                _ => self.key.hash_words([addresses, last]),
            };
        }
        let [local, remote] = [flow.local, flow.remote].map(u128::from_le_bytes);
        let (local_end, remote_end) = ((local >> 64) as u64, (remote >> 64) as u64);
        let words = [local as u64, local_end, remote as u64, remote_end, last, number];
        self.key.hash_words(words)
    }
}

/// Returns the address of IPv4 that an IPv4-mapped IPv6 address stands for.
fn version4(address: &[u8; 16]) -> Option<u32> {
    let number = u128::from_be_bytes(*address);
    (number >> 32 == 0xffff).then_some(number as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SECOND;

    fn flow(remote_port: u16) -> Flow {
        Flow {
            local: [1; 16],
            remote: [2; 16],
            local_port: 80,
            remote_port,
            label: SecrecyId::NONE,
        }
    }

    /// Returns a flow of IPv4.
    fn flow4(remote_port: u16) -> Flow {
        let end = |last| core::net::Ipv4Addr::new(10, 0, 0, last).to_ipv6_mapped().octets();
        Flow { local: end(1), remote: end(2), local_port: 80, remote_port, label: SecrecyId::NONE }
    }

    #[test]
    fn cookies_are_valid_for_their_flow_and_two_minutes() {
        cookies_are_valid(flow);
        cookies_are_valid(flow4);
    }

    fn cookies_are_valid(flow: fn(u16) -> Flow) {
        let secret = Secret::new([9; 16]);
        let made = 1000 * SECOND;
        let cookie = secret.syn_cookie(&flow(1), 77, made, 5);
        let data = |flow: &Flow, irs, at| secret.cookie_data(flow, irs, at, cookie);
        assert_eq!(data(&flow(1), 77, made), Some(5));
        assert_eq!(data(&flow(1), 77, 1060 * SECOND), Some(5));
        assert_eq!(data(&flow(1), 77, 1200 * SECOND), None);
        assert_ne!(data(&flow(2), 77, made), Some(5));
        assert_ne!(data(&flow(1), 78, made), Some(5));
    }

    #[test]
    fn only_mapped_addresses_are_short() {
        let mut mapped = flow4(1).local;
        assert_eq!(version4(&mapped), Some(0x0a00_0001));
        mapped[0] = 1;
        assert_eq!(version4(&mapped), None);
        assert_eq!(version4(&[0; 16]), None);
        let secret = Secret::new([9; 16]);
        let ends = |local, remote| Flow { local, remote, ..flow(1) };
        let short = ends(flow4(1).local, flow4(1).remote);
        let swapped = ends(flow4(1).remote, flow4(1).local);
        assert_ne!(secret.timestamps_offset(&short), secret.timestamps_offset(&swapped));
    }

    #[test]
    fn initial_numbers_grow_with_time_and_differ_between_flows() {
        let secret = Secret::new([9; 16]);
        let at = |flow: &Flow, seconds| secret.initial_sequence(flow, seconds * SECOND);
        assert_eq!(at(&flow(1), 2).wrapping_sub(at(&flow(1), 1)), 1_000_000_000 / 64);
        assert_ne!(at(&flow(1), 1), at(&flow(2), 1));
        let (own, other) = secret.initial_sequences(&flow(1), SECOND);
        assert_eq!(own, at(&flow(1), 1));
        assert_ne!(own, other);
        assert_eq!(secret.timestamps_offset(&flow(1)), secret.timestamps_offset(&flow(2)));
    }
}

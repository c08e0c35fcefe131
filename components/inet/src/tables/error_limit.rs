//! The limit of ICMP messages that are sent, as Linux has it: 1000 a second and 50 at once for the host; one a second and six at
//! once for a peer (`icmp_msgs_per_sec`, `icmp_msgs_burst`, `icmp_ratelimit`).
use crate::base::bucket::TokenBucket;
use alloc::collections::BTreeMap;
use core::net::IpAddr;

const RATE: u64 = 1000;
const BURST: u64 = 50;
const PEER_RATE: u64 = 1;
const PEER_BURST: u64 = 6;
/// Peers that are remembered. With more, the memory begins anew: the limit of the host holds.
const PEERS_MAX: usize = 256;

/// The limit.
#[derive(Debug)]
pub struct ErrorLimit {
    all: TokenBucket,
    peers: BTreeMap<IpAddr, TokenBucket>,
}

impl ErrorLimit {
    /// Returns a limit that nothing counts against yet.
    pub fn new() -> ErrorLimit {
        ErrorLimit { all: TokenBucket::new(RATE, BURST, 0), peers: BTreeMap::new() }
    }
    /// Returns whether an error may be sent to `peer`, and counts it.
    pub fn allows(&mut self, peer: IpAddr, now_ns: u64) -> bool {
        if self.peers.len() >= PEERS_MAX && !self.peers.contains_key(&peer) {
            self.peers.clear();
        }
        let bucket = self
            .peers
            .entry(peer)
            .or_insert_with(|| TokenBucket::new(PEER_RATE, PEER_BURST, now_ns));
        bucket.take(now_ns) && self.all.take(now_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_gets_six_errors_and_all_peers_fifty() {
        let mut limit = ErrorLimit::new();
        let peer = |number: u16| IpAddr::from([10, 0, (number >> 8) as u8, number as u8]);
        assert_eq!((0..20).filter(|_| limit.allows(peer(1), 0)).count(), 6);
        assert_eq!((2..2000).filter(|number| limit.allows(peer(*number), 0)).count(), 44);
        assert!(limit.peers.len() <= PEERS_MAX);
        assert!(limit.allows(peer(1), 1_000_000_000));
    }
}

//! The cache of path MTUs (RFC 1191, RFC 8201): destinations whose path takes less than its first link.
use alloc::collections::BTreeMap;
use core::{
    net::IpAddr,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
};
use rt::{lock_class, sync::Mutex};

lock_class! {
    static PATH_MTUS = "inet.path_mtus";
}

/// The least MTU of an IPv4 path that an error can cause (`min_pmtu`).
pub const MIN4: u32 = 552;
/// The least MTU of an IPv6 path.
pub const MIN6: u32 = packet::ipv6::MTU_MIN as u32;
/// Time after which a greater MTU is tried (`mtu_expires`).
const LIFE_NS: u64 = 600 * 1_000_000_000;
/// Destinations, at most. With more, those that ended go, or else all.
const ENTRIES_MAX: usize = 4096;
/// Common MTUs, for errors of old routers that tell none (RFC 1191, section 7.1).
const PLATEAUS: [u32; 9] = [32_000, 17_914, 8166, 4352, 2002, 1492, 1006, 508, 296];

/// The cache.
pub struct PathMtus {
    entries: Mutex<BTreeMap<IpAddr, (u32, u64)>>,
    count: AtomicUsize,
    version: AtomicU64,
}

impl PathMtus {
    /// Returns an empty cache.
    pub fn new() -> PathMtus {
        PathMtus {
            entries: Mutex::new(&PATH_MTUS, BTreeMap::new()),
            count: AtomicUsize::new(0),
            version: AtomicU64::new(0),
        }
    }
    /// Returns the version of the cache. It grows with each change.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }
    /// Returns the MTU of the path to `destination`, if it is known. Takes no lock while the cache is empty.
    pub fn get(&self, destination: IpAddr, now_ns: u64) -> Option<u32> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let entries = self.entries.lock();
        entries.get(&destination).filter(|(_, end)| now_ns < *end).map(|(mtu, _)| *mtu)
    }
    /// Learns that a packet of `length` bytes to `destination` was too long for a link of `told` bytes; zero says nothing. Returns
    /// the path's MTU.
    pub fn learn(&self, destination: IpAddr, told: u32, length: u32, now_ns: u64) -> u32 {
        let below = |limit: u32| PLATEAUS.into_iter().find(|one| *one < limit).unwrap_or(MIN4);
        let min = if destination.is_ipv4() { MIN4 } else { MIN6 };
        let told = if told == 0 { below(length) } else { told };
        let mut entries = self.entries.lock();
        if entries.len() >= ENTRIES_MAX && !entries.contains_key(&destination) {
            entries.retain(|_, (_, end)| now_ns < *end);
            if entries.len() >= ENTRIES_MAX {
                entries.clear();
            }
        }
        // An error never makes an MTU greater.
        let known = entries.get(&destination).filter(|(_, end)| now_ns < *end);
        let mtu = told.max(min).min(known.map_or(u32::MAX, |(mtu, _)| *mtu));
        entries.insert(destination, (mtu, now_ns.saturating_add(LIFE_NS)));
        self.count.store(entries.len(), Ordering::Relaxed);
        self.version.fetch_add(1, Ordering::Release);
        mtu
    }
}

impl Default for PathMtus {
    fn default() -> PathMtus {
        PathMtus::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_mtu_shrinks_and_is_forgotten() {
        let cache = PathMtus::new();
        let peer = IpAddr::from([10, 0, 0, 1]);
        assert_eq!(cache.get(peer, 0), None);
        assert_eq!(cache.learn(peer, 1400, 1500, 0), 1400);
        assert_eq!(cache.learn(peer, 1450, 1500, 1), 1400, "it does not grow");
        assert_eq!(cache.get(peer, 2), Some(1400));
        assert_eq!(cache.learn(peer, 100, 1400, 2), MIN4);
        assert_eq!(cache.get(peer, 3 + LIFE_NS), None);
        assert_eq!(cache.learn(peer, 0, 1500, 3 + LIFE_NS), 1492, "an old router");
        let peer6: IpAddr = "fd00::1".parse().unwrap();
        assert_eq!(cache.learn(peer6, 600, 1500, 0), MIN6);
    }

    #[test]
    fn the_cache_is_bounded() {
        let cache = PathMtus::new();
        for number in 0..3 * ENTRIES_MAX as u32 {
            cache.learn(IpAddr::V4(number.into()), 1400, 1500, 0);
        }
        assert!(cache.count.load(Ordering::Relaxed) <= ENTRIES_MAX);
    }
}

//! [`CookieCache`]: the Fast Open cookies that peers gave (RFC 7413 section 4.1.3).
use alloc::collections::BTreeMap;
use core::net::IpAddr;
use rt::{lock_class, sync::Mutex};
use tcp::FastOpenCookie;

lock_class! {
    static COOKIES = "inet.tcp.fast_open";
}

/// Peers whose cookies are kept, at most.
const PEERS_MAX: usize = 1024;

/// The cookies of peers.
pub(crate) struct CookieCache(Mutex<BTreeMap<IpAddr, FastOpenCookie>>);

impl CookieCache {
    pub(crate) fn new() -> CookieCache {
        CookieCache(Mutex::new(&COOKIES, BTreeMap::new()))
    }
    /// Returns the cookie of a peer.
    pub(crate) fn get(&self, peer: IpAddr) -> Option<FastOpenCookie> {
        self.0.lock().get(&peer).copied()
    }
    /// Keeps the cookie of a peer. If there are too many, that of another peer goes.
    pub(crate) fn put(&self, peer: IpAddr, cookie: FastOpenCookie) {
        let mut all = self.0.lock();
        if all.len() >= PEERS_MAX && !all.contains_key(&peer) {
            let next = all.range(peer..).next().map(|(other, _)| *other);
            match next {
                Some(other) => all.remove(&other),
                None => all.pop_first().map(|(_, cookie)| cookie),
            };
        }
        all.insert(peer, cookie);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_are_kept_for_a_bounded_number_of_peers() {
        let cache = CookieCache::new();
        let cookie = FastOpenCookie::new(&[1; 8]).unwrap();
        let peer = |number: u32| IpAddr::V4(number.into());
        assert_eq!(cache.get(peer(1)), None);
        (0..2000).for_each(|number| cache.put(peer(number), cookie));
        assert_eq!(cache.get(peer(1999)), Some(cookie));
        assert_eq!(cache.0.lock().len(), PEERS_MAX);
    }
}

//! A token bucket.

const NS_PER_S: u64 = 1_000_000_000;

/// A bucket that fills with time. Each event takes a token.
#[derive(Clone, Copy, Debug)]
pub struct TokenBucket {
    /// Time that has been saved, in nanoseconds; a token is `cost_ns` of it.
    saved_ns: u64,
    last_ns: u64,
    cost_ns: u64,
    saved_max_ns: u64,
}

impl TokenBucket {
    /// Returns a full bucket: `rate` tokens a second, at most `burst` at once.
    pub fn new(rate: u64, burst: u64, now_ns: u64) -> TokenBucket {
        let cost_ns = NS_PER_S / rate.max(1);
        let saved_max_ns = cost_ns.saturating_mul(burst);
        TokenBucket { saved_ns: saved_max_ns, last_ns: now_ns, cost_ns, saved_max_ns }
    }
    /// Takes a token. Returns whether there was one.
    pub fn take(&mut self, now_ns: u64) -> bool {
        let passed = now_ns.saturating_sub(self.last_ns);
        self.last_ns = self.last_ns.max(now_ns);
        self.saved_ns = self.saved_ns.saturating_add(passed).min(self.saved_max_ns);
        match self.saved_ns.checked_sub(self.cost_ns) {
            Some(rest) => {
                self.saved_ns = rest;
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_gives_its_burst_and_then_its_rate() {
        let mut bucket = TokenBucket::new(1000, 50, 0);
        assert_eq!((0..100).filter(|_| bucket.take(0)).count(), 50);
        assert_eq!((0..100).filter(|_| bucket.take(10_000_000)).count(), 10);
        assert_eq!((0..100).filter(|_| bucket.take(100 * NS_PER_S)).count(), 50);
        assert!(!bucket.take(0), "time that goes back gives nothing");
    }
}

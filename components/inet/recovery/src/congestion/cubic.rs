//! CUBIC (RFC 9438): the window is a cubic function of the time since the last congestion event.
//!
//! Integers only. Times in the cubic function are in milliseconds, windows in bytes.
use super::{CongestionWindow, Delivered};

/// One over the constant C = 0.4 segments/s^3, for times in milliseconds and thousandths of a segment.
const MS3_PER_MILLISEGMENT: u64 = 2_500_000;

/// The largest time difference in the cubic function, in milliseconds. Its cube fits in 60 bits.
const TIME_MAX_MS: u64 = 1_000_000;

/// The state of CUBIC between two congestion events.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cubic {
    /// The window before the last reduction, lowered for fast convergence; 0 before the first.
    w_max: u64,
    /// The window at the last congestion event (`cwnd_prior`).
    prior: u64,
    epoch: Option<Epoch>,
}

/// A stage of congestion avoidance.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    start_ns: u64,
    /// The window at the inflection of the curve.
    origin: u64,
    /// The time of the inflection after the start (`K`).
    k_ms: u64,
    /// The window that Reno would have (`W_est`).
    estimate: u64,
    /// The fractions of bytes that the estimate and the window still have to grow.
    estimate_credit: u64,
    credit: u64,
}

impl Cubic {
    /// Grows the window in congestion avoidance (RFC 9438, sections 4.2 to 4.5).
    pub(super) fn grow(
        &mut self,
        window: &mut CongestionWindow,
        bytes: u64,
        delivered: &Delivered,
    ) {
        let CongestionWindow { cwnd, mss, .. } = *window;
        let prior = self.prior;
        let w_max = self.w_max;
        let epoch = self.epoch.get_or_insert_with(|| Epoch::new(w_max, window, delivered.now_ns));
        epoch.grow_estimate(window, bytes, prior);
        let elapsed_ns = delivered.now_ns.saturating_sub(epoch.start_ns);
        if epoch.window(elapsed_ns, mss) < epoch.estimate {
            window.cwnd = cwnd.max(epoch.estimate);
            return;
        }
        let ahead_ns = elapsed_ns.saturating_add(delivered.srtt_ns);
        let target = epoch.window(ahead_ns, mss).clamp(cwnd, cwnd + cwnd / 2);
        epoch.credit += (target - cwnd) * bytes.min(cwnd);
        window.cwnd += epoch.credit / cwnd;
        epoch.credit %= cwnd;
    }

    /// Notes a congestion event (RFC 9438, sections 4.6 and 4.7). Returns the new threshold.
    pub(super) fn reduce(&mut self, window: &CongestionWindow) -> u64 {
        self.w_max = if window.cwnd < self.w_max { window.cwnd * 17 / 20 } else { window.cwnd };
        self.prior = window.cwnd;
        self.epoch = None;
        window.cwnd * 7 / 10
    }

    /// Moves the start of the stage by a time without sending.
    pub(super) fn skip(&mut self, idle_ns: u64) {
        if let Some(epoch) = &mut self.epoch {
            epoch.start_ns = epoch.start_ns.saturating_add(idle_ns);
        }
    }
}

impl Epoch {
    fn new(w_max: u64, window: &CongestionWindow, now_ns: u64) -> Self {
        let CongestionWindow { cwnd, mss, .. } = *window;
        let distance = w_max.saturating_sub(cwnd);
        let cube = u128::from(distance) * u128::from(1000 * MS3_PER_MILLISEGMENT) / u128::from(mss);
        let cube = cube.min(u128::from(TIME_MAX_MS.pow(3))) as u64;
        Self {
            start_ns: now_ns,
            origin: w_max.max(cwnd),
            k_ms: cube_root(cube),
            estimate: cwnd,
            estimate_credit: 0,
            credit: 0,
        }
    }

    /// Grows the estimate of Reno's window by `alpha` segments a window: 9/17, and 1 from the window before the reduction on.
    fn grow_estimate(&mut self, window: &CongestionWindow, bytes: u64, prior: u64) {
        let alpha = if self.estimate >= prior { 17 } else { 9 };
        self.estimate_credit += alpha * window.mss * bytes.min(window.cwnd);
        let step = 17 * window.cwnd;
        self.estimate += self.estimate_credit / step;
        self.estimate_credit %= step;
    }

    /// The cubic function: the window at a time after the start.
    fn window(&self, elapsed_ns: u64, mss: u64) -> u64 {
        let elapsed_ms = elapsed_ns / 1_000_000;
        let distance_ms = elapsed_ms.abs_diff(self.k_ms).min(TIME_MAX_MS);
        let change = distance_ms.pow(3) / MS3_PER_MILLISEGMENT * mss / 1000;
        if elapsed_ms < self.k_ms {
            self.origin.saturating_sub(change)
        } else {
            self.origin.saturating_add(change)
        }
    }
}

/// The largest integer with a cube of at most `value`.
fn cube_root(value: u64) -> u64 {
    let mut root: u64 = 0;
    for bit in (0..=21).rev() {
        let next = root | 1 << bit;
        if next.checked_pow(3).is_some_and(|cube| cube <= value) {
            root = next;
        }
    }
    root
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    fn delivery(now_ns: u64, bytes: u64) -> Delivered {
        Delivered { bytes, una: 0, nxt: 0, rtt_ns: None, srtt_ns: 0, now_ns }
    }

    #[test]
    fn the_cube_root_is_exact() {
        for root in [0, 1, 2, 99, 1000, 65_537, 1_000_000] {
            let cube = u64::pow(root, 3);
            assert_eq!(cube_root(cube), root);
            assert_eq!(cube_root(cube + 1), root + u64::from(root == 0));
            assert_eq!(cube_root(cube.saturating_sub(1)), root.saturating_sub(1));
        }
        assert_eq!(cube_root(u64::MAX), 2_642_245);
    }

    #[test]
    fn the_curve_starts_at_the_reduced_window_and_is_flat_at_the_old_one() {
        let mss = 1000;
        let mut cubic = Cubic::default();
        let mut window = CongestionWindow { cwnd: 1_000_000, ssthresh: u64::MAX, mss };
        window.cwnd = cubic.reduce(&window);
        assert_eq!(window.cwnd, 700_000);
        let epoch = Epoch::new(cubic.w_max, &window, 0);
        // K = cbrt(300 segments / 0.4) = 9.0856 s.
        assert_eq!(epoch.k_ms, 9085);
        assert!(epoch.window(0, mss).abs_diff(700_000) < 1000);
        assert_eq!(epoch.window(9085 * 1_000_000, mss), 1_000_000);
        // Five seconds after K: 0.4 * 125 = 50 segments more.
        assert_eq!(epoch.window(14_085 * 1_000_000, mss), 1_050_000);
    }

    #[test]
    fn the_window_follows_the_formula_of_the_rfc() {
        // 100 ms round trips, 1000 segments before the loss. Each acknowledgement delivers a segment.
        let mss = 1000;
        let mut cubic = Cubic::default();
        let mut window = CongestionWindow { cwnd: 1_000_000, ssthresh: u64::MAX, mss };
        window.cwnd = cubic.reduce(&window);
        let rtt_ns = SECOND_NS / 10;
        let mut now_ns = 0;
        while now_ns < 15 * SECOND_NS {
            let acks = window.cwnd / mss;
            for _ in 0..acks {
                let mut delivered = delivery(now_ns, mss);
                delivered.srtt_ns = rtt_ns;
                cubic.grow(&mut window, mss, &delivered);
                now_ns += rtt_ns / acks;
            }
            let seconds = now_ns as f64 / 1e9;
            let formula = 0.4 * (seconds - 9.0856).powi(3) + 1000.0;
            let error = (window.cwnd as f64 / 1000.0 - formula).abs() / formula;
            assert!(error < 0.02, "at {seconds} s: {} for {formula}", window.cwnd);
        }
    }

    #[test]
    fn a_small_window_grows_as_renos() {
        // 10 ms round trips and 20 segments: the cubic function is slower than Reno's estimate.
        let mss = 1000;
        let mut cubic = Cubic::default();
        let mut window = CongestionWindow { cwnd: 20_000, ssthresh: u64::MAX, mss };
        window.cwnd = cubic.reduce(&window);
        for round in 0..20 {
            let cwnd = window.cwnd;
            cubic.grow(&mut window, cwnd, &delivery(round * SECOND_NS / 100, cwnd));
        }
        // From 14 segments by 9/17 for each of 12 rounds to 20, then by 1 for each of 8.
        assert!(window.cwnd.abs_diff(28_000) < 1000, "{}", window.cwnd);
    }

    #[test]
    fn a_second_loss_below_the_first_converges_faster() {
        let mut cubic = Cubic::default();
        let mut window = CongestionWindow { cwnd: 100_000, ssthresh: u64::MAX, mss: 1000 };
        window.cwnd = cubic.reduce(&window);
        assert_eq!(cubic.w_max, 100_000);
        cubic.reduce(&window);
        assert_eq!(cubic.w_max, 59_500);
    }

    #[test]
    fn absurd_windows_and_times_do_not_overflow() {
        let mut cubic = Cubic::default();
        for mss in [1, crate::sender::MSS_MAX] {
            let mut window = CongestionWindow { cwnd: super::super::CWND_MAX, ssthresh: 0, mss };
            cubic.reduce(&window);
            window.cwnd = mss.min(super::super::CWND_MAX);
            cubic.grow(&mut window, u64::MAX, &delivery(0, u64::MAX));
            cubic.grow(&mut window, u64::MAX, &delivery(u64::MAX, u64::MAX));
        }
    }
}

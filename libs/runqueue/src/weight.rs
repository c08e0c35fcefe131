//! Weights of nice values: each step is a quarter more or less processor time.
//! Source: Linux `sched_prio_to_weight`.

const WEIGHTS: [u32; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904,
    3906, 3121, 2501, 1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87,
    70, 56, 45, 36, 29, 23, 18, 15,
];

/// Returns the weight of `nice` (cut to -20..=19); 1024 for 0.
pub fn weight(nice: i8) -> u32 {
    WEIGHTS[(i32::from(nice.clamp(-20, 19)) + 20) as usize]
}

/// Converts `ns` of processor time to virtual time at `weight`. The result is too small beyond half a
/// year.
pub fn virtual_ns(ns: u64, weight: u32) -> u64 {
    if weight == 1024 { ns } else { ns.saturating_mul(1024) / u64::from(weight.max(1)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nicer_threads_age_faster() {
        assert_eq!(virtual_ns(1000, weight(0)), 1000);
        assert!(virtual_ns(1000, weight(19)) > virtual_ns(1000, weight(0)));
        assert!(virtual_ns(1000, weight(-20)) < virtual_ns(1000, weight(0)));
        assert_eq!(weight(100), weight(19));
        assert_eq!(virtual_ns(u64::MAX, 1), u64::MAX);
    }
}

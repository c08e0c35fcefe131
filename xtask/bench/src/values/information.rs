//! The information that values taken by a receiver give about the bits of a sender.
use super::fit::Point;

/// Standard deviations from chance beyond which a channel is said to carry something: by chance one of 2,000 does.
const SIGNIFICANT: f64 = 3.3;
/// Standard deviations of an upper bound that holds with 95 %.
const SURE: f64 = 1.645;
/// One of so many bits teaches the receiver what its values mean; the others are counted.
const TAUGHT: usize = 4;

/// The bits that were sent in slots, and the values that were taken there.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sent {
    /// Length of a slot in seconds.
    pub slot: f64,
    /// The bits.
    pub bits: Vec<bool>,
    /// A value for each bit; none if a side did not come to its end.
    pub values: Vec<i64>,
    /// The error that the sender got, if any.
    pub refused: Option<String>,
}

/// The worth of a channel at one length of slots.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Worth {
    /// Bits per second of the guest's time; 0 if what was received may be chance.
    pub rate: f64,
    /// With 95 %, no more bits per second are received by such a receiver.
    pub most: f64,
    /// Part of the bits that were received wrong.
    pub wrong: f64,
    /// Number of bits that were counted.
    pub count: usize,
}

/// A receiver's rule: values above the threshold are ones, or zeros.
#[derive(Clone, Copy, Debug)]
struct Rule {
    threshold: i64,
    is_above: bool,
}

impl Rule {
    fn decide(self, value: i64) -> bool {
        (value > self.threshold) == self.is_above
    }

    /// Returns the number of pairs that it decides wrong.
    fn wrong(self, pairs: &[(bool, i64)]) -> usize {
        pairs.iter().filter(|&&(bit, value)| self.decide(value) != bit).count()
    }

    /// Finds the rule that decides least of `pairs` wrong.
    fn learn(pairs: &[(bool, i64)]) -> Option<Rule> {
        let mut values: Vec<i64> = pairs.iter().map(|&(_, value)| value).collect();
        values.sort_unstable();
        values.dedup();
        let thresholds = values.iter().zip(values.iter().skip(1));
        let thresholds = thresholds.map(|(&low, &high)| low + (high.saturating_sub(low)) / 2);
        let rules = thresholds
            .flat_map(|threshold| [true, false].map(|is_above| Rule { threshold, is_above }));
        rules.min_by_key(|rule| rule.wrong(pairs))
    }
}

/// Measures what the values say about the bits: by their size, or by their distance from the value before, whichever teaches
/// more. The rule is learnt from the first bits and counted on the others.
pub fn measure(sent: &Sent) -> Option<Worth> {
    let values = sent.values.iter().zip(sent.values.iter().skip(1));
    let sizes: Vec<i64> = values.clone().map(|(_, &value)| value).collect();
    let steps: Vec<i64> = values.map(|(&before, &value)| value.wrapping_sub(before)).collect();
    let bits = || sent.bits.iter().skip(1).copied();
    let taught = sizes.len() / TAUGHT;
    let halves = [sizes, steps].map(|form| {
        let mut pairs: Vec<(bool, i64)> = bits().zip(form).collect();
        let counted = pairs.split_off(taught.min(pairs.len()));
        (Rule::learn(&pairs).map(|rule| (rule.wrong(&pairs), rule)), counted)
    });
    let count = halves.first().map_or(0, |(_, counted)| counted.len());
    if count == 0 {
        return None;
    }
    let best = halves.iter().filter_map(|(rule, counted)| Some(((*rule)?, counted)));
    let best = best.min_by_key(|((wrong, _), _)| *wrong);
    let Some(((_, rule), counted)) = best else {
        return Some(worth(sent.slot, (count as f64 / 2.0, count as f64), 0.0));
    };
    let wrong = rule.wrong(counted) as f64;
    Some(worth(sent.slot, (wrong, count as f64), information(rule, counted)))
}

fn worth(slot: f64, (wrong, count): Point, information: f64) -> Worth {
    let deviation = 0.5 / count.sqrt();
    let wrong = wrong / count;
    let is_chance = wrong > 0.5 - SIGNIFICANT * deviation;
    let least_wrong = (wrong.min(0.5) - SURE * deviation).max(0.0);
    Worth {
        rate: if is_chance { 0.0 } else { information.max(0.0) / slot },
        most: (1.0 - entropy(least_wrong)) / slot,
        wrong,
        count: count as usize,
    }
}

/// Returns the mutual information of bits and decisions in bits, less what so few pairs show by chance (Miller and Madow).
fn information(rule: Rule, pairs: &[(bool, i64)]) -> f64 {
    let count = pairs.len() as f64;
    let mut cells = [[0.0_f64; 2]; 2];
    for &(bit, value) in pairs {
        let row = cells.get_mut(usize::from(bit));
        if let Some(cell) = row.and_then(|row| row.get_mut(usize::from(rule.decide(value)))) {
            *cell += 1.0 / count;
        }
    }
    let plogp = |part: f64| if part > 0.0 { part * part.log2() } else { 0.0 };
    let [[a, b], [c, d]] = cells;
    let joint: f64 = [a, b, c, d].map(plogp).iter().sum();
    let single: f64 = [a + b, c + d, a + c, b + d].map(plogp).iter().sum();
    joint - single - 1.0 / (2.0 * count * std::f64::consts::LN_2)
}

/// Returns the entropy in bits of an event of this probability.
fn entropy(part: f64) -> f64 {
    let term = |part: f64| if part > 0.0 { -part * part.log2() } else { 0.0 };
    term(part) + term(1.0 - part)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bits of a linear congruence.
    fn bits(count: usize) -> Vec<bool> {
        let next = |word: &u64| Some(word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        std::iter::successors(Some(7), next)
            .skip(9)
            .map(|word| word >> 63 == 1)
            .take(count)
            .collect()
    }

    fn sent(values: impl Fn(usize, bool) -> i64) -> Sent {
        let bits = bits(1000);
        let values = bits.iter().enumerate().map(|(at, &bit)| values(at, bit)).collect();
        Sent { slot: 0.01, bits, values, refused: None }
    }

    #[test]
    fn a_state_is_read_whatever_its_sign() {
        for (zero, one) in [(10, 3), (-11, 0)] {
            let worth = measure(&sent(|_, bit| if bit { one } else { zero })).unwrap();
            assert!(worth.wrong == 0.0 && (98.0..100.1).contains(&worth.rate), "{worth:?}");
        }
    }

    #[test]
    fn a_counter_is_read_by_its_steps() {
        let all = bits(1000);
        let total = |at: usize| all.iter().take(at + 1).filter(|&&bit| bit).count() as i64;
        let worth = measure(&sent(|at, _| 5 * at as i64 + total(at))).unwrap();
        assert_eq!(worth.wrong, 0.0);
    }

    #[test]
    fn errors_lessen_the_rate_as_the_formula_says() {
        // One of ten is wrong: 1 - H(0.1) = 0.531.
        let worth = measure(&sent(|at, bit| i64::from(bit != (at % 10 == 0)))).unwrap();
        assert!(
            (worth.wrong - 0.1).abs() < 0.02 && (50.0..57.0).contains(&worth.rate),
            "{worth:?}"
        );
    }

    #[test]
    fn nothing_is_carried_by_a_constant_or_by_other_bits() {
        let other: Vec<bool> = bits(3000).split_off(1500);
        for found in [sent(|_, _| 4), sent(|at, _| i64::from(other.get(at) == Some(&true)))] {
            let worth = measure(&found).unwrap();
            assert!(worth.rate == 0.0 && worth.wrong > 0.4, "{worth:?}");
            assert!((0.01..2.0).contains(&worth.most), "{worth:?}");
        }
        assert_eq!(measure(&Sent::default()), None);
    }
}

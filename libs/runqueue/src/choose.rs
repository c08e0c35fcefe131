//! The choice of a processor for a thread that is to run.

/// Chooses one of `count` processors for a thread that was on `last`, within its affinity: `last` if that is idle, else any
/// idle one, else `last`.
#[inline]
pub fn choose(
    count: usize,
    last: usize,
    may_run: impl Fn(usize) -> bool,
    is_idle: impl Fn(usize) -> bool,
) -> usize {
    let may_stay = may_run(last);
    if may_stay && is_idle(last) {
        return last;
    }
    let idle = (0..count).find(|&cpu| may_run(cpu) && is_idle(cpu));
    let any = || (0..count).find(|&cpu| !may_stay && may_run(cpu));
    idle.or_else(any).unwrap_or(last)
}

/// Returns a set with a bit for each of `count` processors.
pub fn all_of(count: usize) -> u64 {
    u32::try_from(count)
        .ok()
        .and_then(|count| 1u64.checked_shl(count))
        .map_or(u64::MAX, |end| end - 1)
}

/// Returns whether a thread with the set `affinity` may run on processor `cpu` of `count`. A set without one of these allows
/// all.
#[inline]
pub fn allows(affinity: u64, cpu: usize, count: usize) -> bool {
    affinity & 1 << cpu != 0 || affinity & all_of(count) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Chooses among four processors, given as masks of bits.
    fn chosen(last: usize, affinity: u32, idle: u32) -> usize {
        choose(4, last, |cpu| affinity >> cpu & 1 != 0, |cpu| idle >> cpu & 1 != 0)
    }

    #[test]
    fn it_stays_where_that_is_idle_or_nothing_is() {
        assert_eq!(chosen(2, 0b1111, 0b1110), 2);
        assert_eq!(chosen(2, 0b1111, 0), 2);
    }

    #[test]
    fn it_goes_where_it_is_idle() {
        assert_eq!(chosen(2, 0b1111, 0b1010), 1);
        assert_eq!(chosen(2, 0b1100, 0b1010), 3);
    }

    #[test]
    fn it_goes_only_where_it_may() {
        assert_eq!(chosen(2, 0b1000, 0b0111), 3);
        assert_eq!(chosen(2, 0b0010, 0), 1);
        assert_eq!(chosen(2, 0, 0b1111), 2);
    }

    #[test]
    fn a_set_of_processors_that_are_absent_allows_all() {
        assert_eq!([0, 1, 63, 64, 65].map(all_of), [0, 1, u64::MAX >> 1, u64::MAX, u64::MAX]);
        assert!(allows(0b10, 1, 2) && !allows(0b10, 0, 2));
        assert!(allows(0b100, 0, 2) && allows(0, 1, 2));
    }
}

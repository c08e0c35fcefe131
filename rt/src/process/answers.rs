//! The answers of calls about spaces, taken out of their words (`calls::space` has the other direction).
use calls::space::{ACCESSED, DIRTY, EXCEPTION, LARGE, PAGE_FAULT};
use program::{Access, CpuTime, Page, Protection, Trap, Unshared};

/// Returns the result of a `MakeWritable` that `number` stands for.
pub(crate) const fn unshared_of(number: u64) -> Unshared {
    match number {
        0 => Unshared::Reused,
        1 => Unshared::Copied,
        _ => Unshared::Absent,
    }
}

/// Unpacks `page_word`.
pub(crate) fn page_of(word: u64) -> Page {
    Page {
        frame: (word >> 32) as u32,
        protection: Protection::from_bits_truncate(word as u8),
        is_accessed: word & ACCESSED != 0,
        is_dirty: word & DIRTY != 0,
        is_large: word & LARGE != 0,
    }
}

/// Unpacks [`CpuTime::words`].
pub(crate) fn time_of([user_ns, system_ns, last]: [u64; 3]) -> CpuTime {
    CpuTime {
        user_ns,
        system_ns,
        voluntary_switches: last >> CpuTime::SWITCHES_BITS & CpuTime::SWITCHES_MAX,
        forced_switches: last & CpuTime::SWITCHES_MAX,
        processor: (last >> (2 * CpuTime::SWITCHES_BITS)) as u32 & CpuTime::PROCESSOR_MAX,
        is_runnable: last & CpuTime::RUNNABLE != 0,
        is_interruptible: last & CpuTime::INTERRUPTIBLE != 0,
    }
}

/// Unpacks `trap_words`.
#[inline]
pub(crate) fn trap_of([kind, first, second]: [u64; 3]) -> Trap {
    match kind & 0xff {
        PAGE_FAULT => {
            let access = match kind >> 8 & 0xff {
                0 => Access::Read,
                1 => Access::Write,
                _ => Access::Execute,
            };
            Trap::PageFault { address: first, access, is_present: kind >> 16 != 0 }
        }
        EXCEPTION => Trap::Exception { vector: first as u8, error_code: second },
        _ => Trap::Kicked,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use calls::space::{page_word, trap_words};

    #[test]
    fn pages_and_traps_survive_their_words() {
        for bits in 0..64u8 {
            let is = |bit: u8| bits & bit != 0;
            let protection = Protection::from_bits_truncate(bits & 7);
            let (is_accessed, is_dirty, is_large) = (is(8), is(16), is(32));
            let frame = u32::MAX - u32::from(bits);
            let page = Page { frame, protection, is_accessed, is_dirty, is_large };
            assert_eq!(page_of(page_word(&page)), page);
            for access in [Access::Read, Access::Write, Access::Execute] {
                let address = u64::MAX / u64::from(bits + 1);
                let trap = Trap::PageFault { address, access, is_present: is(1) };
                assert_eq!(trap_of(trap_words(trap)), trap);
            }
            let trap = Trap::Exception { vector: bits, error_code: u64::from(bits) << 40 };
            assert_eq!(trap_of(trap_words(trap)), trap);
        }
        assert_eq!(trap_of(trap_words(Trap::Kicked)), Trap::Kicked);
    }

    #[test]
    fn used_time_comes_out_of_its_words() {
        let used = CpuTime {
            user_ns: u64::MAX,
            system_ns: 7,
            voluntary_switches: CpuTime::SWITCHES_MAX,
            forced_switches: 3,
            processor: CpuTime::PROCESSOR_MAX,
            is_runnable: true,
            is_interruptible: false,
        };
        assert_eq!(time_of(used.words()), used);
        let more = CpuTime { voluntary_switches: u64::MAX, processor: 255, ..used };
        assert_eq!(time_of(more.words()), used, "no field reaches into another");
        let waiting = CpuTime { is_runnable: false, is_interruptible: true, ..used };
        assert_eq!(time_of(waiting.words()), waiting);
    }

    #[test]
    fn results_of_unsharing_survive_their_numbers() {
        for unshared in [Unshared::Reused, Unshared::Copied, Unshared::Absent] {
            assert_eq!(unshared_of(unshared as u64), unshared);
        }
    }
}

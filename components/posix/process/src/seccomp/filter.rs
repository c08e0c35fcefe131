//! [`Confinement`] and [`Filter`]: the calls that a task may make.
use super::listener::Notices;
use alloc::sync::Arc;
use bpf::{Call, NUMBERS, Program};
use linux_raw_sys::general as raw;
use rt::memory::Charge;
use vfs::Errno;

/// The result of a filter: an action, and 16 bits of data below it.
pub mod action {
    #![allow(missing_docs, reason = "the names are Linux's")]
    pub const KILL_PROCESS: u32 = 0x8000_0000;
    pub const KILL_THREAD: u32 = 0;
    pub const TRAP: u32 = 0x0003_0000;
    pub const ERRNO: u32 = 0x0005_0000;
    pub const USER_NOTIF: u32 = 0x7fc0_0000;
    pub const TRACE: u32 = 0x7ff0_0000;
    pub const LOG: u32 = 0x7ffc_0000;
    pub const ALLOW: u32 = 0x7fff_0000;

    /// Returns the action of a filter's result.
    pub const fn of(answer: u32) -> u32 {
        answer & 0xffff_0000
    }
    /// Returns the rank of a result; the lowest rank of a chain counts.
    pub(super) const fn rank(answer: u32) -> i32 {
        of(answer) as i32
    }
}

/// The calls that a task may make.
#[derive(Clone)]
pub enum Confinement {
    /// Only read, write, exit and rt_sigreturn are allowed.
    Strict,
    /// The calls that all filters of the chain allow.
    Filtered(Arc<Filter>),
}

impl Confinement {
    /// Returns the mode that prctl(`PR_GET_SECCOMP`) reports.
    pub fn mode(&self) -> u32 {
        match self {
            Confinement::Strict => 1,
            Confinement::Filtered(_) => 2,
        }
    }
    /// Returns the number of filters.
    pub fn filters(&self) -> u32 {
        match self {
            Confinement::Strict => 0,
            Confinement::Filtered(filter) => filter.count,
        }
    }
    /// Returns whether `number` is allowed with any arguments.
    #[inline]
    pub(super) fn allows(&self, number: u32) -> bool {
        match self {
            Confinement::Filtered(filter) => filter.allowed.has(number),
            Confinement::Strict => matches!(
                number,
                raw::__NR_read | raw::__NR_write | raw::__NR_exit | raw::__NR_rt_sigreturn
            ),
        }
    }
}

/// A set of calls in the table.
#[derive(Clone, Copy)]
struct Numbers([u64; NUMBERS / 64]);

impl Numbers {
    /// Returns the set of those numbers in `0..NUMBERS` for which `is_in` is true.
    fn those(is_in: impl Fn(u32) -> bool) -> Numbers {
        let mut words = [0; NUMBERS / 64];
        for (word, first) in words.iter_mut().zip((0_u32..).step_by(64)) {
            let inside = (0_u32..64).filter(|bit| is_in(first + bit));
            *word = inside.fold(0_u64, |sum, bit| sum | 1 << bit);
        }
        Numbers(words)
    }
    #[inline]
    fn has(&self, number: u32) -> bool {
        let word = self.0.get((number / 64) as usize);
        word.is_some_and(|word| word >> (number % 64) & 1 != 0)
    }
}

/// Tells whether calls that a filter refuses are logged (`SECCOMP_FILTER_FLAG_LOG`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Logging {
    /// They are not.
    Off,
    /// They are.
    On,
}

/// A filter program, linked to the previous filters.
pub struct Filter {
    program: Program,
    pub(super) logging: Logging,
    /// The queue of calls for the listener.
    pub(super) notices: Option<Arc<Notices>>,
    previous: Option<Arc<Filter>>,
    /// The calls that the whole chain allows by the number alone.
    allowed: Numbers,
    /// Number of filters in the chain.
    count: u32,
    /// The length of the chain by Linux's measure.
    weight: u32,
    _charge: Charge,
}

/// A checked program and the memory that it and its filter take.
pub struct Prepared {
    program: Program,
    charge: Charge,
}

impl Prepared {
    /// Makes the program of `words`.
    ///
    /// # Errors
    /// `EINVAL` if they are not a valid program, `ENOMEM`.
    pub fn new(words: &[u64]) -> Result<Prepared, Errno> {
        let charge = Charge::take(size_of::<Filter>() + Program::bytes(words.len()))?;
        let program = Program::new(words).map_err(|_| Errno::EINVAL)?;
        Ok(Prepared { program, charge })
    }
}

/// The result of a chain for a call.
pub(super) struct ChainAnswer<'a> {
    pub(super) value: u32,
    /// The filter that gave the result; `None` if all allow the call.
    pub(super) by: Option<&'a Filter>,
}

impl Filter {
    /// Greatest weight of a chain.
    const WEIGHT_MAX: u32 = 32_768;
    /// Weight of each filter except the newest, besides the length of its program.
    const WEIGHT_EACH: u32 = 4;

    /// Puts a program before a chain.
    ///
    /// # Errors
    /// `ENOMEM` if the chain were too long.
    pub fn new(
        prepared: Prepared,
        logging: Logging,
        notices: Option<Arc<Notices>>,
        previous: Option<Arc<Filter>>,
    ) -> Result<Arc<Filter>, Errno> {
        let Prepared { program, charge } = prepared;
        let before = previous.as_deref();
        let weight = program.weight() + before.map_or(0, |chain| chain.weight + Self::WEIGHT_EACH);
        if weight > Self::WEIGHT_MAX {
            return Err(Errno::ENOMEM);
        }
        let allowed = Numbers::those(|number| {
            before.is_none_or(|chain| chain.allowed.has(number))
                && program.constant(number).map(action::of) == Some(action::ALLOW)
        });
        let count = 1 + before.map_or(0, |chain| chain.count);
        Ok(Arc::new(Filter {
            program,
            logging,
            notices,
            previous,
            allowed,
            count,
            weight,
            _charge: charge,
        }))
    }

    /// Returns whether a filter of the chain has a listener.
    pub fn has_listener(&self) -> bool {
        self.chain().filter_map(|one| one.notices.as_ref()).any(|notices| notices.has_listener())
    }

    /// Returns whether the chain that starts at `self` contains `filter`.
    pub fn descends_from(&self, filter: &Arc<Filter>) -> bool {
        self.chain().any(|one| core::ptr::eq(one, Arc::as_ptr(filter)))
    }

    /// Returns the filters, newest first.
    fn chain(&self) -> impl Iterator<Item = &Filter> {
        core::iter::successors(Some(self), |one| one.previous.as_deref())
    }

    /// Returns the result of the lowest rank; the newest of several.
    pub(super) fn answer(&self, call: &Call) -> ChainAnswer<'_> {
        let mut lowest = ChainAnswer { value: action::ALLOW, by: None };
        for filter in self.chain() {
            let value = filter.program.run(call);
            if action::rank(value) < action::rank(lowest.value) {
                lowest = ChainAnswer { value, by: Some(filter) };
            }
        }
        lowest
    }
}

impl Drop for Filter {
    /// The filters are dropped in a loop: recursion along a chain could overflow the stack.
    fn drop(&mut self) {
        if let Some(notices) = &self.notices {
            notices.hang_up();
        }
        let mut next = self.previous.take();
        while let Some(mut filter) = next.and_then(Arc::into_inner) {
            next = filter.previous.take();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LD_NUMBER: u64 = 0x20;

    fn answer(value: u32) -> u64 {
        0x06 | u64::from(value) << 32
    }
    /// Makes a filter that returns `value` for `number`, and allows the other calls.
    fn only(number: u32, value: u32) -> Vec<u64> {
        let if_equal = 0x15 | 1 << 24 | u64::from(number) << 32;
        [LD_NUMBER, if_equal, answer(value), answer(action::ALLOW)].to_vec()
    }
    fn put(words: &[u64], previous: Option<Arc<Filter>>) -> Result<Arc<Filter>, Errno> {
        Filter::new(Prepared::new(words).unwrap(), Logging::Off, None, previous)
    }
    fn chain(programs: &[Vec<u64>]) -> Arc<Filter> {
        let put = |previous, words: &Vec<u64>| Some(put(words, previous).unwrap());
        programs.iter().fold(None, put).unwrap()
    }
    fn answered(chain: &Filter, number: u32) -> u32 {
        chain.answer(&Call::new(number, 0, [0; 6])).value
    }

    #[test]
    fn the_lowest_rank_of_a_chain_counts_and_the_newest_among_equals() {
        let order = [
            action::KILL_PROCESS,
            action::KILL_THREAD,
            action::TRAP,
            action::ERRNO,
            action::USER_NOTIF,
            action::TRACE,
            action::LOG,
        ];
        for (at, higher) in order.iter().enumerate() {
            for lower in &order[..=at] {
                let both = [only(7, *lower), only(7, *higher)];
                assert_eq!(answered(&chain(&both), 7), *lower);
                let both = [only(7, *higher), only(7, *lower)];
                assert_eq!(answered(&chain(&both), 7), *lower);
            }
        }
        let errors = chain(&[only(7, action::ERRNO | 1), only(7, action::ERRNO | 2)]);
        assert_eq!(answered(&errors, 7), action::ERRNO | 2);
    }

    #[test]
    fn what_every_filter_allows_by_its_number_is_a_bit() {
        let one = chain(&[only(7, action::KILL_THREAD)]);
        let both = put(&only(8, action::LOG), Some(one.clone())).unwrap();
        let guards = [Confinement::Filtered(one.clone()), Confinement::Filtered(both.clone())];
        assert_eq!([6, 7, 8].map(|number| guards[0].allows(number)), [true, false, true]);
        assert_eq!([6, 7, 8].map(|number| guards[1].allows(number)), [true, false, false]);
        assert!(!guards[0].allows(NUMBERS as u32) && !guards[0].allows(u32::MAX));
        assert_eq!((guards[1].mode(), guards[1].filters()), (2, 2));
        assert!(both.descends_from(&one) && both.descends_from(&both) && !one.descends_from(&both));
    }

    #[test]
    fn a_chain_is_as_long_as_on_linux_and_ends_one_by_one() {
        let mut chain = None;
        let mut count = 0;
        while let Ok(longer) = put(&[answer(action::ALLOW)], chain.clone()) {
            (chain, count) = (Some(longer), count + 1);
        }
        assert_eq!(count, 3641, "as measured on Linux 6.18");
        let chain = chain.unwrap();
        assert_eq!(chain.count, 3641);
        let handle = std::thread::Builder::new().stack_size(64 << 10).spawn(move || drop(chain));
        handle.unwrap().join().unwrap();
    }
}

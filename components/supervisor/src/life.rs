//! The life of a component, which decides whether and when it is started again: [`Life`], a state machine
//! without a clock of its own.
//!
//! ```text
//!              started            answered
//!   Waiting ------------> Starting -------> Running
//!      ^ ^                   |                 |
//!      | +---- a failure, restarts left -------+
//!      |                     |                 |
//!      |   Degraded <- a failure, none left ---+
//!      |       | start       |                 |
//!      +-------+-- Stopped <-+--- a stop ------+
//! ```
//! A first failure is answered at once, the next after a pause that doubles each time, up to a longest one.
//! Failures older than the window are forgotten. An end by request is no failure.
use alloc::collections::VecDeque;
use interfaces::supervisor::State;

/// The limits of restarts after failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Restarts after failures within a window.
    pub restarts_max: u32,
    /// Length of the window.
    pub window_ns: u64,
    /// Pause before the second restart of a window; doubled for each further one.
    pub pause_ns: u64,
    /// Longest pause.
    pub pause_ns_max: u64,
}

/// The reason of an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The component ended by itself, or because it failed a check.
    Failed,
    /// A restart was ordered.
    AskedToRestart,
    /// A stop was ordered.
    AskedToStop,
}

/// The state of a component's life.
#[derive(Clone, Debug)]
pub struct Life {
    rules: Rules,
    state: State,
    /// Times of the failures within the last window, oldest first.
    failures: VecDeque<u64>,
    /// Time of the next start, while the component waits for it.
    start_ns: u64,
    restarts: u64,
}

impl Life {
    /// Makes the life of a component that is to be started at once.
    pub fn new(rules: Rules) -> Life {
        let failures = VecDeque::new();
        Life { rules, state: State::Waiting, failures, start_ns: 0, restarts: 0 }
    }
    /// Returns the component's state.
    pub fn state(&self) -> State {
        self.state
    }
    /// Returns the number of times that it was started again.
    pub fn restarts(&self) -> u64 {
        self.restarts
    }
    /// Returns the time of its next start, if there is one.
    pub fn start_at_ns(&self) -> Option<u64> {
        (self.state == State::Waiting).then_some(self.start_ns)
    }
    /// Notes that it was started. Returns `false` if a stop was ordered meanwhile.
    #[must_use]
    pub fn started(&mut self) -> bool {
        let is_wanted = self.state == State::Waiting;
        if is_wanted {
            self.state = State::Starting;
        }
        is_wanted
    }
    /// Notes that it answered.
    pub fn answered(&mut self) {
        if self.state == State::Starting {
            self.state = State::Running;
        }
    }
    /// Notes that it ended at `now_ns`.
    pub fn ended(&mut self, now_ns: u64, why: Why) {
        match why {
            Why::AskedToStop => self.state = State::Stopped,
            Why::AskedToRestart => self.start_again(now_ns),
            Why::Failed => self.failed(now_ns),
        }
    }
    /// Notes an order to start it. Returns `false` if it runs, or will be started by itself.
    pub fn asked_to_start(&mut self, now_ns: u64) -> bool {
        let is_at_rest = matches!(self.state, State::Stopped | State::Degraded);
        if is_at_rest {
            self.failures = VecDeque::new();
            self.start_again(now_ns);
        }
        is_at_rest
    }
    /// Notes an order to stop it while it does not run. Returns `false` if it is stopped already.
    pub fn asked_to_stop(&mut self) -> bool {
        let is_new = matches!(self.state, State::Waiting | State::Degraded);
        if is_new {
            self.state = State::Stopped;
        }
        is_new
    }

    fn start_again(&mut self, at_ns: u64) {
        (self.state, self.start_ns) = (State::Waiting, at_ns);
        self.restarts = self.restarts.saturating_add(1);
    }

    fn failed(&mut self, now_ns: u64) {
        let from_ns = now_ns.saturating_sub(self.rules.window_ns);
        while self.failures.front().is_some_and(|&at_ns| at_ns < from_ns) {
            self.failures.pop_front();
        }
        if self.failures.len() >= self.rules.restarts_max as usize {
            self.state = State::Degraded;
            return;
        }
        let pause_ns = self.pause_ns();
        self.failures.push_back(now_ns);
        self.start_again(now_ns.saturating_add(pause_ns));
    }

    /// Returns the pause after the failures so far.
    fn pause_ns(&self) -> u64 {
        let Some(doublings) = self.failures.len().checked_sub(1) else { return 0 };
        let factor = u32::try_from(doublings).ok().and_then(|by| 1u64.checked_shl(by));
        let pause_ns = factor.and_then(|factor| self.rules.pause_ns.checked_mul(factor));
        pause_ns.unwrap_or(u64::MAX).min(self.rules.pause_ns_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RULES: Rules = Rules { restarts_max: 4, window_ns: 1000, pause_ns: 10, pause_ns_max: 30 };

    fn running(rules: Rules) -> Life {
        let mut life = Life::new(rules);
        assert!(life.started());
        life.answered();
        life
    }

    #[test]
    fn pauses_double_up_to_the_longest_and_then_it_is_given_up() {
        let mut life = running(RULES);
        for pause_ns in [0, 10, 20, 30] {
            life.ended(100, Why::Failed);
            assert_eq!(life.start_at_ns(), Some(100 + pause_ns));
            assert!(life.started());
        }
        life.ended(100, Why::Failed);
        assert_eq!((life.state(), life.start_at_ns()), (State::Degraded, None));
        assert_eq!(life.restarts(), 4);
    }

    #[test]
    fn failures_before_the_window_are_forgotten() {
        let mut life = running(RULES);
        for round in 0..50 {
            life.ended(round * 1001, Why::Failed);
            assert_eq!(life.start_at_ns(), Some(round * 1001));
            assert!(life.started());
            life.answered();
        }
    }

    #[test]
    fn what_was_given_up_comes_back_on_request_with_a_clean_record() {
        let mut life = running(Rules { restarts_max: 0, ..RULES });
        life.ended(5, Why::Failed);
        assert_eq!(life.state(), State::Degraded);
        assert!(life.asked_to_start(7));
        assert_eq!(life.start_at_ns(), Some(7));
        assert!(!life.asked_to_start(8), "it is about to start");
    }

    #[test]
    fn an_end_by_request_is_no_failure() {
        let mut life = running(Rules { restarts_max: 1, ..RULES });
        for now_ns in 0..100 {
            life.ended(now_ns, Why::AskedToRestart);
            assert_eq!(life.start_at_ns(), Some(now_ns));
            assert!(life.started());
        }
        life.ended(100, Why::AskedToStop);
        assert_eq!((life.state(), life.start_at_ns()), (State::Stopped, None));
    }

    #[test]
    fn a_stop_while_it_waits_holds() {
        let mut life = running(RULES);
        life.ended(1, Why::Failed);
        life.ended(1, Why::Failed);
        assert!(life.asked_to_stop());
        assert_eq!(life.start_at_ns(), None);
        assert!(!life.started(), "the stop came while it was being started");
        assert_eq!(life.state(), State::Stopped);
        assert!(!life.asked_to_stop());
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Fail,
        Restart,
        Answer,
    }

    fn steps() -> impl Strategy<Value = Vec<(u64, Step)>> {
        let step = prop_oneof![Just(Step::Fail), Just(Step::Restart), Just(Step::Answer)];
        prop::collection::vec((0u64..400, step), 0..200)
    }

    proptest! {
        #[test]
        fn no_window_has_more_restarts_than_allowed_and_no_pause_is_too_long(
            steps in steps(),
            restarts_max in 0u32..6,
            window_ns in 1u64..3000,
            pause_ns in 0u64..u64::MAX,
            pause_ns_max in 0u64..500,
        ) {
            let rules = Rules { restarts_max, window_ns, pause_ns, pause_ns_max };
            let mut life = running(rules);
            let mut now_ns = 0;
            let mut failed_at: Vec<u64> = Vec::new();
            for (later_ns, step) in steps {
                now_ns += later_ns;
                match step {
                    Step::Answer => life.answered(),
                    Step::Restart => life.ended(now_ns, Why::AskedToRestart),
                    Step::Fail => {
                        life.ended(now_ns, Why::Failed);
                        if let Some(start_ns) = life.start_at_ns() {
                            prop_assert!(start_ns - now_ns <= pause_ns_max);
                            failed_at.push(now_ns);
                        }
                    }
                }
                if let Some(start_ns) = life.start_at_ns() {
                    now_ns = now_ns.max(start_ns);
                    assert!(life.started());
                } else if life.state() == State::Degraded {
                    break;
                }
                let recent = failed_at.iter().filter(|&&at| at + window_ns >= now_ns).count();
                prop_assert!(recent <= restarts_max as usize);
            }
        }
    }
}

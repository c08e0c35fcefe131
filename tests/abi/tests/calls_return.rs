//! A sample of the calls that must return (`./x campaign returns` makes all of them).
use abi::{
    isolated,
    returns::{Outcome, Watchdog, cases, confine},
};
use std::time::Duration;

/// One case in this many is tried; the number has no common factor with the period of any family.
const STRIDE: usize = 37;
const BOUND: Duration = Duration::from_secs(20);

#[test]
fn a_sample_of_calls_with_every_flag_returns() {
    isolated(|| {
        confine();
        let watchdog = Watchdog::new(BOUND);
        let mut failures = Vec::new();
        for case in cases(None).iter().step_by(STRIDE) {
            let outcome = watchdog.run(case);
            if !matches!(outcome, Outcome::Returned(_)) {
                failures.push(format!("{}: {outcome:?}", case.name));
            }
        }
        assert!(failures.is_empty(), "{failures:#?}");
    });
}

#[test]
fn the_watchdog_names_a_call_that_does_not_return() {
    isolated(|| {
        confine();
        let watchdog = Watchdog::new(Duration::from_millis(50));
        let [hangs, hangs_before, dies] = abi::returns::broken_cases();
        assert_eq!(watchdog.run(&hangs), Outcome::Hung);
        assert_eq!(watchdog.run(&hangs_before), Outcome::HungBefore);
        assert!(matches!(watchdog.run(&dies), Outcome::Died(_)));
    });
}

//! Runs the cases of [`abi::returns`]: `returns [FAMILY] [--bound MS] [--workers N]`. Prints one line for each case: its name,
//! ` = ` and its end. The status is 1 if a call did not return. Started as root, it becomes an unprivileged user.
use abi::returns::{Case, Outcome, Watchdog, cases, confine};
use std::{process::ExitCode, time::Duration};

struct Options {
    family: Option<String>,
    bound: Duration,
    workers: usize,
}

fn options() -> Options {
    let mut options = Options { family: None, bound: Duration::from_secs(2), workers: 2 };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut number = || arguments.next().and_then(|text| text.parse().ok()).expect("a number");
        match argument.as_str() {
            "--bound" => options.bound = Duration::from_millis(number()),
            "--workers" => options.workers = number() as usize,
            _ => options.family = Some(argument),
        }
    }
    options
}

fn told(case: &Case, outcome: Outcome) -> String {
    let end = match outcome {
        Outcome::Returned(value) if value >= 0 => "done".to_owned(),
        Outcome::Returned(value) => format!("error {}", -value),
        Outcome::Hung => "DID NOT RETURN".to_owned(),
        Outcome::HungBefore => "DID NOT GET TO THE CALL".to_owned(),
        Outcome::Died(status) => format!("DIED, wait status {status:#x}"),
    };
    format!("{} = {end}\n", case.name)
}

/// Runs every case whose number belongs to `worker`. Returns whether all calls returned.
fn work(options: &Options, all: &[Case], worker: usize) -> bool {
    let watchdog = Watchdog::new(options.bound);
    let mut is_good = true;
    for case in all.iter().skip(worker).step_by(options.workers) {
        let outcome = watchdog.run(case);
        is_good &= matches!(outcome, Outcome::Returned(_));
        let _ = abi::write(libc::STDOUT_FILENO, told(case, outcome).as_bytes());
    }
    is_good
}

fn main() -> ExitCode {
    let options = options();
    confine();
    let all = cases(options.family.as_deref());
    let workers: Vec<_> = (0..options.workers)
        .map(|worker| abi::fork(|| assert!(work(&options, &all, worker), "calls did not return")))
        .collect();
    let ended: Vec<_> = workers.into_iter().map(abi::wait).collect();
    let is_good = ended.iter().all(|ended| *ended == abi::Ended::Exited(0));
    println!(
        "{} cases: {}",
        all.len(),
        if is_good { "every call returned" } else { "calls did not return" }
    );
    ExitCode::from(u8::from(!is_good))
}

//! Runs the cases of [`abi::arguments`]: `arguments [FAMILY] [--bound MS] [--workers N] [--every N] [--first N]`. Prints one
//! line for each case: its name, ` = `, its answer and its changes. Started as root, it becomes an unprivileged user.
use abi::{
    arguments::{Described, Runner, described},
    returns::confine,
};
use std::time::Duration;

struct Options {
    family: Option<String>,
    bound: Duration,
    workers: usize,
    every: usize,
    first: usize,
}

fn options() -> Options {
    let mut options =
        Options { family: None, bound: Duration::from_secs(2), workers: 2, every: 1, first: 0 };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut number = || arguments.next().and_then(|text| text.parse().ok()).expect("a number");
        match argument.as_str() {
            "--bound" => options.bound = Duration::from_millis(number()),
            "--workers" => options.workers = number() as usize,
            "--first" => options.first = number() as usize,
            "--every" => options.every = number() as usize,
            _ => options.family = Some(argument),
        }
    }
    options
}

/// Runs every case whose number belongs to `worker`.
fn work(options: &Options, all: &[Described], worker: usize) {
    let runner = Runner::new(options.bound, &format!("worker{worker}"));
    let first = options.first + worker * options.every;
    let mine = all.iter().skip(first).step_by(options.workers * options.every);
    for case in mine {
        let line = format!("{} = {}\n", case.name, runner.run(case));
        let _ = abi::write(libc::STDOUT_FILENO, line.as_bytes());
    }
}

fn main() {
    let options = options();
    confine();
    let all = described(options.family.as_deref());
    let workers: Vec<_> =
        (0..options.workers).map(|worker| abi::fork(|| work(&options, &all, worker))).collect();
    workers.into_iter().for_each(|worker| assert_eq!(abi::wait(worker), abi::Ended::Exited(0)));
    println!("{} cases", all.iter().skip(options.first).step_by(options.every).count());
}

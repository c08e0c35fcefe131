//! `hostile_driver ROUNDS SEED FOLDER [BEHAVIOUR ...]`: makes the disks' driver of the system `hostile` behave in each way
//! that `tests/components/hostile-blk` knows, or in the named ways, while programs write files and read them back with
//! checksums and one computes. Prints for each behaviour whether the required reaction came ([`Case`]). Fails if it did not,
//! if a byte was lost, or if a program saw an error.
mod cases;
mod component;

use abi::checked::{Random, check_file};
use cases::{CASES, Case, Follows};
use component::Component;
use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

const DRIVER: Component = Component("hostile-blk");
const WORKERS: u64 = 3;
const FILE_BYTES_MAX: u64 = 128 << 10;
/// Time for which the test watches a driver that need not be ended.
const WATCHED: Duration = Duration::from_millis(400);
/// A program that computes must have at least one part in this many of a processor, whatever the driver does; the driver has
/// at most half of all processors' time.
const SHARE_PARTS: u128 = 10;
/// Time limit of everything that must follow.
const PATIENCE: Duration = Duration::from_secs(60);
/// Files that must be checked after each behaviour.
const CHECKS: u64 = 3;

static IS_OVER: AtomicBool = AtomicBool::new(false);
static CHECKED: AtomicU64 = AtomicU64::new(0);
/// The number of plays that have begun.
static PLAY: AtomicU64 = AtomicU64::new(0);
static WRONG: AtomicU64 = AtomicU64::new(0);
/// Processor time of the program that computes.
static COMPUTED_NS: AtomicU64 = AtomicU64::new(0);

fn work(path: &Path, seed: u64) {
    let mut random = Random::new(seed);
    while !IS_OVER.load(Relaxed) {
        match check_file(path, &mut random, FILE_BYTES_MAX) {
            Ok(()) => CHECKED.fetch_add(1, Relaxed),
            Err(error) => {
                println!("a program saw, in play {}: {error}", PLAY.load(Relaxed));
                WRONG.fetch_add(1, Relaxed)
            }
        };
    }
}

/// Computes without pause, and notes the processor time that it got.
fn compute() {
    let mut random = Random::new(7);
    while !IS_OVER.load(Relaxed) {
        (0..10_000).for_each(|_| {
            std::hint::black_box(random.next());
        });
        COMPUTED_NS.store(abi::checked::thread_cpu_ns(), Relaxed);
    }
}

/// Waits until `is_so` returns `true`.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) -> Result<(), String> {
    let start = Instant::now();
    while !is_so() {
        if start.elapsed() > PATIENCE {
            return Err(format!("{what}: not within {PATIENCE:?}"));
        }
        thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

/// Waits until files are written and read back, and a program computes.
fn wait_for_work() -> Result<(), String> {
    let (checked, computed) = (CHECKED.load(Relaxed), COMPUTED_NS.load(Relaxed));
    let is_done =
        || CHECKED.load(Relaxed) >= checked + CHECKS && COMPUTED_NS.load(Relaxed) > computed;
    wait_until("programs go on", is_done)
}

/// Makes the driver behave as `case` says and checks the reaction.
fn play(case: &Case) -> Result<String, String> {
    wait_until("the driver runs", || DRIVER.state().is_some_and(|now| now.is_running))?;
    if case.is_overdue {
        // After the pause the limit is as short as at first, even if requests were overdue before.
        thread::sleep(cases::CALM);
    }
    let before = DRIVER.state().ok_or("no driver")?;
    let wrong = WRONG.load(Relaxed);
    let (start, computed) = (Instant::now(), COMPUTED_NS.load(Relaxed));
    case.order()?;
    (case.check)()?;
    let restarted = || DRIVER.state().filter(|now| now.restarts > before.restarts);
    let outcome = match case.follows {
        Follows::Ended(cause) => {
            wait_until("the driver is ended", || restarted().is_some())?;
            let ended = DRIVER.last_end().unwrap_or_default();
            if !ended.contains(cause) {
                return Err(format!("ended by another cause: {ended}"));
            }
            format!("ended: {ended}")
        }
        Follows::Nothing => {
            thread::sleep(WATCHED);
            wait_for_work()?;
            if restarted().is_some() {
                return Err(format!("ended: {}", DRIVER.last_end().unwrap_or_default()));
            }
            DRIVER.kill()?;
            "not ended".to_owned()
        }
        Follows::Either => {
            thread::sleep(WATCHED);
            match restarted() {
                Some(_) => format!("ended: {}", DRIVER.last_end().unwrap_or_default()),
                None => {
                    DRIVER.kill()?;
                    "not ended".to_owned()
                }
            }
        }
    };
    let (elapsed, computed_ns) = (start.elapsed(), COMPUTED_NS.load(Relaxed) - computed);
    if elapsed >= WATCHED && u128::from(computed_ns) * SHARE_PARTS < elapsed.as_nanos() {
        return Err(format!("of {elapsed:?} a program that computes got {computed_ns} ns"));
    }
    wait_until("its successor runs", || restarted().is_some_and(|now| now.is_running))?;
    wait_for_work()?;
    if WRONG.load(Relaxed) > wrong {
        return Err("a program saw an error".to_owned());
    }
    Ok(outcome)
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [rounds, seed, folder, named @ ..] = words.as_slice() else {
        println!("hostile_driver ROUNDS SEED FOLDER [BEHAVIOUR ...]");
        return ExitCode::from(2);
    };
    let (rounds, seed): (u64, u64) =
        (rounds.parse().expect("a count"), seed.parse().expect("a seed"));
    let folder = PathBuf::from(folder);
    fs::create_dir_all(&folder).expect("a folder");
    let mut workers = vec![thread::spawn(compute)];
    for number in 0..WORKERS {
        let path = folder.join(format!("file-{number}"));
        workers.push(thread::spawn(move || work(&path, seed.wrapping_add(number))));
    }
    let mut failed = 0;
    for round in 1..=rounds {
        let is_meant =
            |case: &&Case| named.is_empty() || named.iter().any(|name| name == case.name);
        for case in CASES.iter().filter(is_meant) {
            PLAY.fetch_add(1, Relaxed);
            match play(case) {
                Ok(outcome) => println!("{round:>3} {:<16}{outcome}", case.name),
                Err(why) => {
                    println!("{round:>3} {:<16}WRONG: {why}", case.name);
                    failed += 1;
                    // The next behaviour begins with a correct driver.
                    let _ = DRIVER.kill();
                }
            }
        }
    }
    IS_OVER.store(true, Relaxed);
    let is_whole = workers.into_iter().map(|worker| worker.join().is_ok()).fold(true, |a, b| a & b);
    let (checked, wrong) = (CHECKED.load(Relaxed), WRONG.load(Relaxed));
    println!("checked {checked} files, wrong {wrong}; {failed} behaviours had another end");
    ExitCode::from(u8::from(failed > 0 || wrong > 0 || !is_whole))
}

//! Races with an exec: `rights COUNT SEED [CALL]`, run as root.
//!
//! In each race a process of an ordinary user executes a program whose file gives rights, or which its user may not
//! read. Two calls of the tables run against it and against each other, from threads of the process or from outside
//! (`calls`). The races go through all pairs of calls, or those with calls whose name contains CALL. The program reports
//! its rights (`program`). Meanwhile root changes owner and mode of some files (`files`).
//!
//! The invariant, which is also true on Linux: no process has more rights than the file and the caller give.
mod calls;
mod files;
mod program;

use abi::{fork, identity::become_user, must, pipe};
use calls::{Racer, Where};
use files::{Files, Kind, Target};
use program::Report;
use std::{
    ffi::CString,
    process::exit,
    sync::{
        Arc, Barrier,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread,
    time::{Duration, Instant},
};

/// The user that attacks; its group has the same number.
pub const USER: u32 = 1000;
/// Another user, who owns some files.
pub const OTHER: u32 = 2000;
/// Longest wait for a program that was executed.
const PATIENCE: Duration = Duration::from_secs(20);

/// Step from pair to pair.
const STEP: u64 = 7919;

/// The ways a race ends, as the exit status of its leader.
mod ending {
    pub const PLAIN: i32 = 0;
    pub const GAINED: i32 = 10;
    pub const NOT_EXECUTED: i32 = 11;
    pub const VIOLATED: i32 = 12;
}

/// Pseudo-random numbers (xorshift).
#[derive(Clone)]
pub struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit.max(1)
    }
}

/// Ends the race as a failure.
pub fn violated(why: &str) -> ! {
    println!("VIOLATED: {why}");
    exit(ending::VIOLATED)
}

fn main() {
    let mut words = std::env::args();
    match words.next().as_deref() {
        Some(program::NAME) => return program::run(),
        Some(program::OTHER_NAME) => return,
        _ => {}
    }
    let mut number =
        |default: u64| words.next().and_then(|word| word.parse().ok()).unwrap_or(default);
    let (count, seed) = (number(1000), number(1));
    let wanted = words.next().unwrap_or_default();
    // SAFETY: plain numbers.
    must(unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) });
    let files = Files::new();
    let changer = files.start_changes();
    let span_us = span_us(&files);
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let (mut gained, mut plain, mut none, mut wrong) = (0, 0, 0, 0);
    let racers = calls::RACERS;
    let firsts: Vec<&Racer> = racers.iter().filter(|racer| racer.name.contains(&wanted)).collect();
    let pairs = racers.len() * firsts.len();
    assert_ne!(pairs, 0, "no call is named like {wanted}");
    for race in 0..count {
        // A prime step goes through all pairs, and puts those of one call far from each other.
        let pair = (race * STEP + seed) as usize % pairs;
        let pair = [&racers[pair % racers.len()], firsts[pair / racers.len()]];
        let target = files.target(random.below(1 << 20) as usize);
        let leader = fork(|| lead(&files, target, pair, (span_us, random.clone())));
        match abi::wait(leader) {
            abi::Ended::Exited(ending::GAINED) => gained += 1,
            abi::Ended::Exited(ending::PLAIN) => plain += 1,
            abi::Ended::Exited(ending::NOT_EXECUTED) => none += 1,
            other => {
                wrong += 1;
                println!(
                    "{other:?}: {} against {} over {}",
                    pair[0].name, pair[1].name, target.name
                );
            }
        }
        reap(changer);
    }
    files::stop_changes(changer, &mut wrong);
    println!(
        "{count} races over {span_us} us of {pairs} pairs: {gained} programs with more rights, {plain} without, \
         {none} that did not start; \
         {wrong} violations",
    );
    exit(i32::from(wrong != 0 || gained == 0 || plain == 0));
}

/// Returns the microseconds from the start of an exec to the report, the least of several.
fn span_us(files: &Files) -> u64 {
    const TRIES: usize = 5;
    let name = abi::c(files.path(files.target(0)));
    let times = [(); TRIES].map(|()| {
        let (from, to) = pipe();
        let start = Instant::now();
        let child = fork(|| {
            // SAFETY: descriptors of this process.
            must(unsafe { libc::dup2(to, program::REPORT_FD) });
            program::become_program(&name);
        });
        abi::close(to);
        program::read_report(from, child, PATIENCE).expect("the program reports");
        let time = start.elapsed();
        abi::close(from);
        // It has ended, or ends; read_report may have collected it.
        // SAFETY: asks for no status.
        unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
        time.as_micros() as u64
    });
    times.into_iter().min().unwrap_or(0)
}

/// Collects processes whose parents have ended.
fn reap(changer: i32) {
    let mut status = 0;
    // SAFETY: `status` outlives the call.
    while let pid @ 1.. = unsafe { libc::waitpid(-1, &mut status, libc::WNOHANG) } {
        assert_ne!(pid, changer, "the process that changes files has ended");
    }
}

/// Runs one race in a process of its own.
fn lead(
    files: &Files,
    target: &Target,
    pair: [&'static Racer; 2],
    (span_us, mut random): (u64, Random),
) {
    become_user(USER);
    // SAFETY: plain numbers.
    must(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1) });
    calls::prepare();
    let (from, to) = pipe();
    let delays = [0; 3].map(|_| Duration::from_micros(random.below(span_us)));
    let name = abi::c(files.path(target));
    let inside: Vec<_> =
        pair.iter().zip(delays).filter(|(racer, _)| racer.place == Where::Inside).collect();
    let victim = fork(|| {
        abi::close(from);
        // SAFETY: plain numbers.
        must(unsafe { libc::setpgid(0, 0) });
        // SAFETY: descriptors of this process.
        must(unsafe { libc::dup2(to, program::REPORT_FD) });
        be_victim(&name, &inside, delays[2])
    });
    abi::close(to);
    let stop = Arc::new(AtomicBool::new(false));
    let mut threads = Vec::new();
    for (racer, delay) in
        pair.into_iter().zip(delays).filter(|(racer, _)| racer.place == Where::Outside)
    {
        let stop = stop.clone();
        let file = abi::c(files.changed());
        threads.push(thread::spawn(move || {
            spin(delay);
            while !stop.load(SeqCst) {
                (racer.call)(&calls::Subject { victim, file: &file });
                thread::yield_now();
            }
        }));
    }
    let outcome = match target.kind {
        Kind::Reports => judge(target, program::read_report(from, victim, PATIENCE)),
        Kind::Waits => {
            thread::sleep(Duration::from_micros(span_us));
            ending::PLAIN
        }
    };
    stop.store(true, SeqCst);
    threads.into_iter().for_each(|thread| thread.join().expect("an outside caller"));
    // SAFETY: plain numbers: the victim's group and, had it not made one yet, itself.
    unsafe { libc::kill(-victim, libc::SIGKILL) };
    // SAFETY: as above.
    unsafe { libc::kill(victim, libc::SIGKILL) };
    exit(outcome)
}

/// Spins without making a call.
fn spin(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// Executes the target, while threads of this process make their calls.
fn be_victim(name: &CString, inside: &[(&&'static Racer, Duration)], delay: Duration) {
    let ready = Arc::new(Barrier::new(inside.len() + 1));
    for (racer, delay) in inside {
        let (call, delay, ready) = (racer.call, *delay, ready.clone());
        thread::spawn(move || {
            // SAFETY: no conditions.
            let victim = unsafe { libc::getpid() };
            ready.wait();
            spin(delay);
            call(&calls::Subject { victim, file: c"" });
        });
    }
    ready.wait();
    spin(delay);
    program::become_program(name);
    // SAFETY: ends the process at once.
    unsafe { libc::_exit(0) }
}

/// Checks the rights in the report of `target`. Returns the ending of the race.
fn judge(target: &Target, report: Option<Report>) -> i32 {
    let Some(report) = report else { return ending::NOT_EXECUTED };
    let has_user = report.users == [USER; 3];
    let has_group = report.groups == [USER; 3];
    let has_gained = !has_user || !has_group || report.permitted != 0;
    let allowed = [USER].iter().chain(target.users).any(|user| *user == report.users[1]);
    let group = [USER].iter().chain(target.groups).any(|group| *group == report.groups[1]);
    let is_own = report.users[0] == USER && report.groups[0] == USER;
    let checks = [
        (allowed && group && is_own, "ids that the file does not give"),
        (report.permitted == 0 || report.users[1] == 0, "capabilities without root's id"),
        (!has_gained || report.filter == 0, "rights under the caller's filter"),
        (!has_gained || report.confined == 0, "rights without new privileges"),
        (!has_gained || report.secure == 1, "rights without AT_SECURE"),
        (!has_gained || report.dumpable == 0, "rights in memory that its user may look into"),
        (!has_gained || report.death_signal == 0, "rights and a parent-death signal"),
        (!has_gained || report.personality & 0x074_0000 == 0, "rights and the caller's layout"),
        (!has_gained || report.moved == 0, "rights while another moves its directories or files"),
        (
            !target.is_hidden || report.dumpable == 0,
            "an unreadable program that may be looked into",
        ),
    ];
    if let Some((_, why)) = checks.iter().find(|(is_so, _)| !is_so) {
        violated(&format!("{}: {why}: {report:?}", target.name));
    }
    if has_gained { ending::GAINED } else { ending::PLAIN }
}

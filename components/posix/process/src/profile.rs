//! `/proc/skerry/profile`: the sampling profiler (B9), for root only. Writing a number sets the samples per second, and
//! reading removes the collected samples. There is one line for each sample:
//!
//! ```text
//! # rate 1000, lost 0
//! PROCESSOR NANOSECONDS PID TID KERNEL PROGRAM COMMAND
//! 0 5120034711 12 12 ffffffff8028a220,ffffffff80289d10 401a20 sh
//! ```
//!
//! KERNEL and PROGRAM are addresses, the instruction first, then the calls that led there; `-` for none. Threads that do not
//! belong to a program have PID 0 and their own name.
//!
//! The nucleus knows threads only. Their processes are looked up when the file is read, and if they have changed since the
//! sample ([`note`]) from [`FORMER`], which is empty while the profiler is off. Neither lock is held while another is taken.
use crate::{task::Task, tree};
use alloc::{collections::VecDeque, format, string::String, vec::Vec};
use core::{
    fmt::Write,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};
use hashbrown::HashMap;
use rt::{
    lock_class,
    profile::{RATE_MAX, Sample},
    sync::Mutex,
    time,
};
use vfs::Errno;

lock_class! {
    static READING = "posix.profile.reading";
    static FORMERS = "posix.profile.former";
}

/// Number of samples per second.
static RATE: AtomicU64 = AtomicU64::new(0);
/// Held by a reader, so that there is one at a time.
static READER: Mutex<()> = Mutex::new(&READING, ());
/// Former owners of threads, in the order in which they ended.
static FORMER: Mutex<VecDeque<(u64, ThreadOwner)>> = Mutex::new(&FORMERS, VecDeque::new());
/// The greatest number of owners that are kept; the oldest are dropped.
const FORMER_MAX: usize = 1 << 14;
/// Upper bound of the length of a line.
const LINE_BYTES: usize = 2048;

/// The owner of a thread, now or until some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ThreadOwner {
    until_ns: u64,
    process: u32,
    task: u32,
    command: [u8; 16],
}

impl ThreadOwner {
    fn of(task: &Task, until_ns: u64) -> ThreadOwner {
        let (process, command) = (task.process.id(), task.command());
        ThreadOwner { until_ns, process, task: task.id(), command }
    }
}

/// Time for which a thread still counts as its task's after the task has ended.
pub const END_NS: u64 = 1_000_000_000;

/// Called when `task` ends or gets another name: samples until `longer_ns` from now belong to its old state.
#[inline]
pub fn note(task: &Task, longer_ns: u64) {
    if RATE.load(Relaxed) != 0 {
        remember(task, longer_ns);
    }
}

/// Names `task`, whose samples until now are of what it was called.
pub fn rename(task: &Task, name: &[u8]) {
    note(task, 0);
    task.set_command(name);
}

#[cold]
fn remember(task: &Task, longer_ns: u64) {
    let owner = ThreadOwner::of(task, time::now().0 + longer_ns);
    let mut former = FORMER.lock();
    if former.len() == FORMER_MAX {
        former.pop_front();
    }
    if former.try_reserve(1).is_ok() {
        former.push_back((task.thread().0, owner));
    }
}

/// Sets the samples per second to the number in `data`.
///
/// # Errors
/// `EINVAL` if it is not a number or too large, `Refused`.
pub fn set_rate(data: &[u8]) -> Result<(), Errno> {
    let text = core::str::from_utf8(data.trim_ascii()).map_err(|_| Errno::EINVAL)?;
    let rate = text.parse().ok().filter(|&rate| rate <= RATE_MAX).ok_or(Errno::EINVAL)?;
    rt::profile::set_rate(rate).map_err(|_| Errno::Refused)?;
    RATE.store(rate, Relaxed);
    Ok(())
}

/// Returns the present owners of threads.
fn owners() -> HashMap<u64, ThreadOwner> {
    let processes: Vec<_> = tree::read().processes().cloned().collect();
    let tasks = processes.iter().flat_map(|process| process.tasks());
    tasks.map(|task| (task.thread().0, ThreadOwner::of(&task, u64::MAX))).collect()
}

/// Removes and returns the collected samples, as far as there is memory for them.
pub fn contents() -> Vec<u8> {
    let _reader = READER.lock();
    let started_ns = time::now().0;
    let mut known: HashMap<u64, Vec<ThreadOwner>> = HashMap::new();
    // The order matters: a task that ends meanwhile is in both lists.
    let present = owners();
    let former: Vec<_> = FORMER.lock().iter().copied().collect();
    for (thread, owner) in former.into_iter().chain(present) {
        known.entry(thread).or_default().push(owner);
    }
    let mut text = format!("# rate {}, lost {}\n", RATE.load(Relaxed), rt::profile::lost());
    for processor in 0..rt::thread::processors().0 {
        while text.try_reserve(LINE_BYTES).is_ok()
            && let Some(sample) = rt::profile::take(processor, started_ns)
        {
            let owners = known.get(&sample.thread).map_or(&[][..], Vec::as_slice);
            line(&mut text, processor, &sample, owner(owners, sample.time_ns));
        }
    }
    // The remaining samples are later ones, unless memory was short.
    FORMER.lock().retain(|(_, owner)| owner.until_ns >= started_ns);
    text.into_bytes()
}

/// Returns the owner of a thread at `time_ns`; `owners` are in order.
fn owner(owners: &[ThreadOwner], time_ns: u64) -> Option<&ThreadOwner> {
    owners.iter().find(|owner| time_ns <= owner.until_ns)
}

fn line(text: &mut String, processor: usize, sample: &Sample, owner: Option<&ThreadOwner>) {
    let (process, task) = owner.map_or((0, 0), |owner| (owner.process, owner.task));
    let _ = write!(text, "{processor} {} {process} {task}", sample.time_ns);
    for calls in [&sample.kernel, &sample.program] {
        let mut separator = ' ';
        for address in calls {
            let _ = write!(text, "{separator}{address:x}");
            separator = ',';
        }
        if calls.is_empty() {
            text.push_str(" -");
        }
    }
    text.push(' ');
    let name = owner.map_or(&sample.name, |owner| &owner.command);
    let name = name.iter().take_while(|&&byte| byte != 0).map(|&byte| char::from(byte));
    text.extend(name.map(|letter| if letter.is_ascii_control() { '?' } else { letter }));
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(until_ns: u64, command: &[u8; 2]) -> ThreadOwner {
        let mut name = [0; 16];
        name[..2].copy_from_slice(command);
        ThreadOwner { until_ns, process: 12, task: 13, command: name }
    }

    #[test]
    fn a_sample_is_of_what_its_thread_was_then() {
        let owners = [known(10, b"sh"), known(20, b"ls"), known(u64::MAX, b"ps")];
        for (time_ns, expected) in [(3, b"sh"), (10, b"sh"), (11, b"ls"), (21, b"ps")] {
            let found = owner(&owners, time_ns).map(|owner| [owner.command[0], owner.command[1]]);
            assert_eq!(found, Some(*expected));
        }
        assert_eq!(owner(&owners[..2], 21), None);
    }

    #[test]
    fn a_line_tells_stacks_and_names() {
        let mut name = [0; 16];
        name[..4].copy_from_slice(b"a b\n");
        let mut sample = Sample { time_ns: 7, thread: 1, name, ..Sample::default() };
        let mut text = String::new();
        line(&mut text, 0, &sample, None);
        sample.kernel = [0xffff_8000, 0x9000].into();
        sample.program = [0x40].into();
        line(&mut text, 1, &sample, Some(&known(9, b"sh")));
        assert_eq!(text, "0 7 0 0 - - a b?\n1 7 12 13 ffff8000,9000 40 sh\n");
    }

    #[test]
    fn only_a_rate_that_can_be_is_taken() {
        for wrong in [&b"1001"[..], b"-1", b"", b"on", b"\xff"] {
            assert_eq!(set_rate(wrong), Err(Errno::EINVAL));
        }
        assert_eq!(set_rate(b"0\n"), Ok(()));
    }
}

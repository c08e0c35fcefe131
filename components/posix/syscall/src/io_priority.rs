//! ioprio_set and ioprio_get: the priority is kept for each thread and reported, without an effect;
//! disks are served in order of position.
use super::entry::Entry;
use alloc::{sync::Arc, vec::Vec};
use core::sync::atomic::Ordering;
use linux_raw_sys::general as raw;
use process::{Process, Task, call::Call, tree};
use vfs::{Capabilities, Errno};

/// The system calls that this file implements.
pub const CALLS: &[Entry] = &[
    Entry::partial(raw::__NR_ioprio_set, "ioprio_set", "an effect on disks", set),
    Entry::whole(raw::__NR_ioprio_get, "ioprio_get", get),
];

/// Class in the upper bits, level in the lower.
const CLASS_SHIFT: u32 = 13;
const LEVELS: u32 = 8;
const LEVEL_MASK: u32 = LEVELS - 1;
const CLASS_NONE: u32 = 0;
const CLASS_REAL_TIME: u32 = 1;
const CLASS_BEST_EFFORT: u32 = 2;
const CLASS_IDLE: u32 = 3;
/// Level of a thread that has not set one.
const LEVEL_DEFAULT: u32 = 4;

const WHO_PROCESS: u32 = 1;
const WHO_GROUP: u32 = 2;
const WHO_USER: u32 = 3;

fn targets(call: &Call<'_>) -> Result<Vec<Arc<Task>>, Errno> {
    let id = call.uint(1);
    let (own, visible) = (&call.task.process, call.task.visible());
    let found = match call.uint(0) {
        WHO_PROCESS if id == 0 => Vec::from([call.task.clone()]),
        WHO_PROCESS => visible.known_task(id).into_iter().collect(),
        WHO_GROUP => {
            let group = if id == 0 { own.group() } else { id };
            let tree = tree::read();
            tree.known_tasks(tree.group(group).filter(|process| visible.has(process)))
        }
        WHO_USER => {
            // As on Linux, 0 is the administrator here, and not the caller.
            let tree = tree::read();
            let is_wanted = |process: &Process| process.real_user() == id;
            tree.known_tasks(tree.processes().filter(|it| is_wanted(it) && visible.has(it)))
        }
        _ => return Err(Errno::EINVAL),
    };
    if found.is_empty() { Err(Errno::ESRCH) } else { Ok(found) }
}

fn set(call: &mut Call<'_>) -> Result<u64, Errno> {
    let priority = call.uint(2);
    let (class, level) = (priority >> CLASS_SHIFT, priority & LEVEL_MASK);
    match class {
        CLASS_NONE if level != 0 => return Err(Errno::EINVAL),
        CLASS_NONE | CLASS_BEST_EFFORT | CLASS_IDLE => {}
        CLASS_REAL_TIME if call.task.credentials().has(Capabilities::SYS_NICE) => {}
        CLASS_REAL_TIME => return Err(Errno::EPERM),
        _ => return Err(Errno::EINVAL),
    }
    let own = call.task.credentials();
    for task in targets(call)? {
        let user = task.credentials().user.real;
        let is_own = user == own.user.effective || user == own.user.real;
        if !is_own && !own.has(Capabilities::SYS_NICE) {
            return Err(Errno::EPERM);
        }
        call.task.visible().check_change(&task.process)?;
        if tree::is_alive(&task) {
            task.io_priority.store(priority, Ordering::Relaxed);
        }
    }
    Ok(0)
}

fn get(call: &mut Call<'_>) -> Result<u64, Errno> {
    let shown = |task: &Arc<Task>| match task.io_priority.load(Ordering::Relaxed) {
        priority if priority >> CLASS_SHIFT == CLASS_NONE => {
            let from_nice = (task.nice.load(Ordering::Relaxed) + 20) / 5;
            let level = u32::try_from(from_nice).unwrap_or(LEVEL_DEFAULT);
            let is_one = call.uint(0) == WHO_PROCESS;
            if is_one { priority } else { CLASS_BEST_EFFORT << CLASS_SHIFT | level }
        }
        priority => priority,
    };
    if call.uint(0) == WHO_PROCESS && call.uint(1) == 0 {
        return Ok(u64::from(shown(call.task)));
    }
    // The lower number is the better priority.
    Ok(u64::from(targets(call)?.iter().map(shown).min().unwrap_or(0)))
}

//! The calls rseq and membarrier, with which threads synchronise without locks.
use super::entry::Entry;
use core::{arch::x86_64::__cpuid, sync::atomic::Ordering};
use linux_raw_sys::general as raw;
use process::{Task, call::Call, rseq};
use rt::thread::Affinity;
use vfs::Errno;

/// The system calls that this file implements.
pub const CALLS: &[Entry] = &[
    Entry::whole(raw::__NR_rseq, "rseq", rseq_call),
    Entry::whole(raw::__NR_membarrier, "membarrier", membarrier),
];

fn rseq_call(call: &mut Call<'_>) -> Result<u64, Errno> {
    let area = (call.word(0), call.uint(1));
    rseq::change(call.task, call.memory, area, call.uint(2), call.uint(3))?;
    Ok(0)
}

const QUERY: i32 = 0;
const GLOBAL: i32 = 1;
const GLOBAL_EXPEDITED: i32 = 2;
const REGISTER_GLOBAL_EXPEDITED: i32 = 4;
const PRIVATE_EXPEDITED: i32 = 8;
const REGISTER_PRIVATE_EXPEDITED: i32 = 16;
const SYNC_CORE: i32 = 32;
const REGISTER_SYNC_CORE: i32 = 64;
const RSEQ: i32 = 128;
const REGISTER_RSEQ: i32 = 256;
const GET_REGISTRATIONS: i32 = 512;
const ALL: i32 = 2 * GET_REGISTRATIONS - 1;
/// `MEMBARRIER_CMD_FLAG_CPU`: the barrier is for one processor only.
const FLAG_CPU: u32 = 1;

/// The commands for which an address space is registered.
const PRIVATE: u32 = REGISTER_PRIVATE_EXPEDITED as u32;
/// Registration of the simple private barrier by its own command, not only by that of another one.
const IS_PLAIN: u32 = 1;

/// Returns the bit that registers a command; as on Linux the others are reported as private ones too.
fn registered_by(command: i32) -> u32 {
    match command {
        REGISTER_PRIVATE_EXPEDITED => PRIVATE | IS_PLAIN,
        REGISTER_GLOBAL_EXPEDITED => command as u32,
        _ => command as u32 | PRIVATE,
    }
}

/// Does membarrier(2). A switch of threads is a full barrier on its processor, and restarts the sequence of the thread
/// that is switched away. rt has no call that makes other processors execute a barrier, so the caller visits each of
/// them ([`visit_processors`]), where its CPUID makes the processor fetch its next instructions again.
fn membarrier(call: &mut Call<'_>) -> Result<u64, Errno> {
    let (command, flags) = (call.int(0), call.uint(1));
    if flags != 0 && (command != RSEQ || flags != FLAG_CPU) {
        return Err(Errno::EINVAL);
    }
    let registered = call.memory.barriers();
    let needed = match command {
        QUERY => return Ok(ALL as u64),
        GET_REGISTRATIONS => {
            return Ok(u64::from(registered.load(Ordering::Relaxed) & !IS_PLAIN));
        }
        REGISTER_GLOBAL_EXPEDITED
        | REGISTER_PRIVATE_EXPEDITED
        | REGISTER_SYNC_CORE
        | REGISTER_RSEQ => {
            registered.fetch_or(registered_by(command), Ordering::Relaxed);
            return Ok(0);
        }
        GLOBAL | GLOBAL_EXPEDITED => 0,
        PRIVATE_EXPEDITED => IS_PLAIN,
        SYNC_CORE => REGISTER_SYNC_CORE as u32,
        RSEQ => REGISTER_RSEQ as u32,
        _ => return Err(Errno::EINVAL),
    };
    if registered.load(Ordering::Relaxed) & needed != needed {
        return Err(Errno::EPERM);
    }
    match flags {
        FLAG_CPU => visit(call.task, call.int(2)),
        _ => visit_processors(call.task),
    }
    Ok(0)
}

/// Runs the calling thread on every processor once: each other thread that ran there was switched away.
pub(super) fn visit_processors(task: &Task) {
    visit_each(task, 0..rt::thread::processors().0);
}

/// Does the same as [`visit_processors`] on one processor; has no effect if there is no such processor.
fn visit(task: &Task, processor: i32) {
    match usize::try_from(processor) {
        Ok(processor) if processor < rt::thread::processors().0 => {
            visit_each(task, processor..processor + 1);
        }
        Ok(_) => {}
        // As on Linux, a negative number means all processors.
        Err(_) => visit_processors(task),
    }
}

fn visit_each(task: &Task, processors: core::ops::Range<usize>) {
    let thread = task.thread();
    for processor in processors.start..processors.end.min(64) {
        rt::thread::set_affinity(thread, Affinity(1 << processor));
        rt::thread::yield_now();
        core::hint::black_box(__cpuid(0));
    }
    rt::thread::set_affinity(thread, Affinity(task.affinity.load(Ordering::Relaxed)));
}

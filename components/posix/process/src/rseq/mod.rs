//! Restartable sequences (rseq(2)): the kernel keeps the number of the processor on which a thread runs up to date in
//! the memory of its program, and restarts a section of the program that must not be interrupted.
//!
//! ```text
//! area     0 cpu_id_start | 4 cpu_id | 8 section | 16 flags | 20 node_id | 24 mm_cid | 28 end
//! section  0 version 0 | 4 flags 0 | 8 start | 16 length | 24 abort      4 bytes before abort: the signature
//! ```
//!
//! The nucleus reports that the thread was moved or preempted ([`rt::user::report_moves`]) as a kick, before its
//! program continues. A thread that stays on its processor, or has not registered, costs nothing. Source: rseq(2),
//! Linux kernel/rseq.c.
pub(crate) mod registration;

pub use registration::Registration;

use crate::{
    signal::{info::Info, number::SIGSEGV, send},
    task::Task,
};
use alloc::sync::Arc;
use memory::AddressSpace;
use rt::user::{Context, USER_END};
use vfs::Errno;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Bytes of an area up to its last field (`AT_RSEQ_FEATURE_SIZE`).
pub const FEATURE_BYTES: u64 = 28;
/// Alignment of an area, in bytes (`AT_RSEQ_ALIGN`).
pub const ALIGNMENT: u64 = 32;
/// Bytes of the first version of the area, which is the smallest.
const FIRST_BYTES: u32 = 32;
/// `RSEQ_FLAG_UNREGISTER`
const UNREGISTER: u32 = 1;
/// Offset in the area of the section's address.
const SECTION_OFFSET: u64 = 8;
/// Offset in the area of the node's number. The number of the thread among the running ones follows it.
const NODE_OFFSET: u64 = 20;
/// `RSEQ_CPU_ID_UNINITIALIZED`
const NO_CPU: u32 = u32::MAX;

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Area {
    cpu: [u32; 2],
    section: u64,
    flags: u32,
    node: [u32; 2],
    end: u32,
}

const _: () = assert!(size_of::<Area>() == FIRST_BYTES as usize);

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Section {
    version: u32,
    flags: u32,
    start: u64,
    length: u64,
    abort: u64,
}

/// Does rseq(2) for the calling task.
///
/// # Errors
/// `EINVAL`, `EPERM` for another signature, `EBUSY` for a repeated registration, `EFAULT`.
pub fn change(
    task: &Arc<Task>,
    memory: &AddressSpace,
    (address, bytes): (u64, u32),
    flags: u32,
    signature: u32,
) -> Result<(), Errno> {
    let known = &task.rseq;
    match flags {
        UNREGISTER if known.is_there() => {
            known.check(address, bytes, signature)?;
            memory.write(address, &[0, NO_CPU])?;
            memory.write(address.saturating_add(NODE_OFFSET), &[0u32; 2])?;
            known.end();
            return Ok(());
        }
        0 => {}
        _ => return Err(Errno::EINVAL),
    }
    if known.is_there() {
        known.check(address, bytes, signature)?;
        return Err(Errno::EBUSY);
    }
    if bytes < FIRST_BYTES || !address.is_multiple_of(ALIGNMENT) {
        return Err(Errno::EINVAL);
    }
    let end = address.checked_add(u64::from(bytes)).filter(|end| *end <= USER_END);
    end.filter(|_| address != 0).ok_or(Errno::EFAULT)?;
    if memory.read::<Area>(address)?.section != 0 {
        // The word is left from a thread that used this memory before.
        memory.write(address + SECTION_OFFSET, &0u64)?;
    }
    known.set(address, bytes, signature);
    begin(task, memory);
    Ok(())
}

/// Starts the reports of moves of the calling task, and sets the area.
pub fn begin(task: &Arc<Task>, memory: &AddressSpace) {
    // This comes first: a move after the processor was read is reported.
    rt::user::report_moves(true);
    let address = task.rseq.address();
    // All fields are written, whatever the program has there.
    let unknown = Area { cpu: [NO_CPU; 2], section: 0, flags: 0, node: [NO_CPU; 2], end: 0 };
    let told = tell(memory, address, &unknown);
    if told.is_err() {
        send::force(task, Info::kernel(SIGSEGV));
    }
}

/// Called when the calling task may have been moved or preempted: aborts its section, and updates its area.
#[cold]
pub fn moved(task: &Arc<Task>, memory: &AddressSpace, context: &mut Context) {
    if settle(task, memory, context).is_err() {
        send::force(task, Info::kernel(SIGSEGV));
    }
}

/// Called before a signal handler is entered: aborts the section. The processor is updated at each move.
///
/// # Errors
/// The area cannot be read or written, or is malformed: the program is to get SIGSEGV.
pub fn interrupt(task: &Task, memory: &AddressSpace, context: &mut Context) -> Result<(), Errno> {
    let address = task.rseq.address().saturating_add(SECTION_OFFSET);
    match memory.read::<u64>(address)? {
        0 => Ok(()),
        _ => settle(task, memory, context),
    }
}

fn settle(task: &Task, memory: &AddressSpace, context: &mut Context) -> Result<(), Errno> {
    let address = task.rseq.address();
    let area: Area = memory.read(address)?;
    if area.section != 0 {
        let abort = abort_of(memory, &area, context.registers.rip, task.rseq.signature())?;
        memory.write(address.saturating_add(SECTION_OFFSET), &0u64)?;
        if let Some(abort) = abort {
            context.registers.rip = abort;
        }
    }
    tell(memory, address, &area)
}

/// Returns the address at which a program that is at `rip` continues instead; `None` if it is in no section.
fn abort_of(
    memory: &AddressSpace,
    area: &Area,
    rip: u64,
    signature: u32,
) -> Result<Option<u64>, Errno> {
    let is_program = |address: u64| address < USER_END;
    let section: Section = match is_program(area.section) {
        true => memory.read(area.section)?,
        false => return Err(Errno::EINVAL),
    };
    let Section { version, start, length, abort, .. } = section;
    let is_sound = version == 0
        && is_program(start)
        && start.checked_add(length).is_some_and(is_program)
        && is_program(abort)
        && abort.wrapping_sub(start) >= length;
    if !is_sound || memory.read::<u32>(abort.wrapping_sub(4))? != signature {
        return Err(Errno::EINVAL);
    }
    if rip.wrapping_sub(start) >= length {
        return Ok(None);
    }
    // Flags could once forbid the abort.
    if section.flags != 0 || area.flags != 0 { Err(Errno::EINVAL) } else { Ok(Some(abort)) }
}

/// Writes the processor of the calling thread, if it is not in the area already.
fn tell(memory: &AddressSpace, address: u64, seen: &Area) -> Result<(), Errno> {
    let cpu = rt::thread::processors().1 as u32;
    if seen.cpu != [cpu, cpu] {
        memory.write(address, &[cpu, cpu])?;
    }
    // No two threads run on one processor at once: its number also serves to tell the threads of a program apart.
    if seen.node != [0, cpu] {
        memory.write(address.saturating_add(NODE_OFFSET), &[0, cpu])?;
    }
    Ok(())
}

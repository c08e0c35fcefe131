//! The threads of a domain. Each is a loop around user mode.
use super::{
    Domain, End,
    calls::{self, Caller, PLAIN_CALL, PLAIN_REPLY},
};
use crate::{
    arch::{
        component, cpu,
        percpu::{self, RESCHEDULE_LATER, RESCHEDULE_NOW},
        run,
        user::{self, Left},
    },
    memory::{PAGE, frames, space::Protection},
    thread::{self, Policy, Step},
};
use ::calls::Status;
use alloc::{boxed::Box, string::String, sync::Arc};
use core::{
    mem::offset_of,
    sync::atomic::Ordering::{Relaxed, SeqCst},
};
use ipc::MESSAGE_WORDS;
use program::{Registers, Trap};

/// The greatest number of entries of a backtrace that is noted.
const CALLS: usize = 24;

/// The initial state of a thread.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Start {
    pub(super) rip: u64,
    pub(super) rsp: u64,
    pub(super) argument: u64,
    /// Address of its message area; 0 for none.
    pub(super) message_area: u64,
    pub(super) policy: Policy,
}

/// A frame of a domain, kept while an address in it is used.
#[derive(Debug)]
pub(super) struct Pinned {
    frame: u32,
    at: *mut u8,
}

impl Pinned {
    /// Pins the `bytes` bytes at `address`, which must be aligned to 4 and in one page that the domain may write.
    pub(super) fn new(domain: &Domain, address: u64, bytes: usize) -> Result<Pinned, Status> {
        let offset = address as usize % PAGE;
        if !address.is_multiple_of(4) || offset + bytes > PAGE {
            return Err(Status::Invalid);
        }
        let page = domain.space.query(address).ok_or(Status::Fault)?;
        let pinned =
            Pinned { frame: page.frame, at: frames::address(page.frame).wrapping_add(offset) };
        if !page.protection.contains(Protection::WRITE) { Err(Status::Fault) } else { Ok(pinned) }
    }
    /// Stores a word at the pinned address.
    pub(super) fn store(&self, value: u64) {
        // SAFETY: eight bytes of a frame that is kept, aligned to 4; the component's only, which may see halves.
        unsafe { self.at.cast::<u64>().write_unaligned(value) };
    }
    /// Returns the kernel's address of the pinned bytes.
    pub(super) fn address(&self) -> *mut u8 {
        self.at
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        frames::release(self.frame);
    }
}

// SAFETY: a counted reference to a frame, and an address in the direct map.
unsafe impl Send for Pinned {}

/// Starts a thread of `domain`. Returns its number.
pub(super) fn spawn(domain: &Arc<Domain>, start: Start) -> Result<u64, Status> {
    let area = match start.message_area {
        0 => None,
        at => Some(domain.pin_own(at, MESSAGE_WORDS * 8)?),
    };
    let most = domain.grants.threads as u32;
    let more = |alive: u32| (alive < most).then_some(alive + 1);
    domain.alive.fetch_update(SeqCst, SeqCst, more).map_err(|_| Status::NoMemory)?;
    let own = domain.clone();
    let body: thread::Body = Box::new(Box::new(move || serve(&own, start, area)));
    let know = |number| {
        let mut threads = domain.threads.lock();
        let place = threads.partition_point(|&other| other < number);
        threads.insert(place, number);
    };
    let share = domain.share.clone();
    thread::spawn_known(&domain.name, start.policy, share, body, know).map_err(|_| {
        domain.leave();
        Status::NoMemory
    })
}

/// State of a thread while it is out of user mode. `arch::component` demands that the registers are first.
#[repr(C)]
struct Running<'a> {
    registers: Registers,
    caller: Caller<'a>,
    domain: &'a Arc<Domain>,
}

/// Place of the thread's [`Entered`](::calls::entered::Entered) behind its registers.
pub(crate) const ENTERED: usize = offset_of!(Running<'static>, caller.entered);

fn serve(domain: &Arc<Domain>, start: Start, area: Option<Pinned>) {
    let me = thread::current();
    me.extended.do_without();
    let area_at = area.as_ref().map_or(core::ptr::null_mut(), Pinned::address);
    thread::set_message_area(area_at.cast());
    let registers =
        Registers { rip: start.rip, rsp: start.rsp, rdi: start.argument, ..Registers::default() };
    let mut running = Running { registers, caller: Caller::new(domain), domain };
    let context = (&raw mut running).cast();
    let kernel_stack = thread::serve_at(context);
    // SAFETY: `running` begins with the registers, stays here, and is touched by the two functions only; the stack's place
    // is the thread's.
    unsafe { component::run(context, ready, trapped, kernel_stack) };
    // An interrupt that ended user mode has left them off. The end waits for locks and for other processors.
    // SAFETY: nothing is held.
    unsafe { cpu::enable_interrupts() };
    thread::serve_at(core::ptr::null_mut());
    running.caller.leave();
    drop(running);
    thread::set_message_area(core::ptr::null_mut());
    drop(area);
    domain.threads.lock().retain(|&number| number != me.number());
    domain.leave();
}

/// Prepares the thread for user mode. Returns 0 if the thread is to end.
extern "sysv64" fn ready(context: *mut Registers) -> u64 {
    // SAFETY: it is `running` of the calling thread, and nobody else has a reference to it now.
    let running = unsafe { &mut *context.cast::<Running<'_>>() };
    while !running.domain.is_ending.load(Relaxed) && !running.caller.is_leaving {
        cpu::disable_interrupts();
        // A thread that works for a program may hold locks. It gives way when it enters the program ([`Caller::run`]), as a
        // thread of the kernel world does.
        let has_program = running.caller.entered.is_prepared();
        let least = if has_program { RESCHEDULE_NOW } else { RESCHEDULE_LATER };
        if is_ready() || user::make_ready(&running.domain.space, least).is_none() {
            return 1;
        }
        running.caller.kick();
    }
    0
}

/// Returns whether the calling thread may enter user mode at once: a component's thread runs in no other space than its
/// component's and its programs'. Interrupts are off.
fn is_ready() -> bool {
    !percpu::ready_space().is_null()
}

/// Does the call of `NUMBER`, which has [`::calls::PLAIN`]. Returns how user mode was left, for `trapped`, or
/// [`component::RESUME`]. Interrupts are off.
pub(crate) extern "sysv64" fn plain<const NUMBER: u32>(context: *mut Registers) -> u64 {
    let me = thread::current();
    if !me.may_pass(context) {
        return user::SYSCALL;
    }
    // SAFETY: as in `ready`; only components' threads may pass.
    let Running { registers, caller, .. } = unsafe { &mut *context.cast::<Running<'_>>() };
    match NUMBER {
        PLAIN_CALL => calls::plain::pass(Step::Call, caller, me, registers),
        PLAIN_REPLY => calls::plain::pass(Step::ReplyAndReceive, caller, me, registers),
        _ => calls::plain::signal(caller, registers),
    }
}

/// Handles the trap that left user mode. Interrupts are off.
extern "sysv64" fn trapped(context: *mut Registers, kind: u64, error_code: u64) {
    // SAFETY: as in `ready`.
    let running = unsafe { &mut *context.cast::<Running<'_>>() };
    if kind != user::SYSCALL {
        return left(running, kind, error_code);
    }
    let Running { registers, caller, .. } = running;
    calls::dispatch(caller, registers);
    cpu::disable_interrupts();
    if is_ready() && !caller.is_leaving {
        // SAFETY: nothing here is to be dropped.
        unsafe { component::resume(registers, percpu::this().kernel_rsp.load(Relaxed)) }
    }
}

/// Handles a trap that is not a system call.
#[inline(never)]
fn left(running: &mut Running<'_>, kind: u64, error_code: u64) {
    let Running { registers, caller, domain } = running;
    match kind {
        component::DONE | component::DONE_KEPT => {
            // SAFETY: user mode was entered with interrupts on, and nothing is held.
            unsafe { cpu::enable_interrupts() }
        }
        component::PARKED => calls::unparked(caller, registers),
        _ if kind & run::PROGRAM != 0 => {
            caller.program_left(registers, Left { kind: kind & !run::PROGRAM, error_code });
        }
        _ => match user::trapped(Left { kind, error_code }, registers.rip) {
            None => {}
            Some(Trap::Kicked) => caller.kick(),
            // This may be an access to an open port that the map does not show.
            Some(Trap::Exception { vector: 13, error_code: 0 }) if domain.carry_out(registers) => {}
            Some(trap) if let Some(to) = domain.fixup(trap, registers.rip) => registers.rip = to,
            Some(trap) => domain.end(at(domain, End::cause_of(trap), *registers)),
        },
    }
}

/// Makes the end of `domain` for `cause`, with the calls of its calling thread at `registers`.
pub(super) fn at(domain: &Domain, cause: String, registers: Registers) -> End {
    let calls = domain.space.calls(registers.rbp, CALLS).collect();
    End { cause, registers, calls }
}

/// The protection for reading and writing.
pub(super) const READ_WRITE: Protection = Protection::READ.union(Protection::WRITE);

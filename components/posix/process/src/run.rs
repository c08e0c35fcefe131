//! The main loop of a task: it runs user mode, handles a trap, and returns.
//!
//! The fast path of a system call is: `Context::run` returns, one table look-up, the handler, one load of the task's
//! attention, `Context::run` again: no lock, no allocation. A task that may not make every call takes another path,
//! which asks its guard first (`seccomp`).
use crate::{
    audit::{self, AuditedCalls},
    call::{self, Call, CallOutcome, CallTable},
    exec, exit, files, oom, rseq,
    seccomp::{self, filter::Confinement},
    signal::{
        deliver::{self, Interrupted, Next},
        info::{Info, SI_KERNEL},
        number::{SIGBUS, SIGFPE, SIGILL, SIGKILL, SIGSEGV, SIGTRAP},
        send,
        state::FaultState,
    },
    task::{Task, attention},
};
use alloc::{boxed::Box, sync::Arc};
use core::sync::atomic::Ordering;
use memory::{AddressSpace, FaultError};
use rt::{
    sync::Once,
    thread::Affinity,
    user::{Access, Context, Trap},
};
use vfs::{Errno, ErrorNumber, security::flows};

const PAGE_FAULT_VECTOR: u64 = 14;

/// The processors that run system calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SystemCalls {
    /// The processor on which their program runs.
    Anywhere,
    /// System calls run on the first processor, as with Mach's `unix_master` (M1), for comparison. Programs, their
    /// faults and the kernel's own threads run anywhere. A task that changes its affinity by a call ends that call on
    /// a processor of the new set.
    Master,
}

static SYSTEM_CALLS: Once<SystemCalls> = Once::new();

impl SystemCalls {
    /// Sets the processors for all tasks made later.
    pub fn choose(self) {
        SYSTEM_CALLS.get_or_init(|| self);
    }
}

/// The objects that a task's calls use, until its attention says that it has new ones.
struct HeldObjects {
    memory: Arc<AddressSpace>,
    files: Arc<files::table::DescriptorTable>,
    guard: Option<Confinement>,
    audit: Option<Box<AuditedCalls>>,
}

impl HeldObjects {
    fn of(task: &Task) -> HeldObjects {
        HeldObjects {
            memory: task.memory(),
            files: task.files(),
            guard: task.guard(),
            audit: AuditedCalls::of(task),
        }
    }
}

const MASTER: Affinity = Affinity(1);

/// Runs the task to its end, on the rt thread made for it.
pub fn run(task: &Arc<Task>, context: Context) {
    let has_others = rt::thread::processors().0 > 1;
    let table = task.process.upcalls.system_calls();
    match SYSTEM_CALLS.get_or_init(|| SystemCalls::Anywhere) {
        SystemCalls::Master if has_others => {
            run_with(task, context, move |call| answer_on_master(table, call));
        }
        _ => run_with(task, context, move |call| answer(table, call)),
    }
}

#[inline]
fn run_with(
    task: &Arc<Task>,
    mut context: Context,
    answer: impl Fn(&mut Call<'_>) -> Option<Interrupted> + Copy,
) {
    if task.rseq.is_there() {
        rseq::begin(task, &task.memory());
    }
    loop {
        let held = HeldObjects::of(task);
        if task.attention() & attention::REPLACED != 0 {
            task.lower_attention(attention::REPLACED);
            exec::replace::finish(task);
        }
        let next = match (&held.guard, &held.audit) {
            (None, None) => run_holding(task, &held, &mut context, answer),
            (None, Some(audit)) => {
                run_holding(task, &held, &mut context, |call| audit.answer(call, answer))
            }
            (Some(guard), None) => {
                run_holding(task, &held, &mut context, |call| guarded(guard, call, answer))
            }
            (Some(guard), Some(audit)) => run_holding(task, &held, &mut context, |call| {
                let outcome = guarded(guard, call, |call| audit.answer(call, answer));
                // A call that was refused has a record of its own.
                call.task.audit.forget();
                outcome
            }),
        };
        if next == Next::End {
            break;
        }
    }
    exit::task_ended(task);
    flows::act_for_nobody();
}

/// Does a call that the guard allows.
#[inline(always)]
fn guarded(
    guard: &Confinement,
    call: &mut Call<'_>,
    answer: impl Fn(&mut Call<'_>) -> Option<Interrupted>,
) -> Option<Interrupted> {
    match seccomp::check(guard, call.task, call.context) {
        Ok(()) => answer(call),
        Err(interrupted) => interrupted,
    }
}

/// Runs the task to its end, or until its calls are to use other objects. Each `answer` has a function of its own, so that the
/// path of a call keeps nothing for the others.
#[inline(never)]
fn run_holding(
    task: &Arc<Task>,
    held: &HeldObjects,
    context: &mut Context,
    answer: impl Fn(&mut Call<'_>) -> Option<Interrupted>,
) -> Next {
    let HeldObjects { memory, files, .. } = held;
    let user = memory.user();
    let mut call = Call { task, memory, files, context };
    loop {
        if task.attention() != 0
            && let Some(next) = attend(task, memory, call.context, None)
        {
            return next;
        }
        let trap = call.context.run(user);
        flows::act_as(|| task.process.label());
        match trap {
            Trap::Syscall => {
                if let Some(interrupted) = answer(&mut call)
                    && let Some(next) = attend(task, memory, call.context, Some(interrupted))
                {
                    return next;
                }
            }
            Trap::Kicked if task.rseq.is_there() => rseq::moved(task, memory, call.context),
            Trap::Kicked => {}
            Trap::PageFault { address, access, is_present } => {
                page_fault(task, memory, call.context, (address, access, is_present));
            }
            Trap::Exception { vector, error_code } => {
                exception(task, call.context, vector, error_code);
            }
        }
    }
}

/// Delivers signals, and repeats or fails an interrupted call. Returns the next step unless user mode goes on.
#[cold]
fn attend(
    task: &Arc<Task>,
    memory: &Arc<AddressSpace>,
    context: &mut Context,
    interrupted: Option<Interrupted>,
) -> Option<Next> {
    if task.attention() & attention::AUDIT != 0 {
        audit::backlog::wait_for_room(task);
    }
    // After an exec, signals are delivered in the new memory.
    if interrupted.is_none() && is_to_reload(task) {
        return Some(Next::Run);
    }
    if deliver::before_user(task, memory, context, interrupted) == Next::End {
        return Some(Next::End);
    }
    is_to_reload(task).then_some(Next::Run)
}

/// Returns whether the task's calls are to use other objects, and clears that mark.
fn is_to_reload(task: &Task) -> bool {
    let is_so = task.attention() & attention::RELOAD != 0;
    if is_so {
        task.lower_attention(attention::RELOAD);
    }
    is_so
}

/// Does a system call; returns it if it was interrupted.
#[inline(always)]
fn answer(table: &CallTable, call: &mut Call<'_>) -> Option<Interrupted> {
    let number = call.context.registers.rax;
    oom::fill_reserve(call.task);
    call.task.set_in_call(true);
    let value = match table.dispatch(call, number) {
        Ok(value) => value,
        Err(Errno::Failed(number)) => call::failure(number),
        Err(errno) => match not_done(table, call, errno) {
            Ok(value) => value,
            Err(interrupted) => return Some(interrupted),
        },
    };
    call.task.set_in_call(false);
    call.context.registers.rax = value;
    None
}

/// Converts the end of a call that was refused or interrupted into the caller's rax, or into the interruption. A refused call
/// has done nothing: it is made again, with the same arguments, once memory is free.
#[inline(never)]
fn not_done(table: &CallTable, call: &mut Call<'_>, errno: Errno) -> Result<u64, Interrupted> {
    let (task, number) = (call.task, call.context.registers.rax);
    let result = match errno {
        Errno::Refused => oom::retried(task, || table.dispatch(call, number)),
        errno => Err(errno),
    };
    match CallOutcome::from(result) {
        CallOutcome::Done(value) => Ok(value),
        CallOutcome::Failed(number) => Ok(call::failure(number)),
        CallOutcome::Refused => Ok(call::failure(ErrorNumber::ENOMEM)),
        CallOutcome::Interrupted(restart) => {
            task.set_in_call(false);
            Err(Interrupted { number, restart })
        }
    }
}

/// Does the same as above on the first processor.
fn answer_on_master(table: &CallTable, call: &mut Call<'_>) -> Option<Interrupted> {
    let task = call.task;
    rt::thread::set_affinity(task.thread(), MASTER);
    let interrupted = answer(table, call);
    rt::thread::set_affinity(task.thread(), Affinity(task.affinity.load(Ordering::Relaxed)));
    interrupted
}

fn page_fault(
    task: &Arc<Task>,
    memory: &AddressSpace,
    context: &Context,
    (address, access, is_present): (u64, Access, bool),
) {
    let bad = loop {
        match memory.fault_for(address, access, Some(&**task)) {
            Ok(kind) => return task.faults.add(kind),
            Err(FaultError::NoMemory) if memory.user().is_out_of_tables() => {
                oom::report_tables(&task.process, memory);
                break FaultError::NoMemory;
            }
            Err(FaultError::NoMemory) if oom::relieve_unlocked(task) => {
                // The victim may be this very process.
                if task.has_signal() {
                    return;
                }
            }
            Err(bad) => break bad,
        }
    };
    let error_code = u64::from(is_present)
        | match access {
            Access::Read => 0x4,
            Access::Write => 0x6,
            Access::Execute => 0x14,
        };
    let state = FaultState { vector: PAGE_FAULT_VECTOR, error_code, address };
    raise(task, context, state, signal_of(bad, address));
}

/// Returns the signal that a program gets for a fault which was not answered.
fn signal_of(error: FaultError, address: u64) -> Info {
    const SEGV_MAPERR: i32 = 1;
    const SEGV_ACCERR: i32 = 2;
    const BUS_ADRERR: i32 = 2;
    match error {
        FaultError::Unmapped => Info::fault(SIGSEGV, SEGV_MAPERR, address),
        FaultError::Denied => Info::fault(SIGSEGV, SEGV_ACCERR, address),
        FaultError::NoPage => Info::fault(SIGBUS, BUS_ADRERR, address),
        FaultError::NoMemory => Info::fault(SIGKILL, SI_KERNEL, address),
    }
}

/// Returns signal and code of a processor exception, as on Linux.
fn exception(task: &Arc<Task>, context: &Context, vector: u8, error_code: u64) {
    const FPE_INTDIV: i32 = 1;
    const TRAP_TRACE: i32 = 2;
    const ILL_ILLOPN: i32 = 2;
    const BUS_ADRALN: i32 = 1;
    let rip = context.registers.rip;
    let info = match vector {
        0 => Info::fault(SIGFPE, FPE_INTDIV, rip),
        1 => Info::fault(SIGTRAP, TRAP_TRACE, rip),
        3 => Info::kernel(SIGTRAP),
        6 => Info::fault(SIGILL, ILL_ILLOPN, rip),
        11 | 12 => Info::kernel(SIGBUS),
        16 | 19 => Info::fault(SIGFPE, float_code(vector), rip),
        17 => Info::fault(SIGBUS, BUS_ADRALN, 0),
        _ => Info::kernel(SIGSEGV),
    };
    let state = FaultState { vector: u64::from(vector), error_code, address: 0 };
    raise(task, context, state, info);
}

fn raise(task: &Arc<Task>, context: &Context, state: FaultState, info: Info) {
    log::debug!(
        "task {}: signal {} at rip {:#x}, vector {}, address {:#x}",
        task.id(),
        info.signal,
        context.registers.rip,
        state.vector,
        state.address
    );
    task.signals.lock().fault = state;
    send::force(task, info);
}

/// Returns the `si_code` of a floating-point exception: that of the first unmasked one, from the x87 status and
/// control words (vector 16) or MXCSR (vector 19).
fn float_code(vector: u8) -> i32 {
    let mut image = alloc::vec![0; rt::user::extended_bytes()];
    if !rt::user::save_extended(&mut image) {
        return 0;
    }
    let half = |at: usize| {
        image.get(at..at + 2).and_then(|bytes| bytes.try_into().ok()).map_or(0, u16::from_le_bytes)
    };
    let raised = match vector {
        16 => half(2) & !half(0),
        _ => half(24) & !(half(24) >> 7),
    };
    const CODES: [(u16, i32); 6] =
        [(0x01, 7), (0x04, 3), (0x08, 4), (0x02, 5), (0x10, 5), (0x20, 6)];
    CODES.iter().find(|(flag, _)| raised & flag != 0).map_or(0, |(_, code)| *code)
}

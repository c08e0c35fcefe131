//! Kernel calls of components: the effect of each, and the check that its caller may make it.
//!
//! Numbers, registers and meanings are those of `libs/calls`. Every argument is assumed to be hostile.
pub(super) mod plain;
mod wait;

use super::{
    Domain,
    derivations::revoke,
    run::{self, Pinned, Start},
};
use crate::{
    arch::cpu,
    capability::{Capability, Derivation, EndpointRight, Right},
    entropy,
    irq::Interrupt,
    spin::NoInterrupts,
    thread::{self, Endpoint, Fast, Sleep, Step, Wait},
    time,
};
use ::calls::{
    Call, FOREVER, MOVED, NO_HANDLE, PLAIN, READ_ONLY, Status, Verdict, entered::Entered,
    message_in, message_out, space::number::ENTER,
};
use alloc::{string::String, sync::Arc};
use core::sync::atomic::Ordering::Relaxed;
use ipc::{Header, Message};
pub(crate) use plain::{PLAIN_CALL, PLAIN_REPLY, PLAIN_SIGNAL};
use program::Registers;
use wait::{Word, known_word};

/// Greatest length of a text that a component passes.
const TEXT_MAX: usize = 512;
/// The greatest number of random bytes that a call returns.
const ENTROPY_MAX: usize = 256;

/// A capability that an earlier, granted call looked up. It is valid while the table's version is the same.
#[derive(Debug)]
struct Known<T = EndpointRight> {
    handle: u64,
    version: u32,
    to: T,
}

/// State of the calling thread.
#[derive(Debug)]
pub(super) struct Caller<'a> {
    pub(super) domain: &'a Domain,
    shared: &'a Arc<Domain>,
    /// The endpoints at which the thread last called, served and signalled.
    called: Option<Known>,
    served: Option<Known>,
    signalled: Option<Known>,
    /// The interrupt that the thread last waited for.
    interrupt: Option<Known<Arc<Interrupt>>>,
    word: Option<Word>,
    /// The thread is to end.
    pub(super) is_leaving: bool,
    pub(super) entered: Entered,
    /// The context of the program, which is kept.
    pub(super) pinned: Option<Pinned>,
}

pub(super) type Done = Result<(), Status>;

fn status(result: Result<(), ipc::Error>) -> Done {
    result.map_err(|error| Status::of(error as u64))
}

pub(super) fn until(deadline_ns: u64) -> Wait {
    let deadline_ns = (deadline_ns != FOREVER).then_some(deadline_ns);
    Wait { deadline_ns, sleep: Sleep::Interruptible }
}

/// Does the call that `registers` ask for and leaves the answer in them. Interrupts are off at entry and at return they are
/// on.
#[inline]
pub(super) fn dispatch(caller: &mut Caller<'_>, registers: &mut Registers) {
    let domain = caller.domain;
    domain.count_calls(1);
    let fast = match registers.rax {
        CALL => caller.fast(Step::Call, registers),
        REPLY => caller.fast(Step::ReplyAndReceive, registers),
        _ => Fast::NotDone,
    };
    // SAFETY: user mode was entered with interrupts on, and nothing is held.
    unsafe { cpu::enable_interrupts() };
    match fast {
        Fast::Done(result) => registers.rax = number(domain, registers, result),
        Fast::NotDone | Fast::Busy => dispatch_any(caller, registers),
    }
}

const CALL: u64 = Call::Call as u64;
const REPLY: u64 = Call::ReplyAndReceive as u64;
const SIGNAL: u64 = Call::Signal as u64;

fn dispatch_any(caller: &mut Caller<'_>, registers: &mut Registers) {
    plain::complete(registers);
    let domain = caller.domain;
    let Some(call) = Call::of(registers.rax) else {
        registers.rax = Status::Unknown as u64;
        return;
    };
    let done = match call {
        _ if !domain.grants.calls.contains(call) => Err(Status::Refused),
        Call::ReplyAndReceive => {
            caller.exchange(Step::ReplyAndReceive, registers, Endpoint::reply_and_receive)
        }
        Call::Call => caller.exchange(Step::Call, registers, Endpoint::call),
        Call::Run => match caller.run(registers) {
            // The answer is in rax.
            Ok(()) => return,
            refused => refused,
        },
        other => caller.rest(other, registers),
    };
    registers.rax = match done {
        Ok(()) => Status::Ok as u64,
        Err(status) => {
            if matches!(status, Status::Refused | Status::NoMemory) {
                domain.note_refused(call);
            }
            status as u64
        }
    };
}

/// Continues, by the general path, a thread that was parked in the call that its registers still name. Interrupts are off at
/// entry and on at return.
pub(super) fn unparked(caller: &mut Caller<'_>, registers: &mut Registers) {
    let known = if registers.rax & !PLAIN == CALL { &caller.called } else { &caller.served };
    let Some(known) = known else { return };
    let result = thread::finish_parked(&known.to.endpoint, registers);
    // As `syscall` leaves them, so that `sysret` may be used.
    (registers.rcx, registers.r11) = (registers.rip, registers.rflags);
    // SAFETY: as in `dispatch`.
    unsafe { cpu::enable_interrupts() };
    registers.rax = number(caller.domain, registers, result);
}

/// Converts a step's `result` to its status. A capability that came along gets a handle.
#[inline]
fn number(domain: &Domain, registers: &mut Registers, result: Result<(), ipc::Error>) -> u64 {
    match result {
        Ok(()) => {
            take_capability(domain, registers);
            Status::Ok as u64
        }
        Err(error) => error as u64,
    }
}

#[inline]
fn take_capability(domain: &Domain, registers: &mut Registers) {
    if Header(registers.rsi).has_capability()
        && let Some(got) = thread::take_along()
    {
        registers.r12 = domain.grant(got).unwrap_or(NO_HANDLE);
    }
}

impl<'a> Caller<'a> {
    pub(super) fn new(domain: &'a Arc<Domain>) -> Caller<'a> {
        Caller {
            domain,
            shared: domain,
            called: None,
            served: None,
            signalled: None,
            interrupt: None,
            word: None,
            is_leaving: false,
            entered: Entered::default(),
            pinned: None,
        }
    }

    /// Notes a kick: until it is consumed the thread does not use the fast path.
    pub(super) fn kick(&mut self) {
        keep_kick(&mut self.entered);
    }

    /// Consumes a kick. Returns whether there was one.
    pub(super) fn take_kick(&mut self) -> bool {
        thread::let_pass(true);
        core::mem::take(&mut self.entered.is_kicked)
    }

    /// Ends the thread's part at its endpoint: a call that it received and did not answer will not be answered.
    pub(super) fn leave(&mut self) {
        if let Some(served) = &self.served {
            served.to.endpoint.abandon(ipc::Error::Restarted);
        }
    }

    /// Tries `step` on the fast path.
    #[inline(always)]
    fn fast(&self, step: Step, registers: &mut Registers) -> Fast {
        match self.known(step) {
            Some(known) if self.is_good(Some(known), registers.rdi) && !self.entered.is_kicked => {
                known.to.endpoint.fast(step, registers, known.to.badge)
            }
            _ => Fast::NotDone,
        }
    }

    #[cold]
    fn look_up(&self, handle: u64) -> Result<Known, Status> {
        if !self.entered.is_kicked {
            thread::let_pass(true);
        }
        let version = self.domain.version.load(Relaxed);
        Ok(Known { handle, version, to: self.domain.endpoint(handle)? })
    }

    fn is_good<T>(&self, known: Option<&Known<T>>, handle: u64) -> bool {
        let version = self.domain.version.load(Relaxed);
        known.is_some_and(|known| known.handle == handle && known.version == version)
    }

    /// Returns the capability by which the thread last did `step`.
    #[inline(always)]
    fn known(&self, step: Step) -> Option<&Known> {
        match step {
            Step::Call => self.called.as_ref(),
            Step::ReplyAndReceive => self.served.as_ref(),
        }
    }

    /// Looks up the capability that `handle` names, unless it is known.
    #[inline]
    fn know(&mut self, side: Step, handle: u64) -> Done {
        if self.is_good(self.known(side), handle) {
            return Ok(());
        }
        match side {
            Step::Call => self.called = Some(self.look_up(handle)?),
            Step::ReplyAndReceive => self.serve_at(handle)?,
        }
        Ok(())
    }

    /// Makes the thread serve at the endpoint of `handle`. It serves one endpoint at a time, so a call received elsewhere,
    /// or by a right that is gone, stays unanswered.
    #[cold]
    fn serve_at(&mut self, handle: u64) -> Done {
        let may_serve = |known: Known| match known.to.right {
            Right::Serve => Ok(known),
            Right::Call => Err(Status::Refused),
        };
        let new = self.look_up(handle).and_then(may_serve);
        let ends = |before: &mut Known| match &new {
            Ok(new) => !Arc::ptr_eq(&before.to.endpoint, &new.to.endpoint),
            Err(_) => before.handle == handle,
        };
        if let Some(before) = self.served.take_if(ends) {
            let error = if new.is_ok() { ipc::Error::Cancelled } else { ipc::Error::Restarted };
            before.to.endpoint.abandon(error);
        }
        self.served = Some(new?);
        Ok(())
    }

    /// Does `step` with the message in `registers`, which then hold the message that came back.
    #[inline(always)]
    fn exchange(
        &mut self,
        side: Step,
        registers: &mut Registers,
        step: impl FnOnce(&Endpoint, &mut Message, Wait) -> Result<(), ipc::Error>,
    ) -> Done {
        let given = Given::lay(self.domain, registers.r12)?;
        let handle = registers.rdi;
        let result = loop {
            if let Err(status) = self.know(side, handle) {
                break Err(status);
            }
            // A thread that takes a capability back sends an interrupt to this processor before it looks for waiting
            // threads.
            let _off = NoInterrupts::new();
            if let Some(known) = self.known(side).filter(|known| self.is_good(Some(known), handle))
            {
                let mut message = message_in(registers, known.to.badge);
                message.header = message.header.as_sent(given.is_some());
                let result = step(&known.to.endpoint, &mut message, until(registers.rbx));
                message_out(registers, &message);
                break status(result);
            }
        };
        thread::reschedule_if_wanted();
        if result.is_ok() {
            take_capability(self.domain, registers);
        }
        if let Some(given) = given {
            given.settle(self.domain);
        }
        result
    }

    /// Does a call that needs the state of the calling thread; the domain does the others.
    fn rest(&mut self, call: Call, registers: &mut Registers) -> Done {
        let (first, second, domain) = (registers.rdi, registers.rsi, self.domain);
        if (call, second) == (Call::Space, ENTER) {
            self.entered.forget();
        }
        match call {
            Call::Receive => self.exchange(Step::ReplyAndReceive, registers, Endpoint::receive)?,
            Call::Reply => {
                self.exchange(Step::ReplyAndReceive, registers, |at, message, _| {
                    at.reply(message)
                })?;
            }
            Call::Send => self.exchange(Step::Call, registers, Endpoint::send)?,
            Call::Signal => self.signal(first, second)?,
            Call::Close => {
                self.interrupt.take_if(|known| known.handle == first);
                domain.close(first)?;
            }
            Call::Wait => self.wait(registers)?,
            Call::InterruptWait => self.wait_for_interrupt(first, second)?,
            Call::Wake => {
                let word = known_word(&mut self.word, domain, first)?;
                registers.rdi = u64::from(thread::wake(word, second as u32));
            }
            Call::Spawn => {
                let start = Start {
                    rip: first,
                    rsp: second,
                    argument: registers.rdx,
                    message_area: registers.r8,
                    policy: domain.grants.policy(registers.r9)?,
                };
                registers.rdi = run::spawn(self.shared, start)?;
            }
            Call::Exit => self.is_leaving = true,
            Call::TakeKick => registers.rdi = u64::from(self.take_kick() | thread::take_kick()),
            Call::EndpointBadge => {
                let Known { to, .. } = self.look_up(first)?;
                if to.right != Right::Serve {
                    return Err(Status::Refused);
                }
                registers.rdi = domain.grant(Capability::Endpoint(to.badged(second)))?;
            }
            _ => self.shared.service(call, registers)?,
        }
        Ok(())
    }

    fn signal(&mut self, handle: u64, bits: u64) -> Done {
        let known = self.look_up(handle)?;
        known.to.endpoint.signal(bits);
        self.signalled = Some(known);
        Ok(())
    }
}

/// Notes a kick, see [`Caller::kick`].
fn keep_kick(entered: &mut Entered) {
    entered.keep_kick();
    thread::let_pass(false);
}

/// The capability that is sent with a message.
struct Given {
    handle: u64,
    is_moved: bool,
}

impl Given {
    /// Attaches the capability of `word` to the message.
    #[inline]
    fn lay(domain: &Domain, word: u64) -> Result<Option<Given>, Status> {
        if word == NO_HANDLE { Ok(None) } else { Given::lay_capability(domain, word).map(Some) }
    }

    #[cold]
    fn lay_capability(domain: &Domain, word: u64) -> Result<Given, Status> {
        let (handle, is_moved) = (word & !(MOVED | READ_ONLY), word & MOVED != 0);
        let mut capability = domain.held(handle)?;
        if matches!(capability, Capability::Space(_)) {
            return Err(Status::Refused);
        }
        if is_moved {
            drop(domain.lift(handle)?);
        }
        if let Capability::Region(region) = &mut capability {
            region.can_write &= word & READ_ONLY == 0;
        }
        thread::lay_along(Some(capability));
        Ok(Given { handle, is_moved })
    }

    /// Settles a step, after the received capability was taken: a capability that did not go stays with the sender.
    fn settle(self, domain: &Domain) {
        match thread::take_along().filter(|_| self.is_moved) {
            Some(capability) => domain.put(self.handle, capability),
            None if self.is_moved => domain.release(self.handle),
            None => {}
        }
    }
}

impl Domain {
    /// Does a call on the domain, or on one of its threads by its number.
    fn service(self: &Arc<Domain>, call: Call, registers: &mut Registers) -> Done {
        let (first, second, third) = (registers.rdi, registers.rsi, registers.rdx);
        match call {
            Call::MapRegion => self.map_held(first, registers)?,
            Call::Current => registers.rdi = thread::current_number(),
            Call::Yield => thread::yield_now(),
            Call::Kick => thread::kick(self.own(first)?),
            Call::SetPolicy => thread::set_policy(self.own(first)?, self.grants.policy(second)?),
            Call::SetAffinity => {
                registers.rdi = u64::from(thread::set_affinity(self.own(first)?, second));
            }
            Call::CpuTime => {
                let used = thread::cpu_time(self.own(first)?).ok_or(Status::NotFound)?;
                [registers.rdi, registers.rsi, registers.rdx] = used.words();
            }
            Call::Map | Call::Unmap | Call::RegionNew | Call::DmaAllocate => {
                self.memory(call, registers)?;
            }
            Call::Entropy => {
                let mut bytes = [0; ENTROPY_MAX];
                let bytes = bytes.get_mut(..second as usize).ok_or(Status::Invalid)?;
                entropy::fill(bytes);
                self.space.write(first, bytes)?;
            }
            Call::Log => {
                let level = log::Level::iter().nth((first as usize).wrapping_sub(1));
                self.log(level.unwrap_or(log::Level::Trace), &self.text(second, third)?)?;
            }
            Call::CommandLine => {
                let line = self.grants.command_line.as_bytes();
                let length = line.len().min(second as usize);
                self.space.write(first, &line[..length])?;
                registers.rdi = length as u64;
            }
            Call::Panic => self.end(run::at(self, self.text(first, second)?, *registers)),
            Call::SpaceNew => registers.rdi = self.new_space()?,
            Call::Space => self.space_operation(registers)?,
            Call::Lend => self.lend(first, second, third, registers.r10)?,
            Call::Fixups => self.set_fixups(first, second)?,
            Call::ReportMoves => thread::report_moves(first != 0),
            Call::EndpointNew => {
                registers.rdi =
                    self.grant(Capability::Endpoint(EndpointRight::to(Arc::default())))?;
            }
            Call::Give => registers.rdi = self.give(&self.held(first)?, second, third)?,
            Call::WindowOpen => registers.rdi = self.open_window(first, second, third)?,
            Call::Copy | Call::CopyList => self.copy(call, registers)?,
            Call::Revoke => self.revoke(first)?,
            _ => self.device(call, registers)?,
        }
        Ok(())
    }

    /// The capability of `handle`.
    pub(super) fn held(&self, handle: u64) -> Result<Capability, Status> {
        let held = self.held.lock();
        let capability = held.get(handle).ok_or(Status::Refused)?;
        if capability.is_over() { Err(Status::Gone) } else { Ok(capability.clone()) }
    }

    /// Returns the right to an endpoint that `handle` names.
    pub(super) fn endpoint(&self, handle: u64) -> Result<EndpointRight, Status> {
        let Capability::Endpoint(to) = self.held(handle)? else { return Err(Status::Refused) };
        Ok(to)
    }

    /// Returns the interrupt that `handle` names.
    pub(super) fn interrupt(&self, handle: u64) -> Result<Arc<Interrupt>, Status> {
        let Capability::Interrupt(to) = self.held(handle)? else { return Err(Status::Refused) };
        Ok(to)
    }

    /// Makes `handle`, which is reserved, name `capability`.
    pub(super) fn put(&self, handle: u64, capability: Capability) {
        let mut held = self.held.lock();
        // A thread that takes the capability back searches this table after it has ended the derivation.
        let is_over = capability.is_over();
        held.fill(handle, if is_over { Capability::Gone } else { capability });
    }

    /// Removes the capability that `handle` names, and unmaps its region. The handle stays reserved.
    fn lift(&self, handle: u64) -> Result<Capability, Status> {
        let lifted = self.held.lock().lift(handle).ok_or(Status::Refused)?;
        self.forget(handle);
        Ok(lifted)
    }

    /// Frees `handle`. Capabilities that were given by it stay given.
    fn release(&self, handle: u64) {
        self.held.lock().free(handle);
        self.taken.lock().given.retain(|&(of, _)| of != handle);
    }

    pub(super) fn close(&self, handle: u64) -> Done {
        drop(self.lift(handle)?);
        self.release(handle);
        Ok(())
    }

    fn revoke(&self, handle: u64) -> Done {
        let is_it = |&mut (of, _): &mut (u64, Arc<Derivation>)| of == handle;
        let given = self.taken.lock().given.extract_if(.., is_it).next();
        let (_, derivation) = given.ok_or(Status::Refused)?;
        revoke([derivation]);
        Ok(())
    }

    /// Checks that a thread is of this domain. Returns its number.
    fn own(&self, number: u64) -> Result<u64, Status> {
        let is_ours = self.threads.lock().binary_search(&number).is_ok();
        if is_ours { Ok(number) } else { Err(Status::Refused) }
    }

    fn text(&self, address: u64, bytes: u64) -> Result<String, Status> {
        let mut text = [0; TEXT_MAX];
        let text = &mut text[..(bytes as usize).min(TEXT_MAX)];
        self.space.read(address, text)?;
        // Control characters become spaces, so that text cannot pass for a line of another component.
        Ok(String::from_utf8_lossy(text).replace(char::is_control, " "))
    }

    /// Logs a line, unless the grant of lines is used up.
    fn log(&self, level: log::Level, text: &str) -> Done {
        if level > log::max_level() {
            return Ok(());
        }
        let verdict = self.lines.lock().judge(time::now_ns());
        if let Verdict::Report(count) = verdict {
            log::warn!("{}: log lines are refused, {count} more: see log_lines", self.name);
        }
        if verdict != Verdict::Write {
            return Err(Status::Refused);
        }
        log::log!(level, "{}: {text}", self.name);
        Ok(())
    }
}

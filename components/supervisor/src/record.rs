//! The records of a component's ends ([`EndRecord`]), which are kept, and shown as texts.
use crate::symbols::Symbols;
use alloc::{format, string::String, vec::Vec};
use interfaces::supervisor::Ending;
use rt::{
    domain::End,
    time::{self, Instant},
    trace::{self, TraceRecord},
};

/// Number of trace records kept of each end.
const TRACE_RECORDS: usize = 16;

/// The record of an end.
#[derive(Debug)]
pub(crate) struct EndRecord {
    pub(crate) at: Instant,
    pub(crate) cause: String,
    registers: Vec<(&'static str, u64)>,
    pub(crate) backtrace: Vec<String>,
    trace: Vec<TraceRecord>,
}

impl EndRecord {
    /// Makes the record of a start that failed because of `cause`.
    pub(crate) fn of_start(cause: &str) -> EndRecord {
        EndRecord {
            at: time::now(),
            cause: format!("cannot start: {cause}"),
            registers: Vec::new(),
            backtrace: Vec::new(),
            trace: trace::last(TRACE_RECORDS),
        }
    }

    /// Makes the record of `end`, with the names that the executable `file` has for addresses.
    pub(crate) fn of(end: &End, file: &[u8]) -> EndRecord {
        let r = &end.registers;
        let is_own = r.rip != 0;
        let symbols = Symbols::read(if is_own { file } else { &[] });
        let here = is_own.then_some(r.rip);
        // A return address is that of the instruction after the call.
        let calls = end.calls.iter().map(|address| address.saturating_sub(1));
        let registers = [
            ("rip", r.rip),
            ("rsp", r.rsp),
            ("rbp", r.rbp),
            ("rflags", r.rflags),
            ("rax", r.rax),
            ("rbx", r.rbx),
            ("rcx", r.rcx),
            ("rdx", r.rdx),
            ("rsi", r.rsi),
            ("rdi", r.rdi),
            ("r8", r.r8),
            ("r9", r.r9),
            ("r10", r.r10),
            ("r11", r.r11),
            ("r12", r.r12),
            ("r13", r.r13),
            ("r14", r.r14),
            ("r15", r.r15),
        ];
        EndRecord {
            at: time::now(),
            cause: end.cause.clone(),
            registers: if is_own { registers.to_vec() } else { Vec::new() },
            backtrace: here.into_iter().chain(calls).map(|at| symbols.describe(at)).collect(),
            trace: trace::last(TRACE_RECORDS),
        }
    }

    /// Returns the record in the form in which it is shown.
    pub(crate) fn shown(&self) -> Ending {
        let registers = self.registers.iter().map(|(name, value)| format!("{name}={value:#x}"));
        Ending {
            at: self.at,
            cause: self.cause.clone(),
            registers: registers.collect(),
            backtrace: self.backtrace.clone(),
            trace: self.trace.iter().map(|record| format!("{record}")).collect(),
        }
    }
}

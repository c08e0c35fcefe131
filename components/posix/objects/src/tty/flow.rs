//! Flow control of output: the ways in which output is stopped, and the events that continue it.
use super::{input::Flow, line::Notice, terminal::Terminal};
use bitflags::bitflags;
use core::sync::atomic::Ordering;

bitflags! {
    /// The reasons for which output is stopped.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) struct OutputFlow: u32 {
        /// The stop character was typed.
        const BY_CHARACTER = 1;
        /// `tcflow(TCOOFF)` was called; no character continues output then.
        const BY_CALL = 2;
        /// The trusted path, or a session in front of this one, has the line.
        const HELD = 4;
    }
}

impl Terminal {
    /// Returns whether output is stopped.
    pub fn is_stopped(&self) -> bool {
        self.flow.load(Ordering::Acquire) != 0
    }
    /// Returns whether another terminal has the line.
    pub(super) fn is_held(&self) -> bool {
        self.flow.load(Ordering::Acquire) & OutputFlow::HELD.bits() != 0
    }
    /// Keeps its programs from the line: once this returns the terminal sends nothing, until [`Terminal::release`].
    pub(super) fn hold(&self) {
        let _sender = self.output.lock();
        self.flow.fetch_or(OutputFlow::HELD.bits(), Ordering::AcqRel);
    }
    /// Gives its programs the line again.
    pub(super) fn release(&self) {
        self.flow.fetch_and(!OutputFlow::HELD.bits(), Ordering::AcqRel);
        self.readable.wake();
        self.started.wake();
        self.process_pending();
    }
    /// Stops or continues output for a character (or a change of settings).
    pub(super) fn set_flow(&self, flow: Flow) {
        self.change_flow(OutputFlow::BY_CHARACTER, flow);
    }
    /// Stops or continues output for `tcflow`: `TCOON` continues output that `TCOOFF` stopped.
    pub(super) fn set_flow_by_call(&self, flow: Flow) {
        let is_by_call = self.flow.load(Ordering::Acquire) & OutputFlow::BY_CALL.bits() != 0;
        match flow {
            Flow::Stop => self.change_flow(OutputFlow::BY_CALL, flow),
            // If a character stopped output before `TCOOFF`, `TCOON` continues it, too.
            Flow::Start if is_by_call => {
                self.change_flow(OutputFlow::BY_CHARACTER | OutputFlow::BY_CALL, flow);
            }
            Flow::Start => {}
        }
    }
    /// Sets or clears the reason `cause`. Echo held back meanwhile is shown by the caller, which
    /// knows the locks that are held.
    fn change_flow(&self, cause: OutputFlow, flow: Flow) {
        let bits = cause.bits();
        let before = match flow {
            Flow::Stop => self.flow.fetch_or(bits, Ordering::AcqRel),
            Flow::Start => self.flow.fetch_and(!bits, Ordering::AcqRel),
        };
        match (before != 0, self.is_stopped()) {
            (false, true) => self.line.notice(Notice::Stopped),
            (true, false) => {
                self.line.notice(Notice::Started);
                self.started.wake();
            }
            _ => {}
        }
    }
}

//! Flow control of output: the two ways it is held back, and what lets it go on.
use super::{input::Flow, line::Notice, terminal::Terminal};
use bitflags::bitflags;
use core::sync::atomic::Ordering;

bitflags! {
    /// Why output is held back.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) struct OutputFlow: u32 {
        /// The stop character was typed.
        const BY_CHARACTER = 1;
        /// `tcflow(TCOOFF)`; no character lets it go on.
        const BY_CALL = 2;
    }
}

impl Terminal {
    /// Output is held back.
    pub fn is_stopped(&self) -> bool {
        self.flow.load(Ordering::Acquire) != 0
    }
    /// A character (or a change of settings) holds output back or lets it go on.
    pub(super) fn set_flow(&self, flow: Flow) {
        self.change_flow(OutputFlow::BY_CHARACTER, flow);
    }
    /// `tcflow` holds output back or lets it go on: what `TCOOFF` stopped, `TCOON` starts.
    pub(super) fn set_flow_by_call(&self, flow: Flow) {
        let is_by_call = self.flow.load(Ordering::Acquire) & OutputFlow::BY_CALL.bits() != 0;
        match flow {
            Flow::Stop => self.change_flow(OutputFlow::BY_CALL, flow),
            // Output stopped by a character before `TCOOFF` goes on with `TCOON`, too.
            Flow::Start if is_by_call => self.change_flow(OutputFlow::all(), flow),
            Flow::Start => {}
        }
    }
    /// Echo held back meanwhile is shown by the caller, who knows which locks are held.
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

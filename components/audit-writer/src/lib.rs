//! The audit writer ([`AuditLog`]): a log of audit records on a medium of their own. The crate `audit_log` has the form of the medium.
//!
//! [`machine`] is the writer without its memory: events in, steps out. It keeps nothing that the medium and its client do not have, so a
//! successor opens the log and goes on.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing))]
extern crate alloc;

mod machine;
mod open;
#[cfg(test)]
mod tests;

use alloc::{sync::Arc, vec::Vec};
use interfaces::{
    AttachError,
    audit_log::{AuditLog, LogEvent, LogFault, LogMemory, LogStep},
    offer::Offer,
};
use machine::LogMachine;
use rt::{lock_class, memory::Region, sync::Mutex};

lock_class! {
    static MACHINE = "audit.machine";
}

/// A writer; it has no memory at first.
struct AuditWriter(Mutex<Option<LogMachine>>);

impl AuditLog for AuditWriter {
    fn attach(&self, memory: Region, blocks: u64, id: u64) -> Result<(), AttachError> {
        let memory = LogMemory::of(memory).ok_or(AttachError::TooSmall)?;
        *self.0.lock() = Some(LogMachine::new(memory, blocks, id));
        Ok(())
    }
    fn advance(&self, event: LogEvent) -> Result<LogStep, LogFault> {
        let mut machine = self.0.lock();
        Ok(machine.as_mut().ok_or(LogFault::Detached)?.advance(event))
    }
}

/// Starts the component: the writer is instance 0.
pub fn start() -> Vec<Offer> {
    Vec::from([Offer::AuditLog(Arc::new(AuditWriter(Mutex::new(&MACHINE, None))))])
}

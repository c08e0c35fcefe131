//! The thread that gives the audit writer records.
use super::{LogUse, MachineLog, client::LogTrouble};
use alloc::{collections::VecDeque, vec::Vec};
use audit_log::{PIECE_HEAD, RecordPiece, TEXT_MAX};
use interfaces::audit_log::{LogRefusal, LogState, RECORDS_BYTES};
use process::audit::{
    backlog::{self, AuditRecord},
    medium,
};
use rt::time;

/// Bytes of records that are written at once.
const BATCH_BYTES: usize = RECORDS_BYTES / 2;
/// The pause after trouble.
const PAUSE_NS: u64 = 200_000_000;

/// Records that are not yet on the medium. They stay here when the writer dies.
struct Held {
    records: VecDeque<AuditRecord>,
    /// Number of the first of them; `None` before the log was opened for the first time.
    first: Option<u64>,
}

impl Held {
    /// Hears which record the log expects next: those before it are on the medium.
    fn expect(&mut self, next: u64) {
        let first = *self.first.get_or_insert(next);
        match next.checked_sub(first) {
            Some(written) => {
                let written = (written as usize).min(self.records.len());
                self.records.drain(..written);
                backlog::written(written);
            }
            None => log::error!("audit: records {next} to {} are gone from the medium", first - 1),
        }
        self.first = Some(next);
    }
    /// Returns the list of as many records as are written at once.
    fn list(&self) -> Vec<u8> {
        let mut list = Vec::new();
        for (record, number) in self.records.iter().zip(self.first.unwrap_or(0)..) {
            let text = record.text.as_bytes();
            let text = text.get(..TEXT_MAX).unwrap_or(text);
            if !list.is_empty() && list.len() + PIECE_HEAD + text.len() > RECORDS_BYTES {
                break;
            }
            RecordPiece::whole(number, record.kind, text).put(&mut list);
        }
        list
    }
    /// Writes what is there. Returns how the log is used now.
    fn write(&mut self, log: &MachineLog) -> (LogUse, Option<LogState>) {
        let mut client = log.client.lock();
        let outcome = client.open().and_then(|opened| {
            if let Some(state) = opened {
                self.expect(state.record);
            }
            if self.records.is_empty() {
                return Ok(opened);
            }
            let state = client.append(&self.list())?;
            self.expect(state.record);
            Ok(Some(state))
        });
        match outcome {
            Ok(Some(state)) if !self.records.is_empty() => (LogUse::Full, Some(state)),
            Ok(state) => (LogUse::Open, state),
            Err(LogTrouble::Refused(LogRefusal::Foreign | LogRefusal::TooSmall)) => {
                (LogUse::Refused, None)
            }
            Err(LogTrouble::Died | LogTrouble::Refused(_)) => (LogUse::Failed, None),
        }
    }
}

/// Gives the writer records as they come.
pub(super) fn run(log: &'static MachineLog) {
    let mut held = Held { records: VecDeque::new(), first: None };
    // A writer that died once is succeeded at once.
    let mut is_repeated = false;
    loop {
        let ticket = medium::ticket();
        if held.records.is_empty() {
            held.records.extend(backlog::take_for_medium(BATCH_BYTES));
        }
        let (use_of_log, state) = held.write(log);
        match use_of_log {
            LogUse::Failed if !is_repeated => {
                is_repeated = true;
                continue;
            }
            LogUse::Refused => {
                log::error!(
                    "{}: it is too small for audit records, or has something else on it",
                    log.medium
                );
                medium::close();
                return log.note(use_of_log, None);
            }
            _ => log.note(use_of_log, state),
        }
        is_repeated = use_of_log == LogUse::Failed;
        match use_of_log {
            LogUse::Failed => medium::wait(ticket, Some(time::now().after_ns(PAUSE_NS))),
            LogUse::Full => medium::wait(ticket, None),
            _ => {
                held.records.extend(backlog::take_for_medium(BATCH_BYTES));
                if held.records.is_empty() {
                    medium::wait(ticket, None);
                }
            }
        }
    }
}

//! Audit records on a medium of their own: the client of the audit writer (`interfaces::audit_log`), for a machine without auditd.
//!
//! ```text
//! backlog ──take──> records of the writer's thread (they outlive the writer) ──Append──> writer ──Write, Flush──> medium
//!                                                   <── the next record that it expects ──
//! ```
//!
//! The thread keeps a record until the writer says that the medium has it. If the writer dies its successor opens the log and says which
//! record it expects, so none is lost and none is written twice.
//!
//! The medium is the partition or disk that the kernel parameter `audit.medium=` names, or else the first GPT partition whose type is
//! [`PARTITION_TYPE`]. Without one, or without a writer, records wait in the backlog. Programs do not see the medium as a device.
//!
//! Locks: `audit.medium`, held over I/O on the medium and over messages; `audit.status`, for a moment.
mod client;
mod export;
mod feed;
mod orders;

pub use export::RecordsFile;
pub use orders::{obey, status};

use crate::{devices::DiskDevice, tty::Terminal};
use alloc::{boxed::Box, string::String, sync::Arc, vec::Vec};
use client::LogClient;
use core::sync::atomic::{AtomicBool, Ordering};
use interfaces::audit_log::{AuditLog, LogState};
use process::audit::{
    self,
    alarm::{self, Alarm},
    backlog, medium,
};
use rt::{
    lock_class,
    sync::{Mutex, Once},
    thread::{self, Policy},
    time,
};

lock_class! {
    static MEDIUM = "audit.medium";
    static STATUS = "audit.status";
}

/// The type of a GPT partition for audit records: 5b6c1f3e-8d2a-4c57-9e0b-534b41554454.
pub const PARTITION_TYPE: [u8; 16] = [
    0x3e, 0x1f, 0x6c, 0x5b, 0x2a, 0x8d, 0x57, 0x4c, 0x9e, 0x0b, 0x53, 0x4b, 0x41, 0x55, 0x44, 0x54,
];
/// The parameter with the name of the medium.
const PARAMETER: &str = "audit.medium";
/// Time for which the end of the machine waits for records.
const DRAIN_NS: u64 = 5_000_000_000;
/// Thresholds of the alarm of a full medium, in percent.
const THRESHOLDS: [u8; 3] = [75, 90, 100];

/// The state of the log, as it was last heard of.
#[derive(Clone, Copy, Debug)]
struct LogStatus {
    state: LogState,
    use_of_log: LogUse,
    alarm: Alarm<3>,
}

/// The use of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LogUse {
    /// It is being opened.
    Opening,
    /// Records are written.
    Open,
    /// The next record has no room.
    Full,
    /// The device reports errors, or there is no writer now.
    Failed,
    /// The medium is not used.
    Refused,
}

/// The log of the machine.
struct MachineLog {
    /// Name of the medium.
    medium: String,
    client: Mutex<LogClient>,
    status: Mutex<LogStatus>,
}

static LOG: Once<MachineLog> = Once::new();

impl MachineLog {
    /// Notes how the log is used, and raises alarms.
    fn note(&self, use_of_log: LogUse, state: Option<LogState>) {
        let mut status = self.status.lock();
        status.state = state.unwrap_or(status.state);
        let before = core::mem::replace(&mut status.use_of_log, use_of_log);
        let percent = status.percent();
        let passed = status.alarm.note(percent);
        drop(status);
        match use_of_log {
            LogUse::Full if before != use_of_log => alarm::raise(format_args!(
                "the medium is full: programs whose records have no room wait"
            )),
            LogUse::Failed if before != use_of_log => {
                alarm::raise(format_args!("the medium cannot be written now: records wait"));
            }
            LogUse::Refused => alarm::raise(format_args!("the medium is not used")),
            _ => {
                if let Some(threshold) = passed {
                    alarm::raise(format_args!("{threshold} % of the medium is used"));
                }
            }
        }
    }
}

impl LogStatus {
    fn percent(&self) -> u8 {
        let LogState { blocks, first, end, .. } = self.state;
        match self.use_of_log {
            LogUse::Full => 100,
            _ => (end.saturating_sub(first) * 100).checked_div(blocks).unwrap_or(0).min(99) as u8,
        }
    }
}

/// Chooses the medium among the disks.
fn choose(disks: &[Arc<DiskDevice>]) -> Option<usize> {
    match rt::system::parameter(PARAMETER) {
        Some(name) => {
            let name = name.trim_start_matches("/dev/");
            let found = disks.iter().position(|disk| disk.name == name);
            if found.is_none() {
                log::error!("{PARAMETER}: there is no {name}: audit records wait in memory");
            }
            found
        }
        None => disks.iter().position(|disk| disk.partition_type == PARTITION_TYPE),
    }
}

/// Shows alarms on a terminal. A line that takes no output delays nothing: then further alarms are only in the log.
fn show_alarms_on(console: Option<&Arc<Terminal>>) {
    static IS_BUSY: AtomicBool = AtomicBool::new(false);
    let Some(console) = console.cloned() else { return };
    alarm::announce(Box::new(move |text| {
        if IS_BUSY.swap(true, Ordering::Acquire) {
            return;
        }
        let console = console.clone();
        let shows = move || {
            console.announce(text.as_bytes());
            IS_BUSY.store(false, Ordering::Release);
        };
        if thread::spawn("audit alarm", Policy::default(), shows).is_err() {
            IS_BUSY.store(false, Ordering::Release);
        }
    }));
}

/// Starts to keep records on a medium among `disks`, which is taken out of them, if there is one and `writer`. Alarms are shown on the
/// console.
pub fn start(
    writer: Option<Arc<dyn AuditLog>>,
    disks: &mut Vec<Arc<DiskDevice>>,
    console: Option<&Arc<Terminal>>,
) {
    show_alarms_on(console);
    let Some(writer) = writer else { return };
    let Some(index) = choose(disks) else { return };
    let disk = disks.remove(index);
    let client = match LogClient::new(writer, disk.block.clone()) {
        Ok(client) => client,
        Err(_) => return log::error!("no memory for audit records on {}", disk.name),
    };
    let log = LOG.get_or_init(|| MachineLog {
        medium: disk.name.clone(),
        client: Mutex::new(&MEDIUM, client),
        status: Mutex::new(
            &STATUS,
            LogStatus {
                state: LogState::default(),
                use_of_log: LogUse::Opening,
                alarm: Alarm::new(THRESHOLDS),
            },
        ),
    });
    medium::open();
    // From now on no record is lost while audit is on.
    audit::keep_all();
    if thread::spawn("audit log", Policy::default(), || feed::run(log)).is_err() {
        medium::close();
        log::error!("no memory for the thread of audit records");
    }
}

/// Waits until all records are on the medium, for the end of the machine.
pub fn drain() {
    if LOG.get().is_some() {
        backlog::drain(time::now().after_ns(DRAIN_NS));
    }
}

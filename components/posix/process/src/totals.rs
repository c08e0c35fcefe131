//! Totals of the processes of one level (K1). A subject that may not see all processes gets them in place of the system's totals,
//! so that these tell nothing of other levels.
//!
//! The processes are counted when a total is read: nothing is counted in advance.
use crate::{io_counts::Count, object::Process, task::Task, tree};
use core::ops::ControlFlow;
use interfaces::monitor::Privileges;
use vfs::{
    Principal,
    security::{self, Level},
};

/// The sums over a level's processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Threads.
    pub tasks: u64,
    /// Threads that run or could run.
    pub runnable: u64,
    /// Pages of memory without those of files, which tell what others read.
    pub anonymous_pages: u64,
    /// Time in programs, also of processes that ended.
    pub user_ns: u64,
    /// Time in the kernel, also of processes that ended.
    pub system_ns: u64,
    /// Switches from threads, also of processes that ended.
    pub switches: u64,
    /// Page faults that needed no device.
    pub minor_faults: u64,
    /// Page faults that read from a device.
    pub major_faults: u64,
    /// Bytes that had to be read from storage, also of processes that ended.
    pub storage_read: u64,
    /// Bytes of pages that were to be written to storage, also of processes that ended.
    pub storage_written: u64,
    /// Descriptors.
    pub descriptors: u64,
}

/// Returns the level whose totals a caller gets; `None` for a caller that may see all processes, or is no task.
pub fn level_of(viewer: &dyn Principal) -> Option<&'static Level> {
    let task = Task::of(viewer).filter(|_| security::is_enforced())?;
    let subject = &task.credentials().subject;
    (!security::has(subject, Privileges::SEE_ALL)).then(|| subject.level())
}

/// Returns the totals of a level.
pub fn of_level(level: &Level) -> Totals {
    let processes = tree::read().of_level(level);
    let [user_ns, system_ns, switches, storage_read, storage_written] = level.ended();
    let mut totals =
        Totals { user_ns, system_ns, switches, storage_read, storage_written, ..Totals::default() };
    processes.iter().for_each(|process| totals.add(process));
    totals
}

impl Totals {
    fn add(&mut self, process: &Process) {
        let tasks = process.tasks();
        let times = tasks.iter().filter_map(|task| rt::thread::cpu_time(task.thread()));
        self.tasks += tasks.len() as u64;
        self.runnable += times.filter(|time| time.is_runnable).count() as u64;
        let time = process.cpu_time();
        self.user_ns += time.user_ns;
        self.system_ns += time.system_ns;
        self.switches += time.voluntary_switches + time.forced_switches;
        let io = process.io();
        self.storage_read += io.of(Count::BytesRead);
        self.storage_written += io.of(Count::BytesWritten);
        let faults = process.faults();
        self.minor_faults += faults.minor;
        self.major_faults += faults.major;
        self.anonymous_pages += process.try_memory().map_or(0, |memory| {
            let files = memory.object_pages();
            memory.sizes().resident.saturating_sub(files.files + files.shared_memory)
        });
        if let Some(task) = tasks.first() {
            let _ = task.files().visit_descriptors(0, &mut |_| {
                self.descriptors += 1;
                ControlFlow::Continue(())
            });
        }
    }
}

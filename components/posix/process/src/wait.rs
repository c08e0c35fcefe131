//! Waiting for children: wait4(2) and waitid(2) in one.
use crate::{
    object::{Process, ProcessUsage, add_time},
    signal::number::SIGCHLD,
    status::ExitStatus,
    task::Task,
    tree, visible,
};
use alloc::sync::Arc;
use bitflags::bitflags;
use core::sync::atomic::Ordering;
use rt::thread::Woken;
use vfs::{Errno, security::flows};

/// The children for which a call waits.
#[derive(Clone, Copy)]
pub enum Which<'a> {
    /// All children.
    Any,
    /// The child with this id.
    Process(u32),
    /// The children in a process group.
    Group(u32),
    /// This child, regardless of its number.
    Exactly(&'a Arc<Process>),
}

bitflags! {
    /// Options of a wait; the values are Linux's.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct WaitOptions: u32 {
        /// Return at once if there is no event.
        const NO_HANG = 1;
        /// Report stops (WSTOPPED).
        const UNTRACED = 2;
        /// Report ends; wait4 always does.
        const EXITED = 4;
        /// Report continuations.
        const CONTINUED = 8;
        /// Leave the child waitable.
        const NO_WAIT = 0x0100_0000;
        /// Exclude children of other threads.
        const NO_THREAD = 0x2000_0000;
        /// Include children with any exit signal.
        const ALL = 0x4000_0000;
        /// Include only children whose exit signal is not SIGCHLD.
        const CLONE = 0x8000_0000;
    }
}

/// An event of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The child ended.
    Ended(ExitStatus),
    /// The child was stopped by this signal.
    Stopped(u8),
    /// The child continued.
    Continued,
}

/// A report on one child.
#[derive(Clone, Copy, Debug)]
pub struct Report {
    /// Its process id.
    pub id: u32,
    /// Its real user id.
    pub user: u32,
    /// The event.
    pub event: Event,
    /// The resource usage of it and its children.
    pub usage: ProcessUsage,
}

/// Waits until a child of `task`'s process has an event to report. Returns `None` with `NO_HANG` if none has.
///
/// # Errors
/// `ECHILD` if no child can ever match, `Restart` when interrupted.
pub fn wait(task: &Task, which: Which<'_>, options: WaitOptions) -> Result<Option<Report>, Errno> {
    let process = &task.process;
    loop {
        let ticket = process.child_event.ticket();
        if let Some(report) = look_for(process, Some(task), which, options)? {
            return Ok(Some(report));
        }
        if options.contains(WaitOptions::NO_HANG) {
            return Ok(None);
        }
        if process.child_event.wait_interruptible(ticket, None) == Woken::Kicked {
            // The signal may be that of a child with an event: then the wait is not interrupted.
            let report = look_for(process, Some(task), which, options)?;
            return report.map(Some).ok_or(Errno::Restart);
        }
    }
}

/// Checks the children of `process` once.
///
/// # Errors
/// `ECHILD`.
pub fn look(
    process: &Process,
    which: Which<'_>,
    options: WaitOptions,
) -> Result<Option<Report>, Errno> {
    look_for(process, None, which, options)
}

/// Does the same as [`look`] for the thread `own`, to whose children the wait may be limited.
fn look_for(
    process: &Process,
    own: Option<&Task>,
    which: Which<'_>,
    options: WaitOptions,
) -> Result<Option<Report>, Errno> {
    let own = own.filter(|_| options.contains(WaitOptions::NO_THREAD));
    let is_own = |child: &&Arc<Process>| own.is_none_or(|task| is_of(child, task));
    let mut tree = tree::write();
    let found = match which {
        // The child is found by its number, however many others there are.
        Which::Process(id) => {
            first_event(tree.child(process.id(), id).filter(is_own), process, (which, options))
        }
        Which::Exactly(child) => first_event(
            tree.child(process.id(), child.id()).filter(is_own),
            process,
            (which, options),
        ),
        Which::Any | Which::Group(_) => {
            first_event(tree.children(process.id()).filter(is_own), process, (which, options))
        }
    };
    let Some((child, event)) = found? else { return Ok(None) };
    let usage = match visible::is_concealed(&child, process) {
        true => ProcessUsage::default(),
        false => {
            flows::reads(|| Some(child.label()));
            *child.usage.lock()
        }
    };
    if matches!(event, Event::Ended(_)) && !options.contains(WaitOptions::NO_WAIT) {
        tree.remove(&child);
        inherit_usage(process, &usage);
        drop(tree);
        child.files_about_it.close();
    }
    Ok(Some(Report { id: child.id(), user: child.real_user(), event, usage }))
}

/// Returns whether `child` belongs to `task`: it made the child, or it is the oldest remaining thread after the
/// maker has ended.
pub fn is_of(child: &Process, task: &Task) -> bool {
    let maker = child.parent_thread.load(Ordering::Relaxed);
    if maker == task.id() {
        return true;
    }
    let tasks = task.process.tasks();
    let is_oldest = tasks.first().is_some_and(|oldest| oldest.id() == task.id());
    is_oldest && tasks.iter().all(|other| other.id() != maker)
}

/// Returns the first of `children` that matches and has an event to report.
///
/// # Errors
/// `ECHILD` if none can ever have one: none matches, or those that match have ended and ends are not wanted (Linux
/// `wait_consider_task`).
fn first_event<'a>(
    children: impl IntoIterator<Item = &'a Arc<Process>>,
    parent: &Process,
    (which, options): (Which<'_>, WaitOptions),
) -> Result<Option<(Arc<Process>, Event)>, Errno> {
    let mut found = Err(Errno::ECHILD);
    for child in children.into_iter().filter(|child| matches(child, which, options)) {
        if let Some(event) = event_of(child, parent, options) {
            return Ok(Some((child.clone(), event)));
        }
        if options.contains(WaitOptions::EXITED) || child.ended().is_none() {
            found = Ok(None);
        }
    }
    found
}

fn matches(child: &Arc<Process>, which: Which<'_>, options: WaitOptions) -> bool {
    let is_named = match which {
        Which::Any => true,
        Which::Process(id) => child.id() == id,
        Which::Group(group) => child.group() == group,
        Which::Exactly(process) => Arc::ptr_eq(child, process),
    };
    let is_clone = child.exit_signal.load(Ordering::Relaxed) != SIGCHLD;
    is_named
        && (options.contains(WaitOptions::ALL) || is_clone == options.contains(WaitOptions::CLONE))
}

/// Returns the event of `child`, which is consumed unless `NO_WAIT` is set. A parent that may not read the child
/// ([`visible::is_concealed`]) learns of its end alone, not of the status.
fn event_of(child: &Process, parent: &Process, options: WaitOptions) -> Option<Event> {
    let is_concealed = visible::is_concealed(child, parent);
    let mut state = child.signals.lock();
    if let Some(status) = state.ended {
        let status = if is_concealed { ExitStatus::Exited(0) } else { status };
        return options.contains(WaitOptions::EXITED).then_some(Event::Ended(status));
    }
    if is_concealed {
        return None;
    }
    let keep = options.contains(WaitOptions::NO_WAIT);
    if options.contains(WaitOptions::UNTRACED)
        && let Some(signal) = state.stop_report
    {
        if !keep {
            state.stop_report = None;
        }
        return Some(Event::Stopped(signal));
    }
    if options.contains(WaitOptions::CONTINUED) && state.continue_report {
        state.continue_report = keep;
        return Some(Event::Continued);
    }
    None
}

fn inherit_usage(process: &Process, child: &ProcessUsage) {
    let mut usage = process.usage.lock();
    add_time(&mut usage.children, &child.own);
    add_time(&mut usage.children, &child.children);
    usage.children_faults += child.faults;
    usage.children_faults += child.children_faults;
    usage.children_io += child.io;
    usage.children_io += child.children_io;
    let peak = child.peak_pages.max(child.children_peak_pages);
    usage.children_peak_pages = usage.children_peak_pages.max(peak);
}

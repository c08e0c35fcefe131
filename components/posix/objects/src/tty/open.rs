//! Open terminals: a [`TerminalFile`] is one open description.
//!
//! A description belongs to the terminal's time between two hang-ups: after the next one reads return the end of file and
//! writes fail, while the terminal can be opened again unless its line is gone. Descriptions of `/dev/console` survive
//! hang-ups, as on Linux (`__tty_hangup`, `cons_filp`): process 1 has them all its life. [`TerminalUsers`] is guarded by `tty.life`, a
//! leaf.
use super::{line::Use, terminal::Terminal};
use alloc::{
    format,
    sync::{Arc, Weak},
};
use core::sync::atomic::Ordering;
use interfaces::monitor::ObjectAccess;
use linux_raw_sys::general as raw;
use process::Task;
use rt::sync::StaticRef;
use vfs::{
    Errno, Principal, Vnode,
    credentials::Capabilities,
    security::{self, Label},
};

/// The open descriptions of a terminal.
#[derive(Default)]
pub(super) struct TerminalUsers {
    opens: u32,
    /// Only the superuser may open it (`TIOCEXCL`).
    pub(super) is_exclusive: bool,
    /// The line is gone for ever.
    is_gone: bool,
    /// The device by which it was opened.
    device: Option<TerminalDevice>,
}

/// The device by which a terminal is opened, for its label.
#[derive(Clone)]
pub enum TerminalDevice {
    /// A pseudo-terminal's own label.
    Pseudo(Arc<StaticRef<Label>>),
    /// A node in a directory.
    Node(Weak<Vnode>),
}

/// Tells whether opening makes a terminal the controlling one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// It does if the session has none and the terminal is free.
    IfFree,
    /// It never does (`/dev/tty`).
    Never,
    /// It never does, and the description survives hang-ups (`/dev/console`).
    Console,
}

/// An open terminal.
pub struct TerminalFile {
    pub(super) terminal: Arc<Terminal>,
    /// Number of hang-ups before it was opened; `None` if it survives them.
    life: Option<u64>,
}

impl TerminalFile {
    /// Returns the terminal.
    pub fn terminal(&self) -> &Arc<Terminal> {
        &self.terminal
    }
    /// Returns whether the terminal was hung up since it was opened.
    pub fn is_hung_up(&self) -> bool {
        self.life.is_some_and(|life| self.terminal.hang_ups.load(Ordering::Acquire) != life)
    }
}

impl TerminalFile {
    /// Returns the terminal of the session in front, for a description of `/dev/console` whose own terminal is held: process 1 and
    /// daemons write there and must not wait until that session ends.
    pub(super) fn console_in_front(&self) -> Option<Arc<Terminal>> {
        match self.life.is_none() && self.terminal.is_held() {
            true => self.terminal.shared_line()?.session_before(&self.terminal),
            false => None,
        }
    }
}

impl Drop for TerminalFile {
    fn drop(&mut self) {
        let is_last = {
            let mut life = self.terminal.life.lock();
            life.opens -= 1;
            life.is_exclusive &= life.opens > 0;
            life.opens == 0
        };
        if is_last {
            self.terminal.line.used(Use::Closed);
        }
    }
}

impl Terminal {
    /// Opens it for `caller` with `flags` of open(2): a session leader without a terminal gets it if it is free.
    ///
    /// # Errors
    /// `EIO` if the line is gone, `EBUSY` if it is open exclusively.
    pub fn open(
        self: &Arc<Self>,
        flags: u32,
        claim: Claim,
        caller: &dyn Principal,
    ) -> Result<TerminalFile, Errno> {
        let task = Task::of(caller);
        let is_privileged = task.is_none_or(|task| task.has(Capabilities::SYS_ADMIN));
        let file = {
            let mut life = self.life.lock();
            if life.is_gone {
                return Err(Errno::EIO);
            }
            if life.is_exclusive && !is_privileged {
                return Err(Errno::EBUSY);
            }
            life.opens += 1;
            let hang_ups = self.hang_ups.load(Ordering::Acquire);
            let life = (claim != Claim::Console).then_some(hang_ups);
            TerminalFile { terminal: self.clone(), life }
        };
        self.line.used(Use::Open);
        let is_readable = flags & raw::O_ACCMODE != raw::O_WRONLY;
        if let Some(task) = task
            && claim == Claim::IfFree
            && flags & raw::O_NOCTTY == 0
            && is_readable
        {
            self.acquire_if_free(task);
        }
        Ok(file)
    }
    /// Notes the device by which it is opened.
    pub fn note_device(&self, device: TerminalDevice) {
        self.life.lock().device = Some(device);
    }
    /// Returns the label of the device by which it was opened, or else of the device that has its name in the policy.
    pub(super) fn label(&self) -> Option<&'static Label> {
        let device = self.life.lock().device.clone();
        let of_device = match device {
            Some(TerminalDevice::Pseudo(label)) => Some(label.get()),
            Some(TerminalDevice::Node(vnode)) => vnode.upgrade().and_then(|it| it.label().ok()),
            None => None,
        };
        of_device.or_else(|| security::of_device(&format!("/dev/{}", self.name())))
    }
    /// Checks that a task may use it by `/dev/tty`, whose own label lets everybody in: the task may read and write its device.
    ///
    /// # Errors
    /// `ENXIO`, as without a terminal.
    pub fn check_use(&self, caller: &dyn Principal) -> Result<(), Errno> {
        let Some(task) = Task::of(caller).filter(|_| security::is_enforced()) else {
            return Ok(());
        };
        let (who, label) = (task.credentials(), self.label().ok_or(Errno::ENXIO)?);
        let is_allowed = |access| security::check(&who.subject, label, access).is_ok();
        match is_allowed(ObjectAccess::Read) && is_allowed(ObjectAccess::Write) {
            true => Ok(()),
            false => Err(Errno::ENXIO),
        }
    }
    /// Returns whether the line is gone for ever: no input comes and no open succeeds any more.
    pub(super) fn is_gone(&self) -> bool {
        self.life.lock().is_gone
    }
    /// Called when the other end is gone for ever (a port or a master was closed): hangs up.
    pub(super) fn line_gone(&self) {
        let was_gone = core::mem::replace(&mut self.life.lock().is_gone, true);
        if !was_gone {
            self.hang_up();
        }
    }
    /// Hangs up: open descriptions are dead from now on, the session loses the terminal, its leader gets SIGHUP and SIGCONT.
    /// Settings and queues are reset.
    pub fn hang_up(&self) {
        self.hang_ups.fetch_add(1, Ordering::AcqRel);
        self.leave_session();
        self.flush_input();
        self.flush_output();
        self.reset();
        self.readable.wake();
        self.started.wake();
        self.wake_worker();
    }
}

//! Job control: whose terminal it is, who is in the foreground, and what others may not do.
//!
//! A session's controlling terminal is kept in both: the session names the terminal, the
//! terminal's [`Control`] the session and its foreground group. Source: POSIX.1-2017 11.1.
use super::terminal::Terminal;
use crate::{
    process::{
        self, Task,
        session::{ControllingTerminal, Session},
        tree,
    },
    signal::{self, Info},
};
use alloc::sync::{Arc, Weak};
use linux_raw_sys::general as raw;
use vfs::{Errno, credentials::Capabilities};

/// Session and foreground group of a terminal; 0 is none.
#[derive(Default)]
pub(super) struct Control {
    pub session: u32,
    pub foreground: u32,
    owner: Weak<Session>,
}

/// What a background process wants of its terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Background {
    /// SIGTTIN
    Read,
    /// SIGTTOU
    Write,
}

/// How a terminal that has a session may be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Take {
    /// Not at all.
    IfFree,
    /// By the superuser.
    ByForce,
}

impl Terminal {
    /// It is the controlling terminal of `task`.
    pub(super) fn is_controlling(&self, task: &Task) -> bool {
        let control = self.control.lock();
        control.session != 0 && control.session == task.process.session().id()
    }
    /// The calling task may read (or change) the terminal; if it is in the background its group is signalled.
    ///
    /// # Errors
    /// `EIO` where it cannot be stopped for it, `RESTART` once it was signalled.
    pub(super) fn check_foreground(&self, wanted: Background) -> Result<(), Errno> {
        let Some(task) = process::current() else { return Ok(()) };
        let foreground = self.control.lock().foreground;
        let group = task.process.group();
        if !self.is_controlling(&task) || foreground == 0 || foreground == group {
            return Ok(());
        }
        let number = if wanted == Background::Read { signal::SIGTTIN } else { signal::SIGTTOU };
        if signal::is_ignored_or_blocked(&task, number) {
            return if wanted == Background::Read { Err(Errno::EIO) } else { Ok(()) };
        }
        if tree::read().is_orphaned(group, None) {
            return Err(Errno::EIO);
        }
        signal::send_to_group(group, Info::kernel(number));
        Err(Errno::RESTART)
    }
    /// It was opened: a session leader without a terminal gets it if it is free (unless `O_NOCTTY`).
    ///
    /// # Errors
    /// `EIO` where the other end is gone.
    pub fn opened(&self, flags: u32) -> Result<(), Errno> {
        if self.is_hung_up() {
            return Err(Errno::EIO);
        }
        let is_readable = flags & raw::O_ACCMODE != raw::O_WRONLY;
        if let Some(task) = process::current()
            && flags & raw::O_NOCTTY == 0
            && is_readable
        {
            let _ = self.acquire(&task, Take::IfFree);
        }
        Ok(())
    }
    /// Makes it the controlling terminal of the task's session (`TIOCSCTTY`).
    ///
    /// # Errors
    /// `EPERM` of who is no session leader, has a terminal, or where the terminal has a session.
    pub(super) fn acquire(&self, task: &Task, take: Take) -> Result<(), Errno> {
        let session = task.process.session();
        let is_leader = session.id() == task.process.id();
        let mut control = self.control.lock();
        if is_leader && control.session == session.id() {
            return Ok(());
        }
        if !is_leader || session.terminal().is_some() {
            return Err(Errno::EPERM);
        }
        if control.session != 0 {
            let can_steal = task.credentials().has(Capabilities::SYS_ADMIN);
            if take == Take::IfFree || !can_steal {
                return Err(Errno::EPERM);
            }
            if let Some(owner) = control.owner.upgrade() {
                owner.set_terminal(None);
            }
        }
        let owner = Arc::downgrade(&session);
        *control = Control { session: session.id(), foreground: task.process.group(), owner };
        drop(control);
        if let Some(terminal) = self.this.upgrade() {
            session.set_terminal(Some(terminal));
        }
        Ok(())
    }
    /// The task's session gives the terminal up (`TIOCNOTTY`); only its leader can.
    ///
    /// # Errors
    /// `ENOTTY` where it is not its terminal.
    pub(super) fn give_up(&self, task: &Task) -> Result<(), Errno> {
        if !self.is_controlling(task) {
            return Err(Errno::ENOTTY);
        }
        let session = task.process.session();
        if session.id() != task.process.id() {
            return Ok(());
        }
        self.signal_foreground(signal::SIGHUP);
        self.signal_foreground(signal::SIGCONT);
        session.set_terminal(None);
        self.released();
        Ok(())
    }
    /// The other end is gone: the leader is told, and the foreground group.
    pub(super) fn hang_up_session(&self) {
        let leader = self.control.lock().session;
        let process = tree::read().process(leader);
        if let Some(process) = process {
            for number in [signal::SIGHUP, signal::SIGCONT] {
                let _ = signal::send_to_process(&process, Info::kernel(number));
            }
        }
        self.signal_foreground(signal::SIGHUP);
        self.signal_foreground(signal::SIGCONT);
    }
    /// The foreground group, as a member of its session sees it (`TIOCGPGRP`).
    ///
    /// # Errors
    /// `ENOTTY` where it is not the task's terminal.
    pub(super) fn foreground_for(&self, task: &Task) -> Result<u32, Errno> {
        if self.is_controlling(task) { Ok(self.foreground()) } else { Err(Errno::ENOTTY) }
    }
    /// Puts `group` in the foreground (`TIOCSPGRP`).
    ///
    /// # Errors
    /// `ENOTTY`, `EINVAL`, `ESRCH` where there is no such group, `EPERM` where it is in another session.
    pub(super) fn set_foreground(&self, task: &Task, group: i32) -> Result<(), Errno> {
        match self.check_foreground(Background::Write) {
            Err(Errno::EIO) => return Err(Errno::ENOTTY),
            other => other?,
        }
        if !self.is_controlling(task) {
            return Err(Errno::ENOTTY);
        }
        let group = u32::try_from(group).map_err(|_| Errno::EINVAL)?;
        let session = task.process.session().id();
        let member_session = {
            let tree = tree::read();
            tree.group(group).next().map(|member| member.session().id())
        };
        match member_session {
            None => Err(Errno::ESRCH),
            Some(found) if found != session => Err(Errno::EPERM),
            Some(_) => {
                self.control.lock().foreground = group;
                Ok(())
            }
        }
    }
}

impl ControllingTerminal for Terminal {
    fn device(&self) -> (u32, u32) {
        self.device
    }
    fn foreground(&self) -> u32 {
        self.control.lock().foreground
    }
    fn released(&self) {
        *self.control.lock() = Control::default();
    }
    fn as_any(&self) -> &dyn core::any::Any {
        self
    }
}

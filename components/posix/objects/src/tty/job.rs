//! Job control: the session and foreground group of a terminal, and the restrictions of background processes.
//!
//! A process refers to its controlling terminal (children inherit it), the terminal's [`JobControl`] to the
//! session and its foreground group. Source: POSIX.1-2017 11.1, Linux `tty_jobctrl.c`.
use super::terminal::Terminal;
use alloc::string::String;
use core::sync::atomic::Ordering;
use process::{
    self, Process, Task,
    session::ControllingTerminal,
    signal::{self, Info, send::signal_group},
    tree,
};
use vfs::{Errno, Principal, credentials::Capabilities};

/// Session and foreground group of a terminal; 0 means none.
#[derive(Clone, Copy, Default)]
pub(super) struct JobControl {
    pub session: u32,
    pub foreground: u32,
}

/// The access of a background process to its terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Background {
    /// A read, which is stopped by SIGTTIN.
    Read,
    /// A write, which is stopped by SIGTTOU.
    Write,
}

/// Rule for taking a terminal that has a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Take {
    /// The terminal is taken only if it is free.
    IfFree,
    /// The superuser may take the terminal from another session.
    ByForce,
}

/// The end at which a terminal is asked about its foreground group: the master's may always ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Terminal,
    Master,
}

impl Terminal {
    /// Returns whether it is the controlling terminal of `task`.
    pub(super) fn is_controlling(&self, task: &Task) -> bool {
        task.process.terminal().is_some_and(|terminal| self.is(terminal.as_ref()))
    }
    fn is(&self, other: &dyn ControllingTerminal) -> bool {
        other.as_any().downcast_ref::<Terminal>().is_some_and(|other| core::ptr::eq(self, other))
    }
    /// Checks that `caller` may read (or change) the terminal; if it is a task in the background, its group
    /// is signalled.
    ///
    /// # Errors
    /// `EIO` if it cannot be stopped, `Restart` once it was signalled.
    pub(super) fn check_foreground(
        &self,
        wanted: Background,
        caller: &dyn Principal,
    ) -> Result<(), Errno> {
        let Some(task) = Task::of(caller) else { return Ok(()) };
        let foreground = self.control.lock().foreground;
        let group = task.process.group();
        if foreground == 0 || foreground == group || !self.is_controlling(task) {
            return Ok(());
        }
        let number = if wanted == Background::Read { signal::SIGTTIN } else { signal::SIGTTOU };
        if signal::is_ignored_or_blocked(task, number) {
            return if wanted == Background::Read { Err(Errno::EIO) } else { Ok(()) };
        }
        if tree::read().is_orphaned(group, None) {
            return Err(Errno::EIO);
        }
        signal::send_to_group(group, Info::kernel(number));
        Err(Errno::Restart)
    }
    /// Makes it the controlling terminal of the task's session if both are free (open(2)).
    pub fn acquire_if_free(&self, task: &Task) {
        let is_leader = task.process.session().id() == task.process.id();
        let mut control = self.control.lock();
        if is_leader && control.session == 0 && task.process.terminal().is_none() {
            self.give_to(task, &mut control);
        }
    }
    fn give_to(&self, task: &Task, control: &mut JobControl) {
        *control =
            JobControl { session: task.process.session().id(), foreground: task.process.group() };
        if let Some(terminal) = self.this.upgrade() {
            task.process.set_terminal(Some(terminal));
        }
    }
    /// Makes it the controlling terminal of the task's session (`TIOCSCTTY`).
    ///
    /// # Errors
    /// `EPERM` if the task is not a session leader, has a terminal already, or if the terminal has another
    /// session.
    pub(super) fn acquire(&self, task: &Task, take: Take) -> Result<(), Errno> {
        let session = task.process.session().id();
        let is_leader = session == task.process.id();
        let can_steal = take == Take::ByForce && task.credentials().has(Capabilities::SYS_ADMIN);
        let before = {
            let mut control = self.control.lock();
            if is_leader && control.session == session {
                return Ok(());
            }
            let has_other = control.session != 0;
            if !is_leader || task.process.terminal().is_some() || has_other && !can_steal {
                return Err(Errno::EPERM);
            }
            let before = control.session;
            self.give_to(task, &mut control);
            before
        };
        self.forget_in(before);
        Ok(())
    }
    /// Removes this terminal as the controlling one of the processes of `session`.
    fn forget_in(&self, session: u32) {
        if session == 0 {
            return;
        }
        for process in tree::read().session(session) {
            if process.terminal().is_some_and(|terminal| self.is(terminal.as_ref())) {
                process.set_terminal(None);
            }
        }
    }
    /// Releases the terminal for the task (`TIOCNOTTY`); if it is a session's leader, for all members.
    ///
    /// # Errors
    /// `ENOTTY` if it is not its terminal.
    pub(super) fn give_up(&self, task: &Task) -> Result<(), Errno> {
        if !self.is_controlling(task) {
            return Err(Errno::ENOTTY);
        }
        let session = task.process.session().id();
        if session != task.process.id() {
            task.process.set_terminal(None);
            return Ok(());
        }
        let control = core::mem::take(&mut *self.control.lock());
        signal_group(control.foreground, signal::SIGHUP);
        signal_group(control.foreground, signal::SIGCONT);
        self.forget_in(session);
        Ok(())
    }
    /// Called for a hang-up: the session loses the terminal; its leader is signalled, and records the
    /// foreground group, which is signalled at the leader's end.
    pub(super) fn leave_session(&self) {
        let control = core::mem::take(&mut *self.control.lock());
        let leader = tree::process(control.session).filter(|_| control.session != 0);
        self.forget_in(control.session);
        if let Some(leader) = leader {
            leader.lost_foreground.store(control.foreground, Ordering::Relaxed);
            for number in [signal::SIGHUP, signal::SIGCONT] {
                let _ = signal::send_to_process(&leader, Info::kernel(number));
            }
        }
    }
    pub(super) fn signal_foreground(&self, number: u8) {
        let foreground = self.control.lock().foreground;
        signal_group(foreground, number);
    }
    /// Returns the foreground group (`TIOCGPGRP`), 0 if there is none.
    ///
    /// # Errors
    /// `ENOTTY` if it is not the task's terminal.
    pub(super) fn foreground_for(&self, task: &Task, side: Side) -> Result<u32, Errno> {
        match side == Side::Master || self.is_controlling(task) {
            true => Ok(self.foreground()),
            false => Err(Errno::ENOTTY),
        }
    }
    /// Returns the session (`TIOCGSID`).
    ///
    /// # Errors
    /// `ENOTTY` if it is not the task's terminal, or has no session.
    pub(super) fn session_for(&self, task: &Task, side: Side) -> Result<u32, Errno> {
        self.foreground_for(task, side)?;
        match self.control.lock().session {
            0 => Err(Errno::ENOTTY),
            session => Ok(session),
        }
    }
    /// Makes `group()` the foreground group (`TIOCSPGRP`).
    ///
    /// # Errors
    /// `ENOTTY`, `EINVAL`, `ESRCH` if there is no such group, `EPERM` if it is in another session.
    pub(super) fn set_foreground(
        &self,
        task: &Task,
        group: impl FnOnce() -> Result<i32, Errno>,
    ) -> Result<(), Errno> {
        match self.check_foreground(Background::Write, task) {
            Err(Errno::EIO) => return Err(Errno::ENOTTY),
            other => other?,
        }
        let session = task.process.session().id();
        if !self.is_controlling(task) || self.control.lock().session != session {
            return Err(Errno::ENOTTY);
        }
        let group = u32::try_from(group()?).map_err(|_| Errno::EINVAL)?;
        let found = {
            let tree = tree::read();
            let member = tree.group(group).next().cloned();
            let member = member.or_else(|| tree.process(group));
            member.filter(|it| task.visible().has(it)).map(|member| member.session().id())
        };
        match found {
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
    fn name(&self) -> String {
        self.name()
    }
    fn foreground(&self) -> u32 {
        self.control.lock().foreground
    }
    fn leader_ended(&self, leader: &Process) {
        let foreground = self.control.lock().foreground;
        if self.line.is_pseudo() {
            *self.control.lock() = JobControl::default();
            self.forget_in(leader.id());
        } else {
            self.hang_up();
        }
        signal_group(foreground, signal::SIGHUP);
        if let Some(line) = self.shared_line() {
            line.leader_ended(self, leader);
        }
    }
    fn as_any(&self) -> &dyn core::any::Any {
        self
    }
}

/// Hangs up the calling task's terminal (vhangup(2)).
pub fn hang_up_own(task: &Task) {
    let terminal = task.process.terminal();
    let terminal = terminal.as_ref().and_then(|terminal| terminal.as_any().downcast_ref());
    if let Some(terminal) = terminal.and_then(Terminal::shared) {
        terminal.hang_up();
    }
}

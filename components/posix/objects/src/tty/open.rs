//! Open terminals: [`TerminalFile`], one an open description, and what a hang-up makes of it.
//!
//! A description belongs to the terminal's life between two hang-ups: after the next one it reads
//! as ended and takes nothing, while the terminal can be opened anew unless its line is gone. Those of `/dev/console` outlive
//! hang-ups, as on Linux (`__tty_hangup`, `cons_filp`): process 1 has them all its life.
//! [`Life`] is guarded by `tty.life`, a leaf.
use super::{line::Use, terminal::Terminal};
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use linux_raw_sys::general as raw;
use vfs::{Errno, credentials::Capabilities};

/// The users of a terminal.
#[derive(Default)]
pub(super) struct Life {
    opens: u32,
    /// Nobody may open it but the superuser (`TIOCEXCL`).
    pub(super) is_exclusive: bool,
    /// The line is gone for ever.
    is_gone: bool,
}

/// Whether opening makes a terminal the controlling one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// If the session has none and the terminal is free.
    IfFree,
    /// Never (`/dev/tty`).
    Never,
    /// Never, and the description outlives hang-ups (`/dev/console`).
    Console,
}

/// An open terminal.
pub struct TerminalFile {
    pub(super) terminal: Arc<Terminal>,
    /// Hang-ups before it was opened; `None`: it outlives them.
    life: Option<u64>,
}

impl TerminalFile {
    /// The open terminal.
    pub fn terminal(&self) -> &Arc<Terminal> {
        &self.terminal
    }
    /// The terminal was hung up since.
    pub fn is_hung_up(&self) -> bool {
        self.life.is_some_and(|life| self.terminal.hang_ups.load(Ordering::Acquire) != life)
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
    /// Opens it with `flags` of open(2): a session leader without a terminal gets it if it is free.
    ///
    /// # Errors
    /// `EIO` where the line is gone, `EBUSY` where somebody uses it alone.
    pub fn open(self: &Arc<Self>, flags: u32, claim: Claim) -> Result<TerminalFile, Errno> {
        let task = process::current();
        let is_privileged =
            task.as_ref().is_none_or(|task| task.credentials().has(Capabilities::SYS_ADMIN));
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
            self.acquire_if_free(&task);
        }
        Ok(file)
    }
    /// The line is gone for ever: no input comes and no open works any more.
    pub(super) fn is_gone(&self) -> bool {
        self.life.lock().is_gone
    }
    /// The other end has gone for ever (a port closed, a master closed): a hang-up.
    pub(super) fn line_gone(&self) {
        let was_gone = core::mem::replace(&mut self.life.lock().is_gone, true);
        if !was_gone {
            self.hang_up();
        }
    }
    /// Hangs up: open descriptions are dead from now on, the session loses the terminal, its leader
    /// gets SIGHUP and SIGCONT. Settings and queues are those of a fresh terminal.
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

//! [`Master`]: the end of a pty that plays the terminal's user.
use super::{Pair, READABLE_MAX, Slave, SlaveClosed, devpts::Instance};
use crate::tty::{job::Side, terminal::Terminal};
use alloc::{format, sync::Arc};
use core::sync::atomic::{AtomicBool, Ordering};
use linux_raw_sys::{general as raw, ioctl as request};
use process::{
    Task,
    files::{OnExec, Scope},
    signal,
};
use rt::{sync::Ticket, thread::Woken};
use vfs::{
    Base, Caller, Credentials, Errno, OpenHow, Principal,
    file::{File, IoFlags, Ready},
    io::{Sink, Source},
    poll::{PollTable, WaitQueue},
    security::Label,
};

/// Number of bytes moved between two takings of locks.
const PIECE_BYTES: usize = 1024;

/// An open master. When it is closed, the slave is hung up.
pub struct Master {
    pair: Arc<Pair>,
    slave: Arc<Terminal>,
    instance: Arc<Instance>,
    /// Its own writes are stopped (`TCXONC`).
    is_stopped: AtomicBool,
}

impl Master {
    pub(super) fn new(pair: Arc<Pair>, slave: Arc<Terminal>, instance: Arc<Instance>) -> Master {
        Master { pair, slave, instance, is_stopped: AtomicBool::new(false) }
    }
    /// Answers an ioctl.
    ///
    /// # Errors
    /// `ENOTTY` for an unknown request; `EFAULT`, and those of ioctl_tty(2).
    pub fn ioctl(&self, task: &Task, command: u32, argument: u64) -> Result<u64, Errno> {
        let memory = task.memory();
        let pair = &self.pair;
        match command {
            request::TIOCGPTN => memory.write(argument, &pair.index)?,
            request::TIOCSPTLCK => {
                let is_locked = memory.read::<u32>(argument)? != 0;
                pair.state.lock().is_locked = is_locked;
            }
            request::TIOCGPTLCK => {
                let is_locked = pair.state.lock().is_locked;
                memory.write(argument, &u32::from(is_locked))?;
            }
            request::TIOCPKT => self.set_packet_mode(memory.read::<u32>(argument)?),
            request::TIOCGPKT => {
                let is_packet = pair.state.lock().is_packet;
                memory.write(argument, &u32::from(is_packet))?;
            }
            request::TIOCGPTPEER => return self.open_peer(task, argument as u32),
            request::TIOCSIG => self.signal(argument)?,
            request::FIONREAD => {
                let count = pair.state.lock().output.len().min(READABLE_MAX);
                memory.write(argument, &(count as u32))?;
            }
            request::TCFLSH => self.flush(argument)?,
            request::TCXONC => self.control_flow(argument)?,
            request::TIOCEXCL | request::TIOCNXCL | request::TIOCNOTTY | request::TIOCSTI => {
                return Err(Errno::ENOTTY);
            }
            _ => self.slave.ioctl(task, command, argument, Side::Master)?,
        }
        Ok(0)
    }
    fn set_packet_mode(&self, wanted: u32) {
        let mut state = self.pair.state.lock();
        if wanted != 0 && !state.is_packet {
            state.status = 0;
        }
        state.is_packet = wanted != 0;
    }
    /// Opens the slave regardless of its permissions (`TIOCGPTPEER`).
    fn open_peer(&self, task: &Task, flags: u32) -> Result<u64, Errno> {
        let scope = Scope::of(task);
        let root = self.instance.place(scope.fs().namespace()).ok_or(Errno::ENOENT)?;
        let all = Credentials::root();
        let caller = Caller { credentials: &all, ..scope.caller() };
        let name = format!("{}", self.pair.index);
        let file = caller.open(Base::At(&root), name.as_bytes(), OpenHow::new(flags))?;
        let is_closing = flags & raw::O_CLOEXEC != 0;
        let on_exec = if is_closing { OnExec::Close } else { OnExec::Keep };
        task.files().insert_from(file, 0, task.process.limits.open_files(), on_exec)
    }
    /// Signals the slave's foreground group (`TIOCSIG`).
    fn signal(&self, number: u64) -> Result<(), Errno> {
        let allowed = [signal::SIGINT, signal::SIGQUIT, signal::SIGTSTP];
        let number = u8::try_from(number).ok().filter(|number| allowed.contains(number));
        self.slave.signal_foreground(number.ok_or(Errno::EINVAL)?);
        Ok(())
    }
    /// Does `TCFLSH`: the master's input is the slave's output, its output the bytes that the slave
    /// has not read.
    fn flush(&self, argument: u64) -> Result<(), Errno> {
        let which = u32::try_from(argument).map_err(|_| Errno::EINVAL)?;
        if !matches!(which, raw::TCIFLUSH | raw::TCOFLUSH | raw::TCIOFLUSH) {
            return Err(Errno::EINVAL);
        }
        if which != raw::TCOFLUSH {
            self.pair.state.lock().output.clear();
            self.room_made();
        }
        if which != raw::TCIFLUSH {
            self.slave.flush_arrivals();
        }
        Ok(())
    }
    fn control_flow(&self, argument: u64) -> Result<(), Errno> {
        let character = |index| match self.slave.settings().character(index) {
            0 => {}
            byte => self.slave.bring(&[byte]),
        };
        match u32::try_from(argument).map_err(|_| Errno::EINVAL)? {
            raw::TCOOFF => self.is_stopped.store(true, Ordering::Release),
            raw::TCOON => {
                self.is_stopped.store(false, Ordering::Release);
                self.pair.writable.wake();
            }
            raw::TCIOFF => character(raw::VSTOP),
            raw::TCION => character(raw::VSTART),
            _ => return Err(Errno::EINVAL),
        }
        Ok(())
    }
    /// Called when the slave's output has room again.
    fn room_made(&self) {
        self.slave.started.wake();
        self.slave.process_pending();
    }
    /// Returns the number of bytes that a write accepts now.
    fn write_room(&self) -> usize {
        match self.is_stopped.load(Ordering::Acquire) {
            true => 0,
            false => self.slave.claim_room(),
        }
    }
}

fn wait(queue: &WaitQueue, ticket: Ticket, flags: IoFlags) -> Result<(), Errno> {
    if flags.is_nonblocking {
        return Err(Errno::EAGAIN);
    }
    match queue.wait(ticket, None) {
        Woken::Kicked => Err(Errno::Restart),
        _ => Ok(()),
    }
}

impl File for Master {
    fn label(&self) -> Option<&'static Label> {
        self.slave.label()
    }
    fn read(&self, _: u64, sink: &mut dyn Sink, flags: IoFlags) -> Result<usize, Errno> {
        if sink.remaining() == 0 {
            return Ok(0);
        }
        loop {
            let ticket = self.pair.readable.ticket();
            match self.pair.take(sink.remaining()) {
                Some(Ok(bytes)) => {
                    self.room_made();
                    sink.commit();
                    return sink.put(&bytes);
                }
                Some(Err(SlaveClosed)) => return Err(Errno::EIO),
                None => wait(&self.pair.readable, ticket, flags)?,
            }
        }
    }
    fn write(
        &self,
        _: u64,
        source: &mut dyn Source,
        flags: IoFlags,
    ) -> Result<(usize, u64), Errno> {
        let mut piece = [0; PIECE_BYTES];
        let mut done = 0;
        while source.remaining() > 0 {
            let ticket = self.pair.writable.ticket();
            let room = self.write_room().min(PIECE_BYTES).min(source.remaining());
            let step = match room {
                0 => wait(&self.pair.writable, ticket, flags).map(|()| 0),
                room => source.take_whole(piece.split_at_mut(room).0),
            };
            match step {
                Ok(count) => {
                    self.slave.bring(piece.get(..count).unwrap_or_default());
                    done += count;
                }
                Err(_) if done > 0 => break,
                Err(errno) => return Err(errno),
            }
        }
        Ok((done, 0))
    }
    fn poll(&self, table: Option<&PollTable>, _: &dyn Principal) -> Ready {
        if let Some(table) = table {
            table.add(&self.pair.readable);
            table.add(&self.pair.writable);
        }
        let mut ready = Ready::empty();
        ready.set(Ready::OUT | Ready::WRITE_NORMAL, self.write_room() > 0);
        let state = self.pair.state.lock();
        let has_news = state.is_packet && state.status != 0;
        ready.set(Ready::PRIORITY, has_news);
        ready.set(Ready::IN | Ready::READ_NORMAL, has_news || !state.output.is_empty());
        ready.set(Ready::HANGUP, state.slave == Slave::Closed);
        ready
    }
    fn as_any(&self) -> &dyn core::any::Any {
        self
    }
}

impl Drop for Master {
    fn drop(&mut self) {
        self.instance.remove(self.pair.index);
        self.pair.state.lock().is_master_open = false;
        self.slave.line_gone();
        self.pair.free_if_unused();
    }
}

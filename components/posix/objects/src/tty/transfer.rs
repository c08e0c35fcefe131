//! Reading, writing and polling a terminal.
use super::{job::Background, open::TerminalFile, terminal::Terminal};
use alloc::vec::Vec;
use linux_raw_sys::general as raw;
use rt::{thread::Woken, time::Instant};
use vfs::{
    Errno, Principal,
    file::{File, IoFlags, Ready, SignalSource},
    io::{Sink, Source},
    poll::PollTable,
    security::Label,
};

/// Number of bytes moved between two takings of locks.
const PIECE_BYTES: usize = 1024;
const NS_A_DECISECOND: u64 = 100_000_000;

/// Decides whether a read that has `done` bytes is over (the four cases of VMIN and VTIME).
struct Patience {
    minimum: usize,
    /// Nanoseconds allowed between bytes.
    between_ns: Option<u64>,
    deadline: Option<Instant>,
}

impl Patience {
    fn of(terminal: &Terminal) -> Patience {
        let settings = terminal.settings();
        let (minimum, tenths) = (settings.character(raw::VMIN), settings.character(raw::VTIME));
        let time_ns = u64::from(tenths) * NS_A_DECISECOND;
        if settings.is_canonical() {
            return Patience { minimum: 0, between_ns: None, deadline: None };
        }
        match minimum {
            0 => Patience {
                minimum: 1,
                between_ns: None,
                deadline: Some(rt::time::now().after_ns(time_ns)),
            },
            _ => Patience {
                minimum: usize::from(minimum),
                between_ns: (time_ns > 0).then_some(time_ns),
                deadline: None,
            },
        }
    }
    fn is_over(&self) -> bool {
        self.deadline.is_some_and(|deadline| rt::time::now() >= deadline)
    }
    fn byte_came(&mut self) {
        if let Some(between_ns) = self.between_ns {
            self.deadline = Some(rt::time::now().after_ns(between_ns));
        }
    }
}

impl TerminalFile {
    /// Moves at most one piece of the readable bytes; returns `None` if there are none. The flag says
    /// that the read is over.
    fn read_piece(&self, sink: &mut dyn Sink) -> Option<Result<(usize, bool), Errno>> {
        let mut piece = [0; PIECE_BYTES];
        let wanted = sink.remaining().min(PIECE_BYTES);
        let terminal = &self.terminal;
        let mut input = terminal.input.lock();
        let settings = terminal.settings();
        if input.readable(&settings) == 0 || terminal.is_held() {
            return None;
        }
        let taken = input.take(&settings, piece.split_at_mut(wanted).0);
        let is_canonical = settings.is_canonical();
        let is_over = taken.is_line_end || (is_canonical && input.readable(&settings) == 0);
        drop(input);
        terminal.process_pending();
        sink.commit();
        let mut put = 0;
        while put < taken.count {
            match sink.put(piece.get(put..taken.count).unwrap_or_default()) {
                Ok(0) => break,
                Ok(count) => put += count,
                Err(error) if put == 0 => return Some(Err(error)),
                Err(_) => break,
            }
        }
        Some(Ok((put, is_over || put < taken.count)))
    }
    /// Waits for input; returns `Ok` if the read is to try again.
    fn wait_readable(
        &self,
        ticket: rt::sync::Ticket,
        patience: &Patience,
        flags: IoFlags,
    ) -> Result<(), Errno> {
        if flags.is_nonblocking {
            return Err(Errno::EAGAIN);
        }
        match self.terminal.readable.wait(ticket, patience.deadline) {
            Woken::Kicked => Err(Errno::Restart),
            Woken::Signalled | Woken::TimedOut => Ok(()),
        }
    }
    /// Waits until output may continue and the line has room.
    fn wait_room(&self, flags: IoFlags) -> Result<(), Errno> {
        let terminal = &self.terminal;
        loop {
            let ticket = terminal.started.ticket();
            if self.is_hung_up() {
                return Err(Errno::EIO);
            }
            if terminal.takes_output() || self.console_in_front().is_some() {
                return Ok(());
            }
            if flags.is_nonblocking {
                return Err(Errno::EAGAIN);
            }
            if terminal.started.wait(ticket, None) == Woken::Kicked {
                return Err(Errno::Restart);
            }
        }
    }
    /// Sends one piece. Returns the number of bytes of `source` that were sent. Each writer may send a
    /// line one piece more than it has room for.
    fn write_piece(
        &self,
        source: &mut dyn Source,
        (bytes, flags): (&mut Vec<u8>, IoFlags),
    ) -> Result<usize, Errno> {
        let terminal = &self.terminal;
        let mut piece = [0; PIECE_BYTES];
        let wanted = source.remaining().min(PIECE_BYTES).min(terminal.line.room());
        let count = source.take_whole(piece.split_at_mut(wanted).0)?;
        bytes.clear();
        loop {
            let front = self.console_in_front();
            let terminal = front.as_ref().unwrap_or(terminal);
            let mut output = terminal.output.lock();
            if terminal.is_held() {
                drop(output);
                self.wait_room(flags)?;
                continue;
            }
            output.write(&terminal.settings(), piece.split_at(count).0, bytes);
            return match terminal.line.send(bytes) == bytes.len() {
                true => Ok(count),
                false => Err(Errno::EIO),
            };
        }
    }
}

impl Terminal {
    fn lost_master(&self) -> bool {
        self.line.is_pseudo() && self.is_gone()
    }
    /// Returns whether a write would not wait.
    fn takes_output(&self) -> bool {
        !self.is_stopped() && self.line.room() > 0
    }
}

impl File for TerminalFile {
    fn label(&self) -> Option<&'static Label> {
        self.terminal.label()
    }
    fn signal_source(&self) -> Option<SignalSource<'_>> {
        Some(SignalSource::Readiness)
    }
    fn read(&self, _: u64, sink: &mut dyn Sink, flags: IoFlags) -> Result<usize, Errno> {
        if self.is_hung_up() {
            return Ok(0);
        }
        self.terminal.check_foreground(Background::Read, sink.caller())?;
        let mut patience = Patience::of(&self.terminal);
        let mut done = 0;
        while sink.remaining() > 0 {
            let ticket = self.terminal.readable.ticket();
            match self.read_piece(sink) {
                Some(Ok((count, is_over))) => {
                    done += count;
                    if is_over || done >= patience.minimum && patience.minimum > 0 {
                        break;
                    }
                    patience.byte_came();
                }
                Some(Err(error)) => return if done > 0 { Ok(done) } else { Err(error) },
                // If the master is closed during the wait, the read fails; any other hang-up is the end
                // of the file.
                None if done == 0 && self.is_hung_up() && self.terminal.lost_master() => {
                    return Err(Errno::EIO);
                }
                None if self.is_hung_up() || patience.is_over() => break,
                None => match self.wait_readable(ticket, &patience, flags) {
                    Ok(()) => {}
                    Err(_) if done > 0 => break,
                    Err(error) => return Err(error),
                },
            }
        }
        Ok(done)
    }
    fn write(
        &self,
        _: u64,
        source: &mut dyn Source,
        flags: IoFlags,
    ) -> Result<(usize, u64), Errno> {
        if self.is_hung_up() {
            return Err(Errno::EIO);
        }
        if self.terminal.settings().has_local(raw::TOSTOP) {
            self.terminal.check_foreground(Background::Write, source.caller())?;
        }
        let mut bytes = Vec::with_capacity(source.remaining().min(PIECE_BYTES) * 2);
        let mut done = 0;
        while source.remaining() > 0 {
            let step = self.wait_room(flags);
            let step = step.and_then(|()| self.write_piece(source, (&mut bytes, flags)));
            match step {
                Ok(count) => done += count,
                Err(_) if done > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok((done, 0))
    }
    fn poll(&self, table: Option<&PollTable>, _: &dyn Principal) -> Ready {
        let terminal = &self.terminal;
        if let Some(table) = table {
            table.add(&terminal.readable);
            table.add(&terminal.started);
        }
        if self.is_hung_up() {
            let ready = Ready::IN | Ready::READ_NORMAL | Ready::OUT | Ready::WRITE_NORMAL;
            return ready | Ready::ERROR | Ready::HANGUP;
        }
        let settings = terminal.settings();
        let needs_minimum = !settings.is_canonical() && settings.character(raw::VTIME) == 0;
        let minimum = if needs_minimum { settings.character(raw::VMIN).max(1) } else { 1 };
        let is_held = terminal.is_held();
        let readable = if is_held { 0 } else { terminal.input.lock().readable(&settings) };
        let mut ready = Ready::empty();
        ready.set(Ready::IN | Ready::READ_NORMAL, readable >= usize::from(minimum));
        ready.set(Ready::OUT | Ready::WRITE_NORMAL, terminal.takes_output());
        ready
    }
    fn as_any(&self) -> &dyn core::any::Any {
        self
    }
}

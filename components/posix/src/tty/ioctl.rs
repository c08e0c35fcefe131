//! ioctl(2) of terminals (ioctl_tty(2)).
use super::{
    input::Flow,
    job::{Background, Take},
    terminal::{Terminal, Window},
    termios::{TERMIOS_BYTES, TERMIOS2_BYTES, Termios},
};
use crate::{memory::AddressSpace, process::Task};
use linux_raw_sys::{general as raw, ioctl as request};
use vfs::{Errno, credentials::Capabilities};

/// The three moments at which settings take effect.
#[derive(Clone, Copy, PartialEq, Eq)]
enum When {
    Now,
    Drained,
    DrainedAndFlushed,
}

impl Terminal {
    /// Answers an ioctl.
    ///
    /// # Errors
    /// `ENOTTY` of an unknown request; `EFAULT`, and as ioctl_tty(2).
    pub fn ioctl(&self, task: &Task, command: u32, argument: u64) -> Result<u64, Errno> {
        let memory = task.memory();
        match command {
            request::TCGETS => memory.write_bytes(argument, &self.settings().encode())?,
            request::TCGETS2 => memory.write_bytes(argument, &self.settings().encode2())?,
            request::TCSETS => self.set_from(&memory, argument, When::Now)?,
            request::TCSETSW => self.set_from(&memory, argument, When::Drained)?,
            request::TCSETSF => self.set_from(&memory, argument, When::DrainedAndFlushed)?,
            request::TCSETS2 => self.set_from2(&memory, argument, When::Now)?,
            request::TCSETSW2 => self.set_from2(&memory, argument, When::Drained)?,
            request::TCSETSF2 => self.set_from2(&memory, argument, When::DrainedAndFlushed)?,
            request::TIOCGWINSZ => memory.write(argument, &self.window())?,
            request::TIOCSWINSZ => self.set_window(memory.read::<Window>(argument)?),
            request::TIOCGPGRP => memory.write(argument, &self.foreground_for(task)?)?,
            request::TIOCSPGRP => self.set_foreground(task, memory.read::<i32>(argument)?)?,
            request::TIOCGSID => {
                self.foreground_for(task)?;
                memory.write(argument, &task.process.session().id())?;
            }
            request::TIOCSCTTY => {
                self.acquire(task, if argument == 1 { Take::ByForce } else { Take::IfFree })?
            }
            request::TIOCNOTTY => self.give_up(task)?,
            request::TCFLSH => self.flush(argument)?,
            request::TCXONC => self.control_flow(argument)?,
            request::TCSBRK | request::TCSBRKP => {
                self.check_foreground(Background::Write)?;
                self.port.drain();
            }
            request::FIONREAD => {
                let count = self.input.lock().readable_bytes(&self.settings());
                memory.write(argument, &(count as u32))?;
            }
            request::TIOCOUTQ => memory.write(argument, &0u32)?,
            request::TIOCGETD => memory.write(argument, &0u32)?,
            request::TIOCSETD => set_discipline(memory.read::<u32>(argument)?)?,
            request::TIOCSTI => self.type_for(task, memory.read::<u8>(argument)?)?,
            request::TIOCGDEV => {
                let (major, minor) = self.device;
                memory.write(argument, &(major << 8 | minor))?;
            }
            _ => return Err(Errno::ENOTTY),
        }
        Ok(0)
    }
    fn set_from(&self, memory: &AddressSpace, argument: u64, when: When) -> Result<(), Errno> {
        self.check_foreground(Background::Write)?;
        let mut bytes = [0; TERMIOS_BYTES];
        memory.read_bytes(argument, &mut bytes)?;
        self.set_when(Termios::decode(&bytes), when);
        Ok(())
    }
    fn set_from2(&self, memory: &AddressSpace, argument: u64, when: When) -> Result<(), Errno> {
        self.check_foreground(Background::Write)?;
        let mut bytes = [0; TERMIOS2_BYTES];
        memory.read_bytes(argument, &mut bytes)?;
        self.set_when(Termios::decode2(&bytes), when);
        Ok(())
    }
    fn set_when(&self, settings: Termios, when: When) {
        if when != When::Now {
            self.port.drain();
        }
        if when == When::DrainedAndFlushed {
            self.flush_input();
        }
        self.set_settings(Termios { line: self.settings().line, ..settings });
    }
    /// `TCFLSH`. Output is never kept here, so only input can be thrown away.
    fn flush(&self, argument: u64) -> Result<(), Errno> {
        self.check_foreground(Background::Write)?;
        match u32::try_from(argument).map_err(|_| Errno::EINVAL)? {
            raw::TCIFLUSH | raw::TCIOFLUSH => self.flush_input(),
            raw::TCOFLUSH => {}
            _ => return Err(Errno::EINVAL),
        }
        Ok(())
    }
    fn control_flow(&self, argument: u64) -> Result<(), Errno> {
        self.check_foreground(Background::Write)?;
        let character = |index| [self.settings().character(index)];
        match u32::try_from(argument).map_err(|_| Errno::EINVAL)? {
            raw::TCOOFF => self.set_flow(Flow::Stop),
            raw::TCOON => self.set_flow(Flow::Start),
            raw::TCIOFF => drop(self.port.send(&character(raw::VSTOP))),
            raw::TCION => drop(self.port.send(&character(raw::VSTART))),
            _ => return Err(Errno::EINVAL),
        }
        Ok(())
    }
    fn type_for(&self, task: &Task, byte: u8) -> Result<(), Errno> {
        if !self.is_controlling(task) && !task.credentials().has(Capabilities::SYS_ADMIN) {
            return Err(Errno::EPERM);
        }
        self.simulate(byte);
        Ok(())
    }
}

/// Only `N_TTY` is there.
fn set_discipline(number: u32) -> Result<(), Errno> {
    if number == 0 { Ok(()) } else { Err(Errno::EINVAL) }
}

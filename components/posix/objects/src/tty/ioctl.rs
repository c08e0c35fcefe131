//! ioctl(2) of terminals (ioctl_tty(2)), except for the settings ([`super::settings`]).
use super::{
    input::Flow,
    job::{Background, Side, Take},
    open::TerminalFile,
    terminal::{Terminal, WindowSize},
};
use linux_raw_sys::{general as raw, ioctl as request};
use process::Task;
use rt::thread::Woken;
use vfs::{Errno, credentials::Capabilities};

impl TerminalFile {
    /// Answers an ioctl.
    ///
    /// # Errors
    /// `ENOTTY` for an unknown request, `EIO` after a hang-up; `EFAULT`, and those of ioctl_tty(2).
    pub fn ioctl(&self, task: &Task, command: u32, argument: u64) -> Result<u64, Errno> {
        let terminal = &self.terminal;
        let memory = task.memory();
        if terminal.is_held() {
            self.wait_to_change(command)?;
        }
        if self.is_hung_up() {
            let is_group = command == request::TIOCSPGRP;
            return Err(if is_group { Errno::ENOTTY } else { Errno::EIO });
        }
        match command {
            request::TIOCNOTTY => terminal.give_up(task)?,
            request::TCFLSH => terminal.flush(task, argument)?,
            request::TCXONC => terminal.control_flow(task, argument)?,
            request::FIONREAD => {
                let count = terminal.input.lock().readable_bytes(&terminal.settings());
                memory.write(argument, &(count as u32))?;
            }
            request::TIOCSTI => terminal.type_for(task, memory.read::<u8>(argument)?)?,
            _ => terminal.ioctl(task, command, argument, Side::Terminal)?,
        }
        Ok(0)
    }
}

/// The requests that change nothing, and are answered while the terminal is held.
const QUERIES: [u32; 13] = [
    request::TCGETS,
    request::TCGETS2,
    request::TCGETA,
    request::TIOCGLCKTRMIOS,
    request::TIOCGSOFTCAR,
    request::TIOCGWINSZ,
    request::TIOCGPGRP,
    request::TIOCGSID,
    request::TIOCOUTQ,
    request::FIONREAD,
    request::TIOCGETD,
    request::TIOCGDEV,
    request::TIOCGEXCL,
];

impl TerminalFile {
    /// Waits while the terminal is held, for a request that may change it.
    fn wait_to_change(&self, command: u32) -> Result<(), Errno> {
        let terminal = &self.terminal;
        loop {
            let ticket = terminal.started.ticket();
            if QUERIES.contains(&command) || !terminal.is_held() || self.is_hung_up() {
                return Ok(());
            }
            if terminal.started.wait(ticket, None) == Woken::Kicked {
                return Err(Errno::Restart);
            }
        }
    }
}

impl Terminal {
    /// Answers the requests that are the same for both ends of a pty.
    pub(super) fn ioctl(
        &self,
        task: &Task,
        command: u32,
        argument: u64,
        side: Side,
    ) -> Result<(), Errno> {
        let memory = task.memory();
        match command {
            request::TIOCGWINSZ => memory.write(argument, &self.window())?,
            request::TIOCSWINSZ => self.set_window(memory.read::<WindowSize>(argument)?),
            request::TIOCGPGRP => memory.write(argument, &self.foreground_for(task, side)?)?,
            request::TIOCSPGRP => self.set_foreground(task, || memory.read(argument))?,
            request::TIOCGSID => memory.write(argument, &self.session_for(task, side)?)?,
            request::TIOCSCTTY => {
                self.acquire(task, if argument == 1 { Take::ByForce } else { Take::IfFree })?;
            }
            request::TCSBRK | request::TCSBRKP | request::TIOCSBRK => {
                self.check_foreground(Background::Write, task)?;
                self.line.drain();
            }
            request::TIOCCBRK => self.check_foreground(Background::Write, task)?,
            // The other side has received all output.
            request::TIOCOUTQ | request::TIOCGETD => memory.write(argument, &0u32)?,
            request::TIOCSETD => {
                self.check_foreground(Background::Write, task)?;
                set_discipline(memory.read::<u32>(argument)?)?;
            }
            request::TIOCGDEV => memory.write(argument, &encode(self.device))?,
            request::TIOCEXCL => self.life.lock().is_exclusive = true,
            request::TIOCNXCL => self.life.lock().is_exclusive = false,
            request::TIOCGEXCL => {
                let is_exclusive = self.life.lock().is_exclusive;
                memory.write(argument, &u32::from(is_exclusive))?;
            }
            request::TIOCVHANGUP => {
                if !task.credentials().has(Capabilities::SYS_ADMIN) {
                    return Err(Errno::EPERM);
                }
                self.hang_up();
            }
            _ => self.ioctl_settings(task, command, argument)?,
        }
        Ok(())
    }
    /// Does `TCFLSH`.
    fn flush(&self, task: &Task, argument: u64) -> Result<(), Errno> {
        self.check_foreground(Background::Write, task)?;
        match u32::try_from(argument).map_err(|_| Errno::EINVAL)? {
            raw::TCIFLUSH => self.flush_input(),
            raw::TCOFLUSH => self.flush_output(),
            raw::TCIOFLUSH => {
                self.flush_input();
                self.flush_output();
            }
            _ => return Err(Errno::EINVAL),
        }
        Ok(())
    }
    fn control_flow(&self, task: &Task, argument: u64) -> Result<(), Errno> {
        self.check_foreground(Background::Write, task)?;
        match u32::try_from(argument).map_err(|_| Errno::EINVAL)? {
            raw::TCOOFF => self.set_flow_by_call(Flow::Stop),
            raw::TCOON => {
                self.set_flow_by_call(Flow::Start);
                self.process_pending();
            }
            raw::TCIOFF => self.send_character(raw::VSTOP),
            raw::TCION => self.send_character(raw::VSTART),
            _ => return Err(Errno::EINVAL),
        }
        Ok(())
    }
    /// Sends a flow character to the other side, unless it is disabled.
    fn send_character(&self, index: u32) {
        let byte = self.settings().character(index);
        if byte != 0 {
            let _order = self.output.lock();
            if !self.is_held() {
                self.line.send(&[byte]);
            }
        }
    }
    fn type_for(&self, task: &Task, byte: u8) -> Result<(), Errno> {
        if !self.is_controlling(task) && !task.credentials().has(Capabilities::SYS_ADMIN) {
            return Err(Errno::EPERM);
        }
        self.simulate(byte);
        Ok(())
    }
}

/// Encodes a device number in the kernel's format of 32 bits.
fn encode((major, minor): (u32, u32)) -> u32 {
    (minor & 0xff) | major << 8 | (minor & !0xff) << 12
}

/// Sets the line discipline; only `N_TTY` exists.
fn set_discipline(number: u32) -> Result<(), Errno> {
    if number == 0 { Ok(()) } else { Err(Errno::EINVAL) }
}

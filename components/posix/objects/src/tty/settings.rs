//! The ioctls that read and change settings, in their four layouts (termios(3), ioctl_tty(2)).
use super::{
    job::Background,
    terminal::Terminal,
    termios::{TERMIO_BYTES, TERMIOS_BYTES, TERMIOS2_BYTES, Termios},
};
use linux_raw_sys::{general as raw, ioctl as request};
use memory::AddressSpace;
use process::Task;
use vfs::{Errno, credentials::Capabilities};

/// The three moments at which settings take effect.
#[derive(Clone, Copy, PartialEq, Eq)]
enum When {
    Now,
    Drained,
    DrainedAndFlushed,
}

/// Layout of settings in a program's memory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SettingsLayout {
    Termios,
    Termios2,
    Termio,
}

/// Returns layout and time of a request that sets settings.
fn decode_set(command: u32) -> Option<(SettingsLayout, When)> {
    Some(match command {
        request::TCSETS => (SettingsLayout::Termios, When::Now),
        request::TCSETSW => (SettingsLayout::Termios, When::Drained),
        request::TCSETSF => (SettingsLayout::Termios, When::DrainedAndFlushed),
        request::TCSETS2 => (SettingsLayout::Termios2, When::Now),
        request::TCSETSW2 => (SettingsLayout::Termios2, When::Drained),
        request::TCSETSF2 => (SettingsLayout::Termios2, When::DrainedAndFlushed),
        request::TCSETA => (SettingsLayout::Termio, When::Now),
        request::TCSETAW => (SettingsLayout::Termio, When::Drained),
        request::TCSETAF => (SettingsLayout::Termio, When::DrainedAndFlushed),
        _ => return None,
    })
}

impl Terminal {
    /// Answers a request about settings.
    ///
    /// # Errors
    /// `ENOTTY` for another request, `EFAULT`, and those of [`Terminal::check_foreground`].
    pub(super) fn ioctl_settings(
        &self,
        task: &Task,
        command: u32,
        argument: u64,
    ) -> Result<(), Errno> {
        let memory = task.memory();
        if let Some((layout, when)) = decode_set(command) {
            self.check_foreground(Background::Write, task)?;
            self.set_when(self.read_settings(&memory, argument, layout)?, when);
            return Ok(());
        }
        let settings = self.settings();
        match command {
            request::TCGETS => memory.write_bytes(argument, &settings.encode())?,
            request::TCGETS2 => memory.write_bytes(argument, &settings.encode2())?,
            request::TCGETA => memory.write_bytes(argument, &settings.encode_termio())?,
            request::TIOCGLCKTRMIOS => {
                let locked = *self.locked.lock();
                memory.write_bytes(argument, &locked.encode())?;
            }
            request::TIOCSLCKTRMIOS => {
                if !task.credentials().has(Capabilities::SYS_ADMIN) {
                    return Err(Errno::EPERM);
                }
                let locked = self.read_settings(&memory, argument, SettingsLayout::Termios)?;
                *self.locked.lock() = locked;
            }
            request::TIOCGSOFTCAR => {
                memory.write(argument, &u32::from(settings.control & raw::CLOCAL != 0))?;
            }
            request::TIOCSSOFTCAR => {
                let wanted = memory.read::<u32>(argument)?;
                let rest = settings.control & !raw::CLOCAL;
                let control = if wanted == 0 { rest } else { rest | raw::CLOCAL };
                self.set_settings(Termios { control, ..settings });
            }
            _ => return Err(Errno::ENOTTY),
        }
        Ok(())
    }
    fn read_settings(
        &self,
        memory: &AddressSpace,
        from: u64,
        layout: SettingsLayout,
    ) -> Result<Termios, Errno> {
        Ok(match layout {
            SettingsLayout::Termios => Termios::decode(&memory.read::<[u8; TERMIOS_BYTES]>(from)?),
            SettingsLayout::Termios2 => {
                Termios::decode2(&memory.read::<[u8; TERMIOS2_BYTES]>(from)?)
            }
            SettingsLayout::Termio => {
                self.settings().overlay_termio(&memory.read::<[u8; TERMIO_BYTES]>(from)?)
            }
        })
    }
    fn set_when(&self, settings: Termios, when: When) {
        if when != When::Now {
            self.line.drain();
        }
        if when == When::DrainedAndFlushed {
            self.flush_input();
        }
        self.set_settings(Termios { line: self.settings().line, ..settings });
    }
}

//! Opening terminals: by their own number, as `/dev/tty` and as `/dev/console`.
use super::ALTERNATE_MAJOR;
use crate::{process, tty::Terminal};
use alloc::{sync::Arc, vec::Vec};
use linux_raw_sys::general as raw;
use vfs::{
    Errno, Vnode,
    devices::Registry,
    file::{File, Opener},
};

/// Minor number of `/dev/tty`, the caller's controlling terminal.
pub const CONTROLLING: u32 = 0;
/// Minor number of `/dev/console`.
pub const CONSOLE: u32 = 1;

/// Registers `terminals`; the first is the console.
pub fn register(registry: &Registry, terminals: &[Arc<Terminal>]) {
    let opener = Arc::new(Terminals(terminals.to_vec()));
    registry.register_character(ALTERNATE_MAJOR, CONTROLLING..=CONSOLE, opener.clone());
    for terminal in terminals {
        let (major, minor) = terminal.number();
        registry.register_character(major, minor..=minor, opener.clone());
    }
}

struct Terminals(Vec<Arc<Terminal>>);

impl Opener for Terminals {
    fn open(&self, vnode: &Arc<Vnode>, flags: u32) -> Result<Arc<dyn File>, Errno> {
        match vnode.device() {
            (ALTERNATE_MAJOR, CONTROLLING) => controlling(),
            // As on Linux, the console never becomes a controlling terminal by being opened.
            (ALTERNATE_MAJOR, CONSOLE) => {
                let console = self.0.first().ok_or(Errno::ENODEV)?;
                console.opened(flags | raw::O_NOCTTY)?;
                Ok(console.clone())
            }
            number => {
                let found = self.0.iter().find(|terminal| terminal.number() == number);
                let terminal = found.ok_or(Errno::ENXIO)?;
                terminal.opened(flags)?;
                Ok(terminal.clone())
            }
        }
    }
}

fn controlling() -> Result<Arc<dyn File>, Errno> {
    let task = process::current().ok_or(Errno::ENXIO)?;
    let terminal = task.process.session().terminal().ok_or(Errno::ENXIO)?;
    let terminal = terminal.as_any().downcast_ref::<Terminal>().and_then(Terminal::shared);
    Ok(terminal.ok_or(Errno::ENXIO)?)
}

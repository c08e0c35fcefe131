//! Opening terminals: by their own number, as `/dev/tty` and as `/dev/console`.
use super::ALTERNATE_MAJOR;
use crate::tty::{Claim, Terminal, TerminalDevice, pty::devpts};
use alloc::{sync::Arc, vec::Vec};
use process::Task;
use vfs::{
    Caller, Errno, Principal, Vnode,
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
    let (major, minor) = devpts::MULTIPLEXER;
    registry.register_character(major, minor..=minor, Arc::new(devpts::Multiplexer));
    registry.register_character(devpts::SLAVE_MAJOR, 0..=u32::MAX, Arc::new(devpts::Strayed));
    for terminal in terminals {
        let (major, minor) = terminal.number();
        registry.register_character(major, minor..=minor, opener.clone());
    }
}

struct Terminals(Vec<Arc<Terminal>>);

impl Opener for Terminals {
    fn open(
        &self,
        vnode: &Arc<Vnode>,
        flags: u32,
        caller: &Caller<'_>,
    ) -> Result<Arc<dyn File>, Errno> {
        let (terminal, claim) = match vnode.device() {
            (ALTERNATE_MAJOR, CONTROLLING) => {
                let own = controlling(caller.task)?;
                own.check_use(caller.task)?;
                (own, Claim::Never)
            }
            // As on Linux, opening the console never makes it a controlling terminal.
            (ALTERNATE_MAJOR, CONSOLE) => {
                (self.0.first().cloned().ok_or(Errno::ENODEV)?, Claim::Console)
            }
            number => {
                // Sessions in front of another one have a terminal with the same number.
                let own = controlling(caller.task).ok().filter(|own| own.number() == number);
                let first = || self.0.iter().find(|terminal| terminal.number() == number).cloned();
                let terminal = own.or_else(first).ok_or(Errno::ENXIO)?;
                terminal.note_device(TerminalDevice::Node(Arc::downgrade(vnode)));
                (terminal, Claim::IfFree)
            }
        };
        Ok(Arc::new(terminal.open(flags, claim, caller.task)?))
    }
}

/// Returns the controlling terminal of `caller`.
fn controlling(caller: &dyn Principal) -> Result<Arc<Terminal>, Errno> {
    let task = Task::of(caller).ok_or(Errno::ENXIO)?;
    let terminal = task.process.terminal().ok_or(Errno::ENXIO)?;
    let terminal = terminal.as_any().downcast_ref::<Terminal>().and_then(Terminal::shared);
    terminal.ok_or(Errno::ENXIO)
}

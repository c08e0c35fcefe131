//! The start of the personality: from block devices, ports and file systems to a running session,
//! and down again when the session has ended.
//!
//! [`start`] is called once by whoever wired the components. Kernel parameters: `root=` (a disk's
//! name, the first if absent), `init=` (another program than the shell), `skerry.exec` (a session on
//! named ports instead of the terminal: [`session`]), `skerry.rows`, `skerry.columns`.
mod control;
mod mounts;
mod session;

use alloc::{string::String, sync::Arc, vec::Vec};
use core::convert::Infallible;
use interfaces::{
    block::Block,
    clock::Clock,
    file_system::{FileSystem, FsError},
    terminal::Port,
};
use rt::power::{self, Action};

/// Makes a mounted file system of one type from a disk (if the type has one) and mount options.
pub type MakeFileSystem = fn(Option<Arc<dyn Block>>, &[u8]) -> Result<Arc<dyn FileSystem>, FsError>;

/// What the personality is started with.
pub struct Boot {
    /// Disks, in order of discovery.
    pub disks: Vec<Arc<dyn Block>>,
    /// Byte streams: terminals and the session's.
    pub ports: Vec<Arc<dyn Port>>,
    /// The clock that runs while the machine is off.
    pub clock: Option<Arc<dyn Clock>>,
    /// File systems by type name.
    pub file_systems: Vec<(&'static str, MakeFileSystem)>,
}

/// Runs the system until its session ends or a program asks for the end, then takes the machine down.
///
/// # Errors
/// Why it could not start; the caller stops the machine with these words.
pub fn start(boot: Boot) -> Result<Infallible, String> {
    if let Some(ns) = boot.clock.as_ref().and_then(|clock| clock.read_ns()) {
        rt::time::set_wall_ns(ns);
        crate::exec::vdso::update();
    }
    power::down(run(&boot)?)
}

fn run(boot: &Boot) -> Result<Action, String> {
    let session = session::Session::prepare(&boot.ports)?;
    let namespace = mounts::mount_all(boot, session.console())?;
    session.run(namespace)
}

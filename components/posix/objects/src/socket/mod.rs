//! Sockets (socket(7)): [`Socket`] is what programs can do with one, whatever its family; [`local`] is AF_UNIX.
//!
//! ```text
//! system calls (crate syscall): descriptors, copies of addresses, options of SOL_SOCKET
//!        | of()
//! interface::Socket, common::SocketCommon
//!        |
//! local::LocalSocket
//! ```
pub mod common;
pub mod interface;
pub mod local;

pub use common::SocketCommon;
pub use interface::{Shut, Socket, SocketAddress, SocketKind};

use vfs::OpenFile;

/// Returns the socket that `file` is open for; `None` if it is open for something else.
pub fn of(file: &OpenFile) -> Option<&dyn Socket> {
    let local = file.file().as_any().downcast_ref::<local::LocalSocket>();
    local.map(|socket| socket as &dyn Socket)
}

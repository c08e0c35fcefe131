//! Sockets (socket(7)): [`Socket`] is what programs can do with one, whatever its family; [`local`] is AF_UNIX, [`internet`]
//! AF_INET and AF_INET6, [`netlink`] AF_NETLINK, and [`packet`] AF_PACKET.
//!
//! ```text
//! system calls (crate syscall): descriptors, copies of addresses, options of SOL_SOCKET
//!        | of()
//! interface::Socket, common::SocketCommon
//!        |                     |
//! local::LocalSocket    internet::InternetStream, internet::InternetDatagram
//! ```
pub mod common;
pub mod interface;
pub mod internet;
pub mod local;
pub mod netlink;
mod option_input;
pub mod packet;

pub use common::SocketCommon;
pub use interface::{Shut, Socket, SocketAddress, SocketKind};

use vfs::OpenFile;

/// Returns the socket that `file` is open for; `None` if it is open for something else.
pub fn of(file: &OpenFile) -> Option<&dyn Socket> {
    let any = file.file().as_any();
    if let Some(socket) = any.downcast_ref::<local::LocalSocket>() {
        return Some(socket);
    }
    if let Some(socket) = any.downcast_ref::<internet::InternetStream>() {
        return Some(socket);
    }
    if let Some(socket) = any.downcast_ref::<internet::InternetDatagram>() {
        return Some(socket);
    }
    if let Some(socket) = any.downcast_ref::<netlink::NetlinkSocket>() {
        return Some(socket);
    }
    any.downcast_ref::<packet::PacketSocket>().map(|socket| socket as &dyn Socket)
}

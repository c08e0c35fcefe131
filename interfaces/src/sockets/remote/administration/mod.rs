//! [`NetworkAdministration`](crate::sockets::NetworkAdministration) by message: [`RemoteAdministration`] is the client,
//! [`AdministrationService`] the server.
//!
//! Lists are read again at the successor of a stack that died, and so are changes that have the same effect when they are made
//! twice. Any other change ends with `Restarted` (`EIO`) if it may have been made.
//!
//! Notices of changes are numbered from 1 by the server and posted to the client as bytes, one after the other. The answer to a
//! change tells the number of the last one, and the client waits until its observers have heard of that.
mod client;
#[cfg(any(not(target_os = "none"), skerry_process))]
mod server;
#[cfg(test)]
mod tests;

pub use client::RemoteAdministration;
#[cfg(any(not(target_os = "none"), skerry_process))]
pub use server::AdministrationService;

use crate::{
    marshal::Marshal,
    sockets::{
        AdministrationError, NetworkChange, NetworkNotice, NetworkParameter, RouteQuery,
        SocketProtocol,
    },
};
use alloc::vec::Vec;

/// A call of the administration. The answer is the result of the method of the same name.
#[derive(Debug, Marshal)]
enum AdministrationRequest {
    Links,
    Addresses,
    Routes,
    Tables,
    Rules,
    Neighbours,
    Memberships,
    Change(NetworkChange),
    RouteTo(RouteQuery),
    Sockets(SocketProtocol),
    Counters,
    Drops,
    Parameter(NetworkParameter),
    SetParameter(NetworkParameter, Vec<i64>),
}

/// The answer to a change.
#[derive(Debug, Marshal)]
struct ChangeAnswer {
    result: Result<(), AdministrationError>,
    /// The number of the last notice that was posted.
    last_notice: u64,
}

/// A notice on its way.
#[derive(Debug, Marshal)]
struct NumberedNotice {
    number: u64,
    notice: NetworkNotice,
}

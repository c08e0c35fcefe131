//! Character devices beneath terminals and sessions: console ports, UARTs.
//!
//! If driver and client live in different worlds, the client has a [`PortProxy`] and the driver a [`PortService`]. They
//! exchange messages ([`PortControl`]) and share two rings of bytes.
mod control;
mod entries;
mod remote;
mod server;
mod state;
#[cfg(test)]
mod tests;

pub use control::*;
pub use remote::PortProxy;
pub use server::PortService;

use alloc::{string::String, sync::Arc};
use interfaces_macro::interface;

/// The client's side, called on the driver's thread.
#[interface(direct)]
pub trait PortSink: Send + Sync {
    /// Bytes came in. Returns how many were taken; the driver keeps the rest and offers them again
    /// after [`Port::resume`].
    fn received(&self, bytes: &[u8]) -> usize;
    /// The other end closed (end of file) or opened.
    fn connected(&self, is_open: bool);
    /// The other end's window changed.
    fn resized(&self, rows: u16, columns: u16);
}

/// A port whose driver may die and be succeeded: of each byte it is known on which side it is.
///
/// Data between a driver and its device stands in memory that outlives the driver ([`rt::device::kept`]),
/// so that its successor goes on where it stopped.
pub trait Resumable: Port {
    /// A client begins that stands at `position`. Input that it has is not offered again. Returns the position of
    /// output: what the device has of it. No sink is set, and nobody sends, meanwhile.
    fn pick_up(&self, position: Position) -> u64;
    /// Blocks until the device has all that was sent.
    fn settle(&self);
}

/// One byte stream in and out.
#[interface(direct)]
pub trait Port: Send + Sync {
    /// Name given by the host (`skerry.stdin`) or the driver (`hvc0`, `ttyS0`).
    fn name(&self) -> String;
    /// Is a console (a terminal's line discipline belongs over it).
    fn is_console(&self) -> bool;
    /// Sends bytes, in order; blocks while the device is full. Returns the number sent, less than
    /// all only if the other end is gone; the rest is nobody's then.
    fn send(&self, bytes: &[u8]) -> usize;
    /// Blocks until everything sent was taken by the device.
    fn drain(&self);
    /// The receiver of input. Input before that is kept.
    fn set_sink(&self, sink: Arc<dyn PortSink>);
    /// The sink has room again.
    fn resume(&self);
}

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

/// The receiver of a port's input, on the client's side. It is called on the driver's thread.
#[interface(direct)]
pub trait PortSink: Send + Sync {
    /// Takes input. Returns the number of bytes taken. The driver keeps the rest and offers it again after
    /// [`Port::resume`].
    fn received(&self, bytes: &[u8]) -> usize;
    /// The other end was closed (end of file) or opened.
    fn connected(&self, is_open: bool);
    /// The other end's window changed its size.
    fn resized(&self, rows: u16, columns: u16);
    /// A break came on a serial line, not later than the bytes that were sent behind it.
    fn broke(&self) {}
}

/// A port whose driver, and whose client, may die and be succeeded: it is known of each byte whether the device has it.
///
/// Data between a driver and its device is in memory that outlives the driver ([`rt::device::kept`]), so the
/// successor continues where the driver stopped.
pub trait Resumable: Port {
    /// Continues for a client at `position`. Input that the client has is not offered again. Returns the position of
    /// output up to which the device has it. During the call no sink is set and no thread sends.
    fn pick_up(&self, position: Position) -> u64;
    /// Returns the position behind the bytes that earlier clients took and sent. During the call no sink is set and no thread
    /// sends.
    fn position(&self) -> Position;
    /// Blocks until the device has all output that was sent.
    fn settle(&self);
}

/// A device with one byte stream in and one out.
#[interface(direct)]
pub trait Port: Send + Sync {
    /// Returns the name given by the host (`skerry.stdin`) or the driver (`hvc0`, `ttyS0`).
    fn name(&self) -> String;
    /// Returns whether the port is a console, which gets a terminal's line discipline.
    fn is_console(&self) -> bool;
    /// Sends bytes, in order. Blocks while the device is full. Returns the number sent, which is less than all only if
    /// the other end is gone; the rest is lost then.
    fn send(&self, bytes: &[u8]) -> usize;
    /// Blocks until the device has sent all output.
    fn drain(&self);
    /// Sets the receiver of input. Earlier input is kept for it.
    fn set_sink(&self, sink: Arc<dyn PortSink>);
    /// Tells the port that the sink has room again.
    fn resume(&self);
}

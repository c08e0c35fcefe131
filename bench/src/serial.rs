//! The protocol of `ports` and the task that it asks by message (`tests/nucleus/src/costs/ports.rs`), and the serial port.

/// The first port of the second serial port of a PC, and how many it has.
pub const PORTS: (u16, u16) = (0x2f8, 8);
/// Bytes of a string, accesses of a list: what its FIFOs hold.
pub const STRING: usize = 16;
/// Offsets and values that set it up: 8 bits, FIFOs empty and on, no interrupts, what is sent comes back.
pub const SET_UP: [(u16, u8); 4] = [(3, 3), (1, 0), (2, 7), (4, 0x10)];
/// The upper part of a long above the byte to be sent: no interrupts, FIFOs on, 8 bits.
pub const LONG: u32 = 0x0301_0000;

/// The label of a message to the task.
#[derive(Clone, Copy, Debug)]
#[repr(u64)]
pub enum Request {
    /// () -> (by which way the ports are accessed: 1 by message, else as `rt` does).
    Way = 0,
    /// (step) -> (value).
    One = 1,
    /// (step, 16 bytes in two words) -> (step, 16 bytes): each to or from the port of the step.
    String = 2,
    /// (steps) -> (steps).
    List = 3,
}

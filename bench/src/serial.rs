//! The serial port, and the protocol between `ports` and the task that it asks by message
//! (`tests/nucleus/src/costs/ports.rs`).

/// The second serial port of a PC: first I/O port, and number of ports.
pub const PORTS: (u16, u16) = (0x2f8, 8);
/// Bytes of a string, and accesses of a list: the size of the chip's FIFOs.
pub const STRING: usize = 16;
/// Offsets and values that set the chip up: 8 bits, FIFOs empty and enabled, no interrupts, loopback.
pub const SET_UP: [(u16, u8); 4] = [(3, 3), (1, 0), (2, 7), (4, 0x10)];
/// Upper part of a long above the byte to be sent: no interrupts, FIFOs on, 8 bits.
pub const LONG: u32 = 0x0301_0000;

/// The label of a message to the task.
#[derive(Clone, Copy, Debug)]
#[repr(u64)]
pub enum Request {
    /// () -> (way: 1 by message, else as `rt` does): asks how the ports are accessed.
    Way = 0,
    /// (step) -> (value): does one access.
    One = 1,
    /// (step, 16 bytes in two words) -> (step, 16 bytes): moves each byte to or from the port of the step.
    String = 2,
    /// (steps) -> (steps): does a list of accesses.
    List = 3,
}

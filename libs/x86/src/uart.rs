//! The 16550 UART: its registers, as offsets from its first port (National Semiconductor PC16550D data sheet).

/// First port of the first serial port of a PC.
pub const COM1: u16 = 0x3f8;
/// Line status register.
pub const LINE_STATUS: u16 = 5;
/// Scratch register, which a missing chip does not have.
pub const SCRATCH: u16 = 7;
/// Bytes of the transmitter's FIFO.
pub const FIFO_BYTES: usize = 16;
/// Bit of the line status: the transmitter is empty.
pub const TRANSMITTER_EMPTY: u8 = 0x20;

/// The writes that set the chip up: no interrupts, 115,200 baud, 8 bits, no parity, FIFOs on and empty.
pub const SET_UP: [(u16, u8); 6] = {
    const DIVISOR_LOW: u16 = 0;
    const INTERRUPT_ENABLE: u16 = 1;
    const DIVISOR_HIGH: u16 = 1;
    const FIFO_CONTROL: u16 = 2;
    const LINE_CONTROL: u16 = 3;
    [
        (INTERRUPT_ENABLE, 0),
        (LINE_CONTROL, 0x80),
        (DIVISOR_LOW, 1),
        (DIVISOR_HIGH, 0),
        (LINE_CONTROL, 3),
        (FIFO_CONTROL, 7),
    ]
};

//! Terminal settings: [`Termios`] and its two layouts in programs (`TCGETS`, `TCGETS2`).
//!
//! Source: termios(3), Linux `asm-generic/termbits.h`. Layouts (little-endian):
//!
//! ```text
//! 0       4       8       12      16     17            36       40       44
//! | iflag | oflag | cflag | lflag | line | c_cc[19]    | ispeed | ospeed |
//! |<-------------- struct termios, 36 bytes --------->|  (termios2: 44 bytes)
//! ```
use linux_raw_sys::general as raw;

/// Bytes of `struct termios` for `TCGETS`.
pub const TERMIOS_BYTES: usize = 36;
/// Bytes of `struct termios2` for `TCGETS2`.
pub const TERMIOS2_BYTES: usize = 44;
/// Bytes of `struct termio` for `TCGETA`.
pub const TERMIO_BYTES: usize = 18;
/// Number of control characters in `struct termio`.
const TERMIO_CHARACTERS: usize = raw::NCC as usize;
/// Number of control characters.
pub const CONTROL_CHARACTERS: usize = raw::NCCS as usize;

/// Speed of a fresh terminal, baud.
const SPEED: u32 = 38400;

/// The settings of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Termios {
    /// Input modes (`ICRNL` ...).
    pub input: u32,
    /// Output modes (`OPOST` ...).
    pub output: u32,
    /// Line settings (`CS8`, `CREAD` ...).
    pub control: u32,
    /// Local modes (`ICANON`, `ECHO`, `ISIG` ...).
    pub local: u32,
    /// Number of the line discipline; only 0 (`N_TTY`) exists.
    pub line: u8,
    /// Control characters, by `VINTR` ...; 0 disables.
    pub characters: [u8; CONTROL_CHARACTERS],
    /// Input speed in baud.
    pub input_speed: u32,
    /// Output speed in baud.
    pub output_speed: u32,
}

impl Default for Termios {
    /// Returns the settings of a fresh terminal on Linux (`tty_std_termios`).
    fn default() -> Termios {
        let mut characters = [0; CONTROL_CHARACTERS];
        let initial =
            [3, 0x1c, 0x7f, 0x15, 4, 0, 1, 0, 0x11, 0x13, 0x1a, 0, 0x12, 0x0f, 0x17, 0x16];
        for (slot, value) in characters.iter_mut().zip(initial) {
            *slot = value;
        }
        Termios {
            input: raw::ICRNL | raw::IXON,
            output: raw::OPOST | raw::ONLCR,
            control: raw::B38400 | raw::CS8 | raw::CREAD | raw::HUPCL,
            local: raw::ISIG
                | raw::ICANON
                | raw::ECHO
                | raw::ECHOE
                | raw::ECHOK
                | raw::ECHOCTL
                | raw::ECHOKE
                | raw::IEXTEN,
            line: 0,
            characters,
            input_speed: SPEED,
            output_speed: SPEED,
        }
    }
}

impl Termios {
    /// Makes the lock that keeps no setting (`TIOCGLCKTRMIOS`).
    pub fn unlocked() -> Termios {
        Termios {
            input: 0,
            output: 0,
            control: 0,
            local: 0,
            line: 0,
            characters: [0; CONTROL_CHARACTERS],
            input_speed: 0,
            output_speed: 0,
        }
    }
    /// Returns these settings with those of `old` wherever `locked` has a bit set, or a character
    /// that is not 0.
    pub fn with_locked(self, locked: &Termios, old: &Termios) -> Termios {
        let keep = |new: u32, old: u32, locked: u32| new & !locked | old & locked;
        let mut characters = self.characters;
        for ((new, old), locked) in characters.iter_mut().zip(old.characters).zip(locked.characters)
        {
            *new = if locked == 0 { *new } else { old };
        }
        Termios {
            input: keep(self.input, old.input, locked.input),
            output: keep(self.output, old.output, locked.output),
            control: keep(self.control, old.control, locked.control),
            local: keep(self.local, old.local, locked.local),
            line: if locked.line == 0 { self.line } else { old.line },
            characters,
            ..self
        }
    }
    /// Returns whether an input mode is on.
    pub fn has_input(&self, flag: u32) -> bool {
        self.input & flag != 0
    }
    /// Returns whether an output mode is on.
    pub fn has_output(&self, flag: u32) -> bool {
        self.output & flag != 0
    }
    /// Returns whether a local mode is on.
    pub fn has_local(&self, flag: u32) -> bool {
        self.local & flag != 0
    }
    /// Returns whether reads return whole lines.
    pub fn is_canonical(&self) -> bool {
        self.has_local(raw::ICANON)
    }
    /// Returns the control character `index` (`VMIN` ...).
    pub fn character(&self, index: u32) -> u8 {
        self.characters.get(index as usize).copied().unwrap_or(0)
    }
    /// Returns whether `byte` is the control character `index`, and that is not disabled.
    pub fn is_character(&self, byte: u8, index: u32) -> bool {
        byte != 0 && self.character(index) == byte
    }
    /// Encodes the settings for `TCGETS`.
    pub fn encode(&self) -> [u8; TERMIOS_BYTES] {
        const FLAGS: usize = 4 * size_of::<u32>();
        let mut out = [0; TERMIOS_BYTES];
        let flags = [self.input, self.output, self.control, self.local];
        let (words, rest) = out.split_at_mut(FLAGS);
        for (place, flag) in words.chunks_exact_mut(size_of::<u32>()).zip(flags) {
            place.copy_from_slice(&flag.to_le_bytes());
        }
        if let Some((line, characters)) = rest.split_first_mut() {
            *line = self.line;
            characters.copy_from_slice(&self.characters);
        }
        out
    }
    /// Encodes the settings for `TCGETS2`.
    pub fn encode2(&self) -> [u8; TERMIOS2_BYTES] {
        let mut out = [0; TERMIOS2_BYTES];
        let speeds = [self.input_speed, self.output_speed];
        let tail = speeds.iter().flat_map(|speed| speed.to_le_bytes());
        for (slot, byte) in out.iter_mut().zip(self.encode().into_iter().chain(tail)) {
            *slot = byte;
        }
        out
    }
    /// Encodes the settings for `TCGETA`: the low halves of the flags, the first characters.
    pub fn encode_termio(&self) -> [u8; TERMIO_BYTES] {
        let mut out = [0; TERMIO_BYTES];
        let flags = [self.input, self.output, self.control, self.local];
        let bytes = flags.iter().flat_map(|flag| (*flag as u16).to_le_bytes());
        let characters = self.characters.iter().copied().take(TERMIO_CHARACTERS);
        let rest = core::iter::once(self.line).chain(characters);
        for (slot, byte) in out.iter_mut().zip(bytes.chain(rest)) {
            *slot = byte;
        }
        out
    }
    /// Returns these settings changed by the data that a program passed to `TCSETA`.
    pub fn overlay_termio(&self, bytes: &[u8; TERMIO_BYTES]) -> Termios {
        const HIGH_HALF: u32 = 0xffff_0000;
        let (flags, rest) = bytes.split_at(8);
        let mut halves = flags.chunks_exact(2).map(le32);
        let mut merge = |old: u32| old & HIGH_HALF | halves.next().unwrap_or(0);
        let (input, output) = (merge(self.input), merge(self.output));
        let (control, local) = (merge(self.control), merge(self.local));
        let mut characters = self.characters;
        for (slot, byte) in characters.iter_mut().take(TERMIO_CHARACTERS).zip(rest.iter().skip(1)) {
            *slot = *byte;
        }
        Termios { input, output, control, local, characters, ..*self }.with_speeds()
    }
    /// Sets the speeds from the `CBAUD` and `CIBAUD` bits; `BOTHER` keeps the number.
    fn with_speeds(mut self) -> Termios {
        let output = self.control & raw::CBAUD;
        let input = self.control >> raw::IBSHIFT & raw::CBAUD;
        if output != raw::BOTHER {
            self.output_speed = speed_of(output).unwrap_or(self.output_speed);
        }
        self.input_speed = match input {
            0 => self.output_speed,
            raw::BOTHER => self.input_speed,
            code => speed_of(code).unwrap_or(self.output_speed),
        };
        self
    }
    /// Decodes the settings that a program passed to `TCSETS`; speeds follow the `CBAUD` bits.
    pub fn decode(bytes: &[u8; TERMIOS_BYTES]) -> Termios {
        let (flags, rest) = bytes.split_at(16);
        let mut words = flags.chunks_exact(4).map(le32);
        let mut word = || words.next().unwrap_or(0);
        let (input, output, control, local) = (word(), word(), word(), word());
        let mut characters = [0; CONTROL_CHARACTERS];
        for (slot, byte) in characters.iter_mut().zip(rest.iter().skip(1)) {
            *slot = *byte;
        }
        let line = rest.first().copied().unwrap_or(0);
        let (input_speed, output_speed) = (SPEED, SPEED);
        Termios { input, output, control, local, line, characters, input_speed, output_speed }
            .with_speeds()
    }
    /// Decodes the settings that a program passed to `TCSETS2`; with `BOTHER` the speeds are
    /// numbers.
    pub fn decode2(bytes: &[u8; TERMIOS2_BYTES]) -> Termios {
        let mut head = [0; TERMIOS_BYTES];
        head.copy_from_slice(bytes.split_at(TERMIOS_BYTES).0);
        let mut speeds = bytes.split_at(TERMIOS_BYTES).1.chunks_exact(4).map(le32);
        let input_speed = speeds.next().unwrap_or(0);
        let output_speed = speeds.next().unwrap_or(0);
        Termios { input_speed, output_speed, ..Termios::decode(&head) }.with_speeds()
    }
}

fn le32(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |value, byte| value << 8 | u32::from(*byte))
}

/// Returns the baud rate of a `CBAUD` code.
fn speed_of(code: u32) -> Option<u32> {
    const LOW: [u32; 16] =
        [0, 50, 75, 110, 134, 150, 200, 300, 600, 1200, 1800, 2400, 4800, 9600, 19200, 38400];
    const HIGH: [u32; 15] = [
        57600, 115_200, 230_400, 460_800, 500_000, 576_000, 921_600, 1_000_000, 1_152_000,
        1_500_000, 2_000_000, 2_500_000, 3_000_000, 3_500_000, 4_000_000,
    ];
    match code {
        0..=15 => LOW.get(code as usize).copied(),
        _ => HIGH.get((code.checked_sub(raw::BOTHER + 1)?) as usize).copied(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoding_and_decoding_give_the_same_settings() {
        let termios = Termios::default();
        assert_eq!(Termios::decode(&termios.encode()), termios);
        assert_eq!(Termios::decode2(&termios.encode2()), termios);
    }

    #[test]
    fn the_speed_follows_the_code_or_with_bother_the_number() {
        let mut termios = Termios::default();
        termios.control = termios.control & !raw::CBAUD | raw::B115200;
        assert_eq!(Termios::decode(&termios.encode()).output_speed, 115_200);
        termios.control = termios.control & !raw::CBAUD | raw::BOTHER;
        termios.output_speed = 12345;
        assert_eq!(Termios::decode2(&termios.encode2()).output_speed, 12345);
    }

    #[test]
    fn a_zero_control_character_matches_nothing() {
        let termios = Termios::default();
        assert!(!termios.is_character(0, raw::VEOL));
        assert!(termios.is_character(3, raw::VINTR));
    }
}

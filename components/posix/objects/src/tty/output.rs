//! Output processing of a terminal: `OPOST`, and the columns that tabs and erasing need.
//!
//! Key types: [`OutputState`] (the column of the cursor) and [`Echo`] (echo of input; made by
//! [`super::input::Input`] without the column, turned into bytes here in order). The functions have no side effects;
//! the terminal's output lock guards the state. Source: POSIX chapter 11, Linux `n_tty.c`.
use super::termios::Termios;
use alloc::vec::Vec;
use linux_raw_sys::general as raw;

/// An item of echo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Echo {
    /// A byte, which is shown through output processing.
    Byte(u8),
    /// The present column is recorded as the start of the line being typed.
    MarkColumn,
    /// A tab is erased that has `columns` columns before it since the line began (`is_after_tab`: since the last
    /// tab).
    EraseTab {
        /// Number of columns before the tab.
        columns: usize,
        /// The columns count from another tab, not from the line's beginning.
        is_after_tab: bool,
    },
}

/// The column of the cursor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutputState {
    column: usize,
    line_column: usize,
}

/// Returns whether it is a control character in the sense of `ECHOCTL` and column counting.
pub fn is_control(byte: u8) -> bool {
    byte < 0x20 || byte == 0x7f
}

/// Returns whether it is a byte inside a UTF-8 character, which takes no column of its own.
pub fn is_continuation(byte: u8, termios: &Termios) -> bool {
    termios.has_input(raw::IUTF8) && byte & 0xc0 == 0x80
}

impl OutputState {
    /// Appends the bytes to be sent to the terminal for a program's `data`.
    pub fn write(&mut self, termios: &Termios, data: &[u8], out: &mut Vec<u8>) {
        if termios.has_output(raw::OPOST) {
            for byte in data {
                self.put(termios, *byte, out);
            }
        } else {
            out.extend_from_slice(data);
        }
    }
    /// Appends the bytes to be sent to the terminal for `echoes`.
    pub fn echo(&mut self, termios: &Termios, echoes: &[Echo], out: &mut Vec<u8>) {
        for echo in echoes {
            match *echo {
                Echo::Byte(byte) if termios.has_output(raw::OPOST) => self.put(termios, byte, out),
                Echo::Byte(byte) => out.push(byte),
                Echo::MarkColumn => self.line_column = self.column,
                Echo::EraseTab { columns, is_after_tab } => {
                    let start = if is_after_tab { 0 } else { self.line_column };
                    let width = 8 - ((start + columns) & 7);
                    out.resize(out.len() + width, 0x08);
                    self.column = self.column.saturating_sub(width);
                }
            }
        }
    }
    fn put(&mut self, termios: &Termios, byte: u8, out: &mut Vec<u8>) {
        match byte {
            b'\n' => {
                if termios.has_output(raw::ONLRET) {
                    self.column = 0;
                }
                if termios.has_output(raw::ONLCR) {
                    self.column = 0;
                    out.push(b'\r');
                }
                self.line_column = self.column;
            }
            b'\r' => return self.put_return(termios, out),
            b'\t' => {
                let width = 8 - (self.column & 7);
                self.column += width;
                if termios.output & raw::TABDLY == raw::XTABS {
                    out.resize(out.len() + width, b' ');
                    return;
                }
            }
            0x08 => self.column = self.column.saturating_sub(1),
            _ if is_control(byte) => {}
            _ => {
                if !is_continuation(byte, termios) {
                    self.column += 1;
                }
                if termios.has_output(raw::OLCUC) {
                    out.push(byte.to_ascii_uppercase());
                    return;
                }
            }
        }
        out.push(byte);
    }
    fn put_return(&mut self, termios: &Termios, out: &mut Vec<u8>) {
        if termios.has_output(raw::ONOCR) && self.column == 0 {
            return;
        }
        let becomes_newline = termios.has_output(raw::OCRNL);
        if !becomes_newline || termios.has_output(raw::ONLRET) {
            self.column = 0;
            self.line_column = 0;
        }
        out.push(if becomes_newline { b'\n' } else { b'\r' });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(termios: &Termios, data: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        OutputState::default().write(termios, data, &mut out);
        out
    }

    #[test]
    fn a_newline_gets_a_return_only_with_opost_and_onlcr() {
        let mut termios = Termios::default();
        assert_eq!(written(&termios, b"a\nb"), b"a\r\nb");
        termios.output = raw::ONLCR;
        assert_eq!(written(&termios, b"a\nb"), b"a\nb");
        termios.output = raw::OPOST;
        assert_eq!(written(&termios, b"a\nb"), b"a\nb");
    }

    #[test]
    fn tabs_are_expanded_to_the_next_eighth_column_with_xtabs() {
        let mut termios = Termios::default();
        assert_eq!(written(&termios, b"ab\tc"), b"ab\tc");
        termios.output |= raw::XTABS;
        assert_eq!(written(&termios, b"ab\tc\n\tx"), b"ab      c\r\n        x");
    }

    #[test]
    fn returns_are_dropped_at_column_zero_with_onocr_and_turned_with_ocrnl() {
        let mut termios = Termios { output: raw::OPOST | raw::ONOCR, ..Termios::default() };
        assert_eq!(written(&termios, b"\ra\r\rb"), b"a\rb");
        termios.output = raw::OPOST | raw::OCRNL;
        assert_eq!(written(&termios, b"a\r"), b"a\n");
    }

    #[test]
    fn lower_case_becomes_upper_with_olcuc() {
        let termios = Termios { output: raw::OPOST | raw::OLCUC, ..Termios::default() };
        assert_eq!(written(&termios, b"aB1"), b"AB1");
    }

    #[test]
    fn a_tab_typed_after_a_prompt_is_rubbed_out_to_where_it_began() {
        let termios = Termios::default();
        let (mut state, mut out) = (OutputState::default(), Vec::new());
        state.write(&termios, b"$ ", &mut out);
        state.echo(&termios, &[Echo::MarkColumn, Echo::Byte(b'x'), Echo::Byte(b'\t')], &mut out);
        out.clear();
        state.echo(&termios, &[Echo::EraseTab { columns: 1, is_after_tab: false }], &mut out);
        assert_eq!(out, [8; 5]);
        assert_eq!(state.column, 3);
    }
}

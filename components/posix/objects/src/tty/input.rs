//! Input processing of a terminal: lines, editing, echo, signals and flow characters (`n_tty`).
//!
//! [`Input`] is a ring of [`BUFFER_BYTES`] bytes between three positions that only grow:
//!
//! ```text
//! tail <= line_end <= head <= tail + BUFFER_BYTES
//! |  whole lines   |  the line being typed  |        (canonical; raw: all of it is readable)
//! ```
//!
//! A mark at a byte means that a line ends there; a marked 0 is an end of file and is not read as data.
//! Effects on other objects (echo, signals, flow control) are collected in [`Effects`], so that this module
//! has no side effects. The terminal's input lock guards it. Source: POSIX chapter 11, Linux `n_tty.c`.
use super::{
    output::{Echo, is_continuation, is_control},
    termios::Termios,
};
use alloc::{boxed::Box, vec::Vec};
use linux_raw_sys::general as raw;

/// Size of the ring; the longest line with its newline.
pub const BUFFER_BYTES: usize = 4096;
/// The byte with a mark that stands for an end of file (`__DISABLED_CHAR`).
const END_OF_FILE: u8 = 0;

/// A signal that a character causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeySignal {
    /// The character `VINTR`: SIGINT.
    Interrupt,
    /// The character `VQUIT`: SIGQUIT.
    Quit,
    /// The character `VSUSP`: SIGTSTP.
    Suspend,
}

/// Whether output is to be stopped or continued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Output is stopped (`VSTOP`).
    Stop,
    /// Output continues: `VSTART`, or any character with `IXANY`.
    Start,
}

/// The effects of input on other objects.
#[derive(Debug, Default)]
pub struct Effects {
    /// The echo to be shown, in order.
    pub echoes: Vec<Echo>,
    /// Signals for the foreground group, in order.
    pub signals: Vec<KeySignal>,
    /// The last change of flow control, if there was one.
    pub flow: Option<Flow>,
    /// A signal flushed the terminal: output under way is to be dropped, too.
    pub is_flushed: bool,
}

/// The input half of the line discipline.
pub struct Input {
    ring: Box<[u8; BUFFER_BYTES]>,
    marks: Box<[bool; BUFFER_BYTES]>,
    tail: usize,
    line_end: usize,
    head: usize,
    is_literal: bool,
    is_erasing: bool,
}

impl Default for Input {
    fn default() -> Self {
        Input::new()
    }
}

impl Input {
    /// Makes an empty input.
    pub fn new() -> Input {
        Input {
            ring: Box::new([0; BUFFER_BYTES]),
            marks: Box::new([false; BUFFER_BYTES]),
            tail: 0,
            line_end: 0,
            head: 0,
            is_literal: false,
            is_erasing: false,
        }
    }
    /// Processes incoming bytes until the ring is full. Returns the number of processed bytes.
    pub fn receive(&mut self, termios: &Termios, data: &[u8], effects: &mut Effects) -> usize {
        for (taken, byte) in data.iter().enumerate() {
            if !self.make_room(termios) {
                return taken;
            }
            self.receive_byte(termios, *byte, effects);
        }
        data.len()
    }
    /// Returns the number of bytes that a read may take now: whole lines in canonical mode, else all.
    pub fn readable(&self, termios: &Termios) -> usize {
        let end = if termios.is_canonical() { self.line_end } else { self.head };
        end - self.tail
    }
    /// Returns the number of readable bytes without ends of file (`FIONREAD`).
    pub fn readable_bytes(&self, termios: &Termios) -> usize {
        let marked_ends = (self.tail..self.line_end)
            .filter(|at| self.mark_at(*at) && self.byte_at(*at) == END_OF_FILE);
        let ends = if termios.is_canonical() { marked_ends.count() } else { 0 };
        self.readable(termios) - ends
    }
    /// Moves readable bytes to `out`; in canonical mode at most one line. Returns their number.
    pub fn take(&mut self, termios: &Termios, out: &mut [u8]) -> TakenInput {
        let canonical = termios.is_canonical();
        let end = if canonical { self.line_end } else { self.head };
        let mut count = 0;
        while self.tail != end {
            let (byte, marked) = (self.byte_at(self.tail), self.mark_at(self.tail));
            let is_line_end = canonical && marked;
            if is_line_end && byte == END_OF_FILE {
                self.advance_tail();
                return TakenInput { count, is_line_end: true };
            }
            let Some(slot) = out.get_mut(count) else { break };
            *slot = byte;
            count += 1;
            self.advance_tail();
            if is_line_end {
                return TakenInput { count, is_line_end: true };
            }
        }
        TakenInput { count, is_line_end: false }
    }
    /// Drops all input that was not read (`TCIFLUSH`).
    pub fn flush(&mut self) {
        self.marks.fill(false);
        self.tail = self.head;
        self.line_end = self.head;
        self.is_erasing = false;
        self.is_literal = false;
    }
    /// Called when the settings changed: typed bytes become readable when canonical mode ends, and the other
    /// way round.
    pub fn settings_changed(&mut self, old: &Termios, new: &Termios) {
        if old.is_canonical() == new.is_canonical() {
            return;
        }
        self.marks.fill(false);
        self.line_end = self.tail;
        if new.is_canonical() && self.head != self.tail {
            self.mark(self.head - 1);
            self.line_end = self.head;
        }
        self.is_erasing = false;
        self.is_literal = false;
    }

    fn byte_at(&self, at: usize) -> u8 {
        self.ring.get(at % BUFFER_BYTES).copied().unwrap_or(0)
    }
    fn mark_at(&self, at: usize) -> bool {
        self.marks.get(at % BUFFER_BYTES).copied().unwrap_or(false)
    }
    fn mark(&mut self, at: usize) {
        if let Some(mark) = self.marks.get_mut(at % BUFFER_BYTES) {
            *mark = true;
        }
    }
    fn advance_tail(&mut self) {
        if let Some(mark) = self.marks.get_mut(self.tail % BUFFER_BYTES) {
            *mark = false;
        }
        self.tail += 1;
        self.line_end = self.line_end.max(self.tail);
    }
    fn push(&mut self, byte: u8) {
        if let Some(slot) = self.ring.get_mut(self.head % BUFFER_BYTES) {
            *slot = byte;
        }
        self.head += 1;
    }
    /// Makes room for a byte. A line that does not end keeps its last place for the newline: later bytes
    /// replace each other there.
    fn make_room(&mut self, termios: &Termios) -> bool {
        let used = self.head - self.tail;
        let needed = if termios.has_input(raw::PARMRK) { 2 } else { 1 };
        if used + needed < BUFFER_BYTES {
            return true;
        }
        let is_overflowing = termios.is_canonical() && self.line_end == self.tail;
        if is_overflowing && used == BUFFER_BYTES {
            self.head -= 1;
        }
        is_overflowing
    }

    fn receive_byte(&mut self, termios: &Termios, byte: u8, effects: &mut Effects) {
        let mut byte = if termios.has_input(raw::ISTRIP) { byte & 0x7f } else { byte };
        if termios.has_input(raw::IUCLC) && termios.has_local(raw::IEXTEN) {
            byte = byte.to_ascii_lowercase();
        }
        if self.is_literal {
            self.is_literal = false;
            return self.accept(termios, byte, effects);
        }
        if receive_flow(termios, byte, effects) || self.receive_signal(termios, byte, effects) {
            return;
        }
        if termios.has_input(raw::IXANY) && termios.has_input(raw::IXON) {
            effects.flow = Some(Flow::Start);
        }
        let typed = byte;
        match byte {
            b'\r' if termios.has_input(raw::IGNCR) => return,
            b'\r' if termios.has_input(raw::ICRNL) => byte = b'\n',
            b'\n' if termios.has_input(raw::INLCR) => byte = b'\r',
            _ => {}
        }
        if termios.is_canonical() && self.edit(termios, byte, effects) {
            return;
        }
        if byte == b'\n' && typed == b'\r' {
            return self.accept_mapped_newline(termios, effects);
        }
        self.accept(termios, byte, effects);
    }
    /// Accepts a return that was mapped to a newline, which is echoed as a newline, while a typed newline is
    /// echoed as `^J`.
    fn accept_mapped_newline(&mut self, termios: &Termios, effects: &mut Effects) {
        if termios.has_local(raw::ECHO) {
            self.finish_erasing(effects);
            effects.echoes.push(Echo::Byte(b'\n'));
        }
        self.push(b'\n');
    }
    fn receive_signal(&mut self, termios: &Termios, byte: u8, effects: &mut Effects) -> bool {
        if !termios.has_local(raw::ISIG) {
            return false;
        }
        let signal = if termios.is_character(byte, raw::VINTR) {
            KeySignal::Interrupt
        } else if termios.is_character(byte, raw::VQUIT) {
            KeySignal::Quit
        } else if termios.is_character(byte, raw::VSUSP) {
            KeySignal::Suspend
        } else {
            return false;
        };
        effects.signals.push(signal);
        if !termios.has_local(raw::NOFLSH) {
            self.flush();
            effects.echoes.clear();
            effects.is_flushed = true;
        }
        if termios.has_input(raw::IXON) {
            effects.flow = Some(Flow::Start);
        }
        if termios.has_local(raw::ECHO) {
            echo_visible(termios, byte, effects);
        }
        true
    }
    /// Handles the editing characters of canonical mode; returns `false` for another byte.
    fn edit(&mut self, termios: &Termios, byte: u8, effects: &mut Effects) -> bool {
        let is = |index| termios.is_character(byte, index);
        let is_extended = termios.has_local(raw::IEXTEN);
        let has_echo = termios.has_local(raw::ECHO);
        if is(raw::VERASE) {
            self.erase(termios, Erase::Character, effects);
        } else if is(raw::VKILL) {
            self.kill(termios, effects);
        } else if is(raw::VWERASE) && is_extended {
            self.erase(termios, Erase::Word, effects);
        } else if is(raw::VLNEXT) && is_extended {
            self.is_literal = true;
            if has_echo {
                self.finish_erasing(effects);
                if termios.has_local(raw::ECHOCTL) {
                    effects.echoes.extend([Echo::Byte(b'^'), Echo::Byte(0x08)]);
                }
            }
        } else if is(raw::VREPRINT) && has_echo && is_extended {
            self.reprint(termios, byte, effects);
        } else if byte == b'\n' {
            if has_echo || termios.has_local(raw::ECHONL) {
                effects.echoes.push(Echo::Byte(b'\n'));
            }
            self.end_line(byte);
        } else if is(raw::VEOF) {
            self.end_line(END_OF_FILE);
        } else if is(raw::VEOL) || (is(raw::VEOL2) && is_extended) {
            self.echo_typed(termios, byte, effects);
            self.double_mark(termios, byte);
            self.end_line(byte);
        } else {
            return false;
        }
        true
    }
    fn end_line(&mut self, byte: u8) {
        self.mark(self.head);
        self.push(byte);
        self.line_end = self.head;
    }
    /// Accepts a byte as data.
    fn accept(&mut self, termios: &Termios, byte: u8, effects: &mut Effects) {
        if termios.has_local(raw::ECHO) {
            self.finish_erasing(effects);
            self.echo_typed(termios, byte, effects);
        }
        self.double_mark(termios, byte);
        self.push(byte);
    }
    /// Doubles a 0xff with `PARMRK`, which distinguishes it from a mark.
    fn double_mark(&mut self, termios: &Termios, byte: u8) {
        if byte == 0xff && termios.has_input(raw::PARMRK) && !termios.has_input(raw::ISTRIP) {
            self.push(byte);
        }
    }
    fn echo_typed(&mut self, termios: &Termios, byte: u8, effects: &mut Effects) {
        if termios.has_local(raw::ECHO) {
            if self.line_end == self.head {
                effects.echoes.push(Echo::MarkColumn);
            }
            echo_visible(termios, byte, effects);
        }
    }
    fn reprint(&mut self, termios: &Termios, byte: u8, effects: &mut Effects) {
        self.finish_erasing(effects);
        echo_visible(termios, byte, effects);
        effects.echoes.push(Echo::Byte(b'\n'));
        for at in self.line_end..self.head {
            echo_visible(termios, self.byte_at(at), effects);
        }
    }
    fn finish_erasing(&mut self, effects: &mut Effects) {
        if self.is_erasing {
            self.is_erasing = false;
            effects.echoes.push(Echo::Byte(b'/'));
        }
    }
    fn kill(&mut self, termios: &Termios, effects: &mut Effects) {
        let erases_visibly = [raw::ECHO, raw::ECHOK, raw::ECHOKE, raw::ECHOE]
            .iter()
            .all(|flag| termios.has_local(*flag));
        if erases_visibly {
            return self.erase(termios, Erase::Line, effects);
        }
        if self.head == self.line_end {
            return;
        }
        self.head = self.line_end;
        if termios.has_local(raw::ECHO) {
            self.finish_erasing(effects);
            echo_visible(termios, termios.character(raw::VKILL), effects);
            if termios.has_local(raw::ECHOK) {
                effects.echoes.push(Echo::Byte(b'\n'));
            }
        }
    }
    fn erase(&mut self, termios: &Termios, what: Erase, effects: &mut Effects) {
        if self.head == self.line_end {
            return;
        }
        let mut has_word = false;
        while self.head != self.line_end {
            let mut start = self.head - 1;
            while is_continuation(self.byte_at(start), termios) && start != self.line_end {
                start -= 1;
            }
            let byte = self.byte_at(start);
            if is_continuation(byte, termios) {
                break;
            }
            if what == Erase::Word {
                let is_word = byte.is_ascii_alphanumeric() || byte == b'_';
                if has_word && !is_word {
                    break;
                }
                has_word |= is_word;
            }
            let end = core::mem::replace(&mut self.head, start);
            if termios.has_local(raw::ECHO) {
                self.echo_erased(termios, what, start..end, effects);
            }
            if what == Erase::Character {
                break;
            }
        }
        if self.head == self.line_end && termios.has_local(raw::ECHO) {
            self.finish_erasing(effects);
        }
    }
    fn echo_erased(
        &mut self,
        termios: &Termios,
        what: Erase,
        range: core::ops::Range<usize>,
        effects: &mut Effects,
    ) {
        let byte = self.byte_at(range.start);
        let is_shown = !is_control(byte) || termios.has_local(raw::ECHOCTL);
        if termios.has_local(raw::ECHOPRT) {
            if !self.is_erasing {
                self.is_erasing = true;
                effects.echoes.push(Echo::Byte(b'\\'));
            }
            echo_visible(termios, byte, effects);
            effects.echoes.extend(range.skip(1).map(|at| Echo::Byte(self.byte_at(at))));
        } else if what == Erase::Character && !termios.has_local(raw::ECHOE) {
            echo_visible(termios, termios.character(raw::VERASE), effects);
        } else if byte == b'\t' {
            effects.echoes.push(self.erased_tab(termios));
        } else if is_shown {
            let columns = if is_control(byte) { 2 } else { 1 };
            for _ in 0..columns {
                effects.echoes.extend([0x08, b' ', 0x08].map(Echo::Byte));
            }
        }
    }
    /// Returns the echo that erases a tab, with the columns typed before the tab that was removed from the
    /// line.
    fn erased_tab(&self, termios: &Termios) -> Echo {
        let mut columns = 0;
        for at in (self.line_end..self.head).rev() {
            let byte = self.byte_at(at);
            if byte == b'\t' {
                return Echo::EraseTab { columns, is_after_tab: true };
            }
            if is_control(byte) {
                columns += if termios.has_local(raw::ECHOCTL) { 2 } else { 0 };
            } else if !is_continuation(byte, termios) {
                columns += 1;
            }
        }
        Echo::EraseTab { columns, is_after_tab: false }
    }
}

/// The result of [`Input::take`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TakenInput {
    /// Number of bytes taken.
    pub count: usize,
    /// A line ended there, so the read is over (without bytes: end of file).
    pub is_line_end: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Erase {
    Character,
    Word,
    Line,
}

fn receive_flow(termios: &Termios, byte: u8, effects: &mut Effects) -> bool {
    if !termios.has_input(raw::IXON) {
        return false;
    }
    if termios.is_character(byte, raw::VSTART) {
        effects.flow = Some(Flow::Start);
    } else if termios.is_character(byte, raw::VSTOP) {
        effects.flow = Some(Flow::Stop);
    } else {
        return false;
    }
    true
}

/// Echoes a byte; control characters as `^X` with `ECHOCTL`.
fn echo_visible(termios: &Termios, byte: u8, effects: &mut Effects) {
    if termios.has_local(raw::ECHOCTL) && is_control(byte) && byte != b'\t' {
        effects.echoes.extend([Echo::Byte(b'^'), Echo::Byte(byte ^ 0x40)]);
    } else {
        effects.echoes.push(Echo::Byte(byte));
    }
}

//! Tests of the line discipline, whose results were recorded from Linux's `n_tty` (pty sessions on
//! the host).
use super::{
    input::{BUFFER_BYTES, Effects, Flow, Input, KeySignal},
    output::OutputState,
    termios::Termios,
};
use alloc::{string::String, vec, vec::Vec};
use linux_raw_sys::general as raw;

/// A keyboard, a screen and a program.
struct Bench {
    termios: Termios,
    input: Input,
    output: OutputState,
    screen: Vec<u8>,
    signals: Vec<KeySignal>,
    flow: Option<Flow>,
}

impl Bench {
    fn new() -> Bench {
        Bench {
            termios: Termios::default(),
            input: Input::new(),
            output: OutputState::default(),
            screen: Vec::new(),
            signals: Vec::new(),
            flow: None,
        }
    }
    fn with(change: impl FnOnce(&mut Termios)) -> Bench {
        let mut bench = Bench::new();
        change(&mut bench.termios);
        bench
    }
    fn set(&mut self, change: impl FnOnce(&mut Termios)) {
        let old = self.termios;
        change(&mut self.termios);
        self.input.settings_changed(&old, &self.termios);
    }
    fn type_bytes(&mut self, data: &[u8]) -> usize {
        let mut effects = Effects::default();
        let taken = self.input.receive(&self.termios, data, &mut effects);
        self.output.echo(&self.termios, &effects.echoes, &mut self.screen);
        self.signals.extend(effects.signals);
        self.flow = effects.flow.or(self.flow);
        taken
    }
    fn read(&mut self, count: usize) -> Option<String> {
        let mut out = vec![0; count];
        if self.input.readable(&self.termios) == 0 {
            return None;
        }
        let taken = self.input.take(&self.termios, &mut out);
        out.truncate(taken.count);
        Some(String::from_utf8(out).unwrap())
    }
    fn screen(&mut self) -> String {
        String::from_utf8(core::mem::take(&mut self.screen)).unwrap()
    }
}

#[test]
fn a_line_is_readable_only_after_its_newline() {
    let mut bench = Bench::new();
    bench.type_bytes(b"ls");
    assert_eq!(bench.read(100), None);
    bench.type_bytes(b"\r");
    assert_eq!(bench.read(100).unwrap(), "ls\n");
    assert_eq!(bench.screen(), "ls\r\n");
}

#[test]
fn one_read_gives_one_line_and_a_short_read_leaves_the_rest() {
    let mut bench = Bench::new();
    bench.type_bytes(b"one\ntwo\n");
    assert_eq!(bench.read(2).unwrap(), "on");
    assert_eq!(bench.read(100).unwrap(), "e\n");
    assert_eq!(bench.read(100).unwrap(), "two\n");
    assert_eq!(bench.read(100), None);
}

#[test]
fn end_of_file_alone_reads_as_nothing_and_after_text_pushes_it() {
    let mut bench = Bench::new();
    bench.type_bytes(b"\x04");
    assert_eq!(bench.read(100).unwrap(), "");
    bench.type_bytes(b"ab\x04");
    assert_eq!(bench.read(100).unwrap(), "ab");
    assert_eq!(bench.read(100), None);
}

#[test]
fn an_end_of_file_right_after_a_filled_buffer_is_skipped() {
    let mut bench = Bench::new();
    bench.type_bytes(b"ab\x04");
    assert_eq!(bench.read(2).unwrap(), "ab");
    assert_eq!(bench.read(2), None);
}

#[test]
fn erase_rubs_out_one_character_and_stops_at_the_line_start() {
    let mut bench = Bench::new();
    bench.type_bytes(b"ab\x7f\x7f\x7fc\n");
    assert_eq!(bench.screen(), "ab\x08 \x08\x08 \x08c\r\n");
    assert_eq!(bench.read(100).unwrap(), "c\n");
}

#[test]
fn erase_of_a_control_character_rubs_out_both_columns() {
    let mut bench = Bench::new();
    bench.type_bytes(b"\x16\x01\x7f");
    assert_eq!(bench.screen(), "^\x08^A\x08 \x08\x08 \x08");
}

#[test]
fn erase_takes_a_whole_utf8_character_with_iutf8() {
    let mut bench = Bench::with(|termios| termios.input |= raw::IUTF8);
    bench.type_bytes("aé\x7f\n".as_bytes());
    assert_eq!(bench.read(100).unwrap(), "a\n");
    assert_eq!(bench.screen(), "aé\x08 \x08\r\n");
}

#[test]
fn erase_of_a_tab_goes_back_to_the_column_where_it_began() {
    let mut bench = Bench::new();
    bench.type_bytes(b"abc\t");
    bench.screen();
    bench.type_bytes(b"\x7f");
    assert_eq!(bench.screen(), "\x08\x08\x08\x08\x08");
    bench.type_bytes(b"\t\tx\t");
    bench.screen();
    bench.type_bytes(b"\x7f");
    assert_eq!(bench.screen(), "\x08".repeat(7));
}

#[test]
fn word_erase_takes_trailing_blanks_and_the_word() {
    let mut bench = Bench::new();
    bench.type_bytes(b"foo bar_1  \x17\n");
    assert_eq!(bench.read(100).unwrap(), "foo \n");
}

#[test]
fn kill_rubs_out_the_line() {
    let mut bench = Bench::new();
    bench.type_bytes(b"abc\x15d\n");
    assert_eq!(bench.screen(), format!("abc{}d\r\n", "\x08 \x08".repeat(3)));
    assert_eq!(bench.read(100).unwrap(), "d\n");
}

#[test]
fn kill_without_echoke_shows_itself_and_a_newline() {
    let mut bench = Bench::with(|termios| termios.local &= !raw::ECHOKE);
    bench.type_bytes(b"abc\x15d\n");
    assert_eq!(bench.screen(), "abc^U\r\nd\r\n");
    assert_eq!(bench.read(100).unwrap(), "d\n");
}

#[test]
fn erase_without_echoe_shows_itself() {
    let mut bench = Bench::with(|termios| termios.local &= !raw::ECHOE);
    bench.type_bytes(b"ab\x7f\n");
    assert_eq!(bench.screen(), "ab^?\r\n");
}

#[test]
fn hard_copy_erase_shows_what_is_erased_between_slashes() {
    let mut bench = Bench::with(|termios| termios.local |= raw::ECHOPRT);
    bench.type_bytes(b"abc\x7f\x7fx");
    assert_eq!(bench.screen(), "abc\\cb/x");
}

#[test]
fn the_next_character_is_taken_literally_after_lnext() {
    let mut bench = Bench::new();
    bench.type_bytes(b"\x16\x03\x16\x7f\n");
    assert!(bench.signals.is_empty());
    assert_eq!(bench.read(100).unwrap(), "\x03\x7f\n");
}

#[test]
fn reprint_shows_the_line_again() {
    let mut bench = Bench::new();
    bench.type_bytes(b"abc\x12");
    assert_eq!(bench.screen(), "abc^R\r\nabc");
}

#[test]
fn signal_characters_signal_flush_and_show() {
    let mut bench = Bench::new();
    bench.type_bytes(b"abc\x03");
    bench.type_bytes(b"\x1c\x1a");
    assert_eq!(bench.signals, [KeySignal::Interrupt, KeySignal::Quit, KeySignal::Suspend]);
    bench.type_bytes(b"\n");
    assert_eq!(bench.read(100).unwrap(), "\n");
}

#[test]
fn noflsh_keeps_the_line_over_a_signal() {
    let mut bench = Bench::with(|termios| termios.local |= raw::NOFLSH);
    bench.type_bytes(b"abc\x03\n");
    assert_eq!(bench.read(100).unwrap(), "abc\n");
    assert_eq!(bench.screen(), "abc^C\r\n");
}

#[test]
fn without_isig_signal_characters_are_data() {
    let mut bench = Bench::with(|termios| termios.local &= !raw::ISIG);
    bench.type_bytes(b"\x03\n");
    assert_eq!(bench.read(100).unwrap(), "\x03\n");
    assert_eq!(bench.screen(), "^C\r\n");
}

#[test]
fn stop_and_start_hold_output_and_are_not_data() {
    let mut bench = Bench::new();
    bench.type_bytes(b"\x13");
    assert_eq!(bench.flow, Some(Flow::Stop));
    bench.type_bytes(b"\x11");
    assert_eq!(bench.flow, Some(Flow::Start));
    bench.type_bytes(b"\n");
    assert_eq!(bench.read(100).unwrap(), "\n");
}

#[test]
fn any_character_starts_output_with_ixany() {
    let mut bench = Bench::with(|termios| termios.input |= raw::IXANY);
    bench.type_bytes(b"\x13");
    bench.type_bytes(b"x");
    assert_eq!(bench.flow, Some(Flow::Start));
}

#[test]
fn returns_are_turned_kept_or_ignored_as_set() {
    let mut bench = Bench::with(|termios| termios.input = raw::INLCR);
    bench.type_bytes(b"\n\x04");
    assert_eq!(bench.read(100).unwrap(), "\r");
    bench.set(|termios| termios.input = raw::IGNCR);
    bench.type_bytes(b"a\rb\n");
    assert_eq!(bench.read(100).unwrap(), "ab\n");
    bench.set(|termios| termios.input = raw::ISTRIP);
    bench.type_bytes(b"\xe1\n");
    assert_eq!(bench.read(100).unwrap(), "a\n");
}

#[test]
fn without_echo_nothing_shows_but_echonl_shows_newlines() {
    let mut bench = Bench::with(|termios| termios.local &= !raw::ECHO);
    bench.type_bytes(b"secret\x7f\n");
    assert_eq!(bench.screen(), "");
    bench.set(|termios| termios.local |= raw::ECHONL);
    bench.type_bytes(b"x\n");
    assert_eq!(bench.screen(), "\r\n");
}

#[test]
fn raw_input_is_readable_byte_by_byte_and_unedited() {
    let mut bench = Bench::with(|termios| termios.local = 0);
    bench.type_bytes(b"a\x7f\x04\x03");
    assert_eq!(bench.read(100).unwrap(), "a\x7f\x04\x03");
    assert_eq!(bench.screen(), "");
}

#[test]
fn switching_to_raw_makes_typed_text_readable_and_back_ends_a_line() {
    let mut bench = Bench::new();
    bench.type_bytes(b"abc");
    bench.set(|termios| termios.local &= !raw::ICANON);
    assert_eq!(bench.read(2).unwrap(), "ab");
    bench.type_bytes(b"d");
    bench.set(|termios| termios.local |= raw::ICANON);
    assert_eq!(bench.read(100).unwrap(), "cd");
}

#[test]
fn a_second_end_of_line_character_ends_a_line_and_is_kept() {
    let mut bench = Bench::with(|termios| {
        if let Some(eol) = termios.characters.get_mut(raw::VEOL as usize) {
            *eol = b';';
        }
    });
    bench.type_bytes(b"a;b\n");
    assert_eq!(bench.read(100).unwrap(), "a;");
    assert_eq!(bench.read(100).unwrap(), "b\n");
}

#[test]
fn an_overlong_line_keeps_room_for_its_newline() {
    let mut bench = Bench::with(|termios| termios.local &= !raw::ECHO);
    assert_eq!(bench.type_bytes(&[b'x'; 5000]), 5000);
    bench.type_bytes(b"\n");
    let line = bench.read(8192).unwrap();
    assert_eq!(line.len(), BUFFER_BYTES);
    assert!(line.ends_with("x\n"));
}

#[test]
fn raw_input_beyond_the_buffer_is_left_with_the_driver() {
    let mut bench = Bench::with(|termios| termios.local = 0);
    assert_eq!(bench.type_bytes(&[b'x'; 5000]), BUFFER_BYTES - 1);
    bench.read(10);
    assert_eq!(bench.type_bytes(&[b'x'; 5000]), 10);
}

#[test]
fn fionread_counts_lines_without_ends_of_file() {
    let mut bench = Bench::new();
    bench.type_bytes(b"ab\x04cd\nef");
    assert_eq!(bench.input.readable_bytes(&bench.termios), 5);
    bench.set(|termios| termios.local &= !raw::ICANON);
    assert_eq!(bench.input.readable_bytes(&bench.termios), 8);
}

#[test]
fn the_ring_wraps_without_losing_lines() {
    let mut bench = Bench::with(|termios| termios.local &= !raw::ECHO);
    for number in 0..3000 {
        bench.type_bytes(format!("line {number}\n").as_bytes());
        assert_eq!(bench.read(100).unwrap(), format!("line {number}\n"));
    }
}

//! The line discipline: editing, echo, signals' flush, flow, output processing (termios(3)).
use abi::{
    isolated, must,
    pty::{self, Pty},
    read, write,
};
use libc::*;

/// Types `typed` at a terminal with the settings of `change`, and checks the text shown and the
/// results of reads.
#[track_caller]
fn case(change: fn(&mut termios), typed: &[u8], shown: &str, reads: &[&str]) {
    isolated(|| {
        let pty = Pty::with(change);
        pty.type_bytes(typed);
        assert_eq!(pty.screen(), shown);
        let lines: Vec<String> = reads.iter().filter_map(|_| pty.line()).collect();
        assert_eq!(lines, reads);
        assert_eq!(pty.line(), None);
    });
}

fn plain(_: &mut termios) {}

#[test]
fn erase_takes_back_a_character_and_rubs_it_out() {
    case(plain, b"ab\x7fc\n", r"ab\x08 \x08c\r\n", &[r"ac\n"]);
}

#[test]
fn erase_at_the_start_of_a_line_does_nothing() {
    case(plain, b"\x7f\x7fa\n", r"a\r\n", &[r"a\n"]);
}

#[test]
fn erase_of_a_control_character_rubs_out_two_columns() {
    case(plain, b"a\x01\x7f\n", r"a^A\x08 \x08\x08 \x08\r\n", &[r"a\n"]);
}

#[test]
fn erase_of_a_tab_goes_back_to_where_it_began() {
    case(plain, b"ab\t\x7fc\n", r"ab\t\x08\x08\x08\x08\x08\x08c\r\n", &[r"abc\n"]);
}

#[test]
fn word_erase_takes_the_spaces_and_the_word() {
    case(
        plain,
        b"ab cd_1  \x17x\n",
        r"ab cd_1  \x08 \x08\x08 \x08\x08 \x08\x08 \x08\x08 \x08\x08 \x08x\r\n",
        &[r"ab x\n"],
    );
}

#[test]
fn kill_takes_the_line_back_and_rubs_it_out() {
    case(plain, b"abc\x15d\n", r"abc\x08 \x08\x08 \x08\x08 \x08d\r\n", &[r"d\n"]);
}

#[test]
fn kill_without_echoke_shows_the_character_and_a_new_line() {
    case(|s| s.c_lflag &= !ECHOKE, b"abc\x15d\n", r"abc^U\r\nd\r\n", &[r"d\n"]);
}

#[test]
fn kill_without_echok_stays_on_the_line() {
    case(|s| s.c_lflag &= !(ECHOKE | ECHOK), b"abc\x15d\n", r"abc^Ud\r\n", &[r"d\n"]);
}

#[test]
fn erase_without_echoe_shows_the_erase_character() {
    case(|s| s.c_lflag &= !ECHOE, b"ab\x7fc\n", r"ab^?c\r\n", &[r"ac\n"]);
}

#[test]
fn echoprt_shows_what_was_erased_between_slashes() {
    case(|s| s.c_lflag |= ECHOPRT, b"abc\x7f\x7fd\n", r"abc\\cb/d\r\n", &[r"ad\n"]);
}

#[test]
fn literal_next_takes_the_special_meaning_away() {
    case(plain, b"a\x16\x03b\x16\x7fc\n", r"a^\x08^Cb^\x08^?c\r\n", &[r"a\x03b\x7fc\n"]);
}

#[test]
fn reprint_shows_the_line_anew() {
    case(plain, b"ab\x12c\n", r"ab^R\r\nabc\r\n", &[r"abc\n"]);
}

#[test]
fn an_end_of_file_after_text_gives_the_text_and_at_a_line_s_start_nothing() {
    case(plain, b"ab\x04\x04c\n", r"abc\r\n", &["ab", "", r"c\n"]);
}

#[test]
fn eol_and_eol2_end_lines_and_stay_in_them() {
    case(
        |s| {
            s.c_cc[VEOL] = b'!';
            s.c_cc[VEOL2] = b'?';
        },
        b"a!b?c\n",
        r"a!b?c\r\n",
        &["a!", "b?", r"c\n"],
    );
}

#[test]
fn without_iexten_word_erase_and_literal_next_are_ordinary() {
    case(|s| s.c_lflag &= !IEXTEN, b"a\x16b\x17\n", r"a^Vb^W\r\n", &[r"a\x16b\x17\n"]);
}

#[test]
fn without_echoctl_control_characters_are_shown_as_they_are() {
    case(|s| s.c_lflag &= !ECHOCTL, b"a\x01\x7fb\n", r"a\x01b\r\n", &[r"ab\n"]);
}

#[test]
fn echonl_shows_the_new_line_only() {
    case(
        |s| {
            s.c_lflag &= !ECHO;
            s.c_lflag |= ECHONL;
        },
        b"ab\x7f\n",
        r"\r\n",
        &[r"a\n"],
    );
}

#[test]
fn utf8_characters_are_erased_whole() {
    case(
        |s| s.c_iflag |= IUTF8,
        "aé€\x7f\x7fb\n".as_bytes(),
        r"a\xc3\xa9\xe2\x82\xac\x08 \x08\x08 \x08b\r\n",
        &[r"ab\n"],
    );
}

#[test]
fn utf8_bytes_are_erased_one_by_one_without_iutf8() {
    case(plain, "aé\x7fb\n".as_bytes(), r"a\xc3\xa9\x08 \x08b\r\n", &[r"a\xc3b\n"]);
}

#[test]
fn returns_and_new_lines_are_mapped_as_asked() {
    case(plain, b"a\rb\n", r"a\r\nb\r\n", &[r"a\n", r"b\n"]);
    case(|s| s.c_iflag = IGNCR, b"a\rb\n", r"ab\r\n", &[r"ab\n"]);
    case(
        |s| {
            s.c_iflag = INLCR;
            s.c_lflag &= !ICANON;
        },
        b"a\nb",
        r"a^Mb",
        &[r"a\rb"],
    );
}

#[test]
fn istrip_takes_the_eighth_bit_and_iuclc_the_capitals() {
    case(|s| s.c_iflag |= ISTRIP, b"\xe1\xe2\n", r"ab\r\n", &[r"ab\n"]);
    case(|s| s.c_iflag |= IUCLC, b"AbC\n", r"abc\r\n", &[r"abc\n"]);
}

#[test]
fn parmrk_doubles_0xff() {
    case(|s| s.c_iflag |= PARMRK, b"a\xffb\n", r"a\xffb\r\n", &[r"a\xff\xffb\n"]);
}

#[test]
fn raw_input_is_neither_mapped_nor_held_back() {
    // SAFETY: whole settings.
    case(|s| unsafe { cfmakeraw(s) }, b"a\x03\x7f\r\n\x04", "", &[r"a\x03\x7f\r\n\x04"]);
}

#[test]
fn echo_without_lines_shows_a_new_line_as_a_control_character() {
    case(|s| s.c_lflag &= !ICANON, b"a\nb\x7f", r"a^Jb^?", &[r"a\nb\x7f"]);
}

#[test]
fn a_line_longer_than_the_buffer_keeps_its_first_4095_bytes_and_its_end() {
    isolated(|| {
        let pty = Pty::with(|s| s.c_lflag &= !ECHO);
        for _ in 0..50 {
            pty.type_bytes(&[b'x'; 100]);
        }
        pty.type_bytes(b"\n");
        let line = pty.line().expect("a line");
        assert_eq!(line.len(), 4095 + 2);
        assert!(line.ends_with(r"x\n"));
        assert_eq!(pty.line(), None);
    });
}

#[test]
fn a_signal_s_character_flushes_what_was_typed_unless_noflsh() {
    case(plain, b"ab\x03c\n", r"^Cc\r\n", &[r"c\n"]);
    case(|s| s.c_lflag |= NOFLSH, b"ab\x03c\n", r"ab^Cc\r\n", &[r"abc\n"]);
}

#[test]
fn turning_lines_off_makes_what_was_typed_readable_and_on_again_one_line() {
    isolated(|| {
        let pty = Pty::new();
        pty.type_bytes(b"abc");
        assert_eq!(pty.line(), None);
        abi::pty::set(pty.slave, |s| s.c_lflag &= !ICANON);
        assert_eq!(pty.take(1).as_deref(), Some("a"));
        abi::pty::set(pty.slave, |s| s.c_lflag |= ICANON);
        assert_eq!(pty.line().as_deref(), Some("bc"));
    });
}

#[test]
fn a_read_of_part_of_a_line_leaves_the_rest() {
    isolated(|| {
        let pty = Pty::new();
        pty.type_bytes(b"abcd\nef\x04");
        assert_eq!(pty.take(3).as_deref(), Some("abc"));
        assert_eq!(pty.take(10).as_deref(), Some(r"d\n"));
        assert_eq!(pty.take(2).as_deref(), Some("ef"));
        assert_eq!(pty.line(), None, "the end of file goes with the line that fits exactly");
    });
}

/// Settings, the text written under them, and the expected screen.
type OutputCase = (fn(&mut termios), &'static [u8], &'static str);

#[test]
fn output_is_processed_as_asked() {
    let cases: [OutputCase; 8] = [
        (plain, b"a\nb\tc", r"a\r\nb\tc"),
        (|s| s.c_oflag = 0, b"a\nb", r"a\nb"),
        (|s| s.c_oflag = OPOST | OCRNL, b"a\rb", r"a\nb"),
        (|s| s.c_oflag = OPOST | ONOCR, b"\ra\r\rb", r"a\rb"),
        (|s| s.c_oflag = OPOST | ONOCR | ONLRET, b"a\n\rb", r"a\nb"),
        (|s| s.c_oflag = OPOST | OLCUC, b"aBc", r"ABC"),
        (|s| s.c_oflag = OPOST | XTABS, b"ab\tc\r\td", r"ab      c\r        d"),
        (|s| s.c_oflag = OPOST | ONLCR | XTABS, b"abc\x08\td", r"abc\x08      d"),
    ];
    isolated(|| {
        for (change, written, shown) in cases {
            let pty = Pty::with(change);
            assert_eq!(write(pty.slave, written), Ok(written.len()));
            assert_eq!(pty.screen(), shown);
        }
    });
}

#[test]
fn stop_and_start_hold_output_back_and_let_it_go_on() {
    isolated(|| {
        let pty = Pty::new();
        pty.type_bytes(b"\x13ab");
        assert_eq!(pty.screen(), "");
        // SAFETY: plain numbers.
        must(unsafe { fcntl(pty.slave, F_SETFL, O_RDWR | O_NONBLOCK) });
        assert_eq!(write(pty.slave, b"x"), Err(EAGAIN));
        pty.type_bytes(b"\x11");
        assert_eq!(pty.screen(), "ab");
        assert_eq!(write(pty.slave, b"x"), Ok(1));
        assert_eq!(pty.screen(), "x");
    });
}

#[test]
fn with_ixany_every_character_lets_output_go_on() {
    isolated(|| {
        let pty = Pty::with(|s| s.c_iflag |= IXANY);
        pty.type_bytes(b"\x13");
        assert_eq!(pty.screen(), "");
        pty.type_bytes(b"a");
        assert_eq!(pty.screen(), "a");
    });
}

#[test]
fn what_tcflow_stopped_only_tcflow_starts() {
    isolated(|| {
        let pty = Pty::new();
        // SAFETY: the descriptor is a terminal.
        must(unsafe { tcflow(pty.slave, TCOOFF) });
        pty.type_bytes(b"\x11a");
        assert_eq!(pty.screen(), "");
        // SAFETY: as above.
        must(unsafe { tcflow(pty.slave, TCOON) });
        // Linux shows echo that was held back with the next output.
        assert_eq!(write(pty.slave, b"b"), Ok(1));
        assert_eq!(pty.screen(), "ab");
        // SAFETY: as above.
        must(unsafe { tcflow(pty.slave, TCIOFF) });
        // SAFETY: as above.
        must(unsafe { tcflow(pty.slave, TCION) });
        assert_eq!(pty.screen(), r"\x13\x11");
    });
}

#[test]
fn turning_ixon_off_lets_output_go_on() {
    isolated(|| {
        let pty = Pty::new();
        pty.type_bytes(b"\x13a");
        assert_eq!(pty.screen(), "");
        abi::pty::set(pty.slave, |s| s.c_iflag &= !IXON);
        assert_eq!(pty.screen(), "a");
    });
}

#[test]
fn a_master_may_write_far_ahead_of_a_reader() {
    isolated(|| {
        const AHEAD: usize = 12_000;
        let pty = Pty::raw();
        for fd in [pty.master, pty.slave] {
            // SAFETY: plain numbers.
            must(unsafe { fcntl(fd, F_SETFL, O_NONBLOCK) });
        }
        let data: Vec<u8> = (0..64_000).map(|at| (at % 251) as u8).collect();
        let mut sent = 0;
        let end = loop {
            match write(pty.master, &data[sent..(sent + 500).min(data.len())]) {
                Ok(count) => sent += count,
                Err(error) => break error,
            }
        };
        assert_eq!(end, EAGAIN);
        assert!(sent >= AHEAD && sent < data.len(), "{sent}");
        let mut got = Vec::new();
        while got.len() < sent {
            pty.wait_readable();
            got.extend(read(pty.slave, 4096).unwrap());
        }
        assert_eq!(got, data[..sent]);
        assert_eq!(pty::poll(pty.master, POLLOUT, 5000), POLLOUT);
    });
}

#[test]
fn a_line_without_an_end_never_holds_the_master_up() {
    isolated(|| {
        let pty = Pty::with(|settings| settings.c_lflag &= !ECHO);
        for _ in 0..100 {
            pty.type_bytes(&[b'x'; 1000]);
        }
        pty.type_bytes(b"\n");
        pty.wait_readable();
        let line = read(pty.slave, 8192).unwrap();
        assert_eq!((line.len(), line.last()), (4096, Some(&b'\n')));
    });
}

//! Tests of terminals and streams over a port whose other end the test holds.
use super::{Claim, Stream, Terminal, TerminalFile, WindowSize};
use alloc::{string::String, sync::Arc, vec, vec::Vec};
use interfaces::terminal::{Port, PortSink};
use linux_raw_sys::general as raw;
use std::{
    sync::{Condvar, Mutex},
    thread,
};
use vfs::{
    Errno, NOBODY,
    file::{File, IoFlags, Ready},
    io::{SliceSink, SliceSource},
};

pub(super) const BLOCKING: IoFlags = IoFlags { is_nonblocking: false, is_append: false };
pub(super) const NONBLOCKING: IoFlags = IoFlags { is_nonblocking: true, is_append: false };

/// The other end of a port.
#[derive(Default)]
pub(super) struct Far {
    shown: Mutex<Vec<u8>>,
    news: Condvar,
    sink: Mutex<Option<Arc<dyn PortSink>>>,
}

impl Far {
    pub(super) fn type_bytes(&self, bytes: &[u8]) -> usize {
        let sink = self.sink.lock().unwrap().clone().unwrap();
        sink.received(bytes)
    }
    /// Sends a break.
    pub(super) fn send_break(&self) {
        let sink = self.sink.lock().unwrap().clone().unwrap();
        sink.broke();
    }
    fn hang_up(&self) {
        let sink = self.sink.lock().unwrap().clone().unwrap();
        sink.connected(false);
    }
    /// Waits until so many bytes were shown, and removes all.
    pub(super) fn take(&self, count: usize) -> String {
        let mut shown = self.shown.lock().unwrap();
        while shown.len() < count {
            shown = self.news.wait(shown).unwrap();
        }
        let taken = core::mem::take(&mut *shown);
        String::from_utf8_lossy(&taken).into_owned()
    }
    /// Waits until `text` was shown, and removes it.
    pub(super) fn expect(&self, text: &str) {
        let mut shown = self.shown.lock().unwrap();
        while shown.len() < text.len() {
            shown = self.news.wait(shown).unwrap();
        }
        assert_eq!(String::from_utf8_lossy(&shown), text);
        shown.clear();
    }
}

impl Port for Far {
    fn name(&self) -> String {
        "test".into()
    }
    fn is_console(&self) -> bool {
        true
    }
    fn send(&self, bytes: &[u8]) -> usize {
        self.shown.lock().unwrap().extend_from_slice(bytes);
        self.news.notify_all();
        bytes.len()
    }
    fn drain(&self) {}
    fn set_sink(&self, sink: Arc<dyn PortSink>) {
        *self.sink.lock().unwrap() = Some(sink);
    }
    fn resume(&self) {}
}

fn terminal() -> (Arc<Far>, Arc<TerminalFile>) {
    let far = Arc::new(Far::default());
    let terminal = Terminal::start(far.clone(), (4, 64), WindowSize::default()).unwrap();
    (far, Arc::new(terminal.open(raw::O_RDWR, Claim::Never, NOBODY).unwrap()))
}

/// Makes a terminal in raw mode with these VMIN and VTIME.
fn raw_terminal(minimum: u8, tenths: u8) -> (Arc<Far>, Arc<TerminalFile>) {
    let (far, terminal) = terminal();
    let mut settings = terminal.terminal().settings();
    settings.local = 0;
    settings.characters[raw::VMIN as usize] = minimum;
    settings.characters[raw::VTIME as usize] = tenths;
    terminal.terminal().set_settings(settings);
    (far, terminal)
}

pub(super) fn read(file: &dyn File, count: usize, flags: IoFlags) -> Result<String, Errno> {
    let mut out = vec![0; count];
    let read = file.read(0, &mut SliceSink::new(&mut out), flags)?;
    out.truncate(read);
    Ok(String::from_utf8(out).unwrap())
}

pub(super) fn write(file: &dyn File, text: &str, flags: IoFlags) -> Result<usize, Errno> {
    file.write(0, &mut SliceSource::new(text.as_bytes()), flags).map(|(count, _)| count)
}

#[test]
fn a_typed_line_is_echoed_and_read() {
    let (far, terminal) = terminal();
    far.type_bytes(b"ls\r");
    assert_eq!(read(terminal.as_ref(), 100, BLOCKING).unwrap(), "ls\n");
    far.expect("ls\r\n");
}

#[test]
fn output_is_processed_and_whole() {
    let (far, terminal) = terminal();
    let text = "line\n".repeat(1000);
    assert_eq!(write(terminal.as_ref(), &text, BLOCKING), Ok(5000));
    far.expect(&text.replace('\n', "\r\n"));
}

#[test]
fn a_read_without_input_is_eagain_where_it_must_not_block() {
    let (_far, terminal) = terminal();
    assert_eq!(read(terminal.as_ref(), 1, NONBLOCKING), Err(Errno::EAGAIN));
    assert!(!terminal.poll(None, NOBODY).contains(Ready::IN));
}

#[test]
fn minimum_without_time_waits_for_that_many_bytes() {
    let (far, terminal) = raw_terminal(3, 0);
    let reader = thread::spawn(move || read(terminal.as_ref(), 10, BLOCKING));
    far.type_bytes(b"a");
    far.type_bytes(b"bc");
    assert_eq!(reader.join().unwrap().unwrap(), "abc");
}

#[test]
fn a_full_buffer_ends_a_read_before_the_minimum() {
    let (far, terminal) = raw_terminal(10, 0);
    far.type_bytes(b"abcdef");
    assert_eq!(read(terminal.as_ref(), 4, BLOCKING).unwrap(), "abcd");
}

#[test]
fn neither_minimum_nor_time_never_waits() {
    let (_far, terminal) = raw_terminal(0, 0);
    assert_eq!(read(terminal.as_ref(), 10, BLOCKING).unwrap(), "");
}

#[test]
fn time_without_minimum_waits_so_long_for_the_first_byte() {
    let (far, terminal) = raw_terminal(0, 1);
    assert_eq!(read(terminal.as_ref(), 10, BLOCKING).unwrap(), "");
    let before = rt::time::now();
    let reader = thread::spawn(move || read(terminal.as_ref(), 10, BLOCKING));
    far.type_bytes(b"x");
    let got = reader.join().unwrap().unwrap();
    assert!(got == "x" || rt::time::now().since(before) >= 100_000_000);
}

#[test]
fn time_with_minimum_ends_a_read_after_a_pause_between_bytes() {
    let (far, terminal) = raw_terminal(5, 1);
    far.type_bytes(b"ab");
    assert_eq!(read(terminal.as_ref(), 10, BLOCKING).unwrap(), "ab");
}

#[test]
fn stopped_output_waits_for_the_start_character() {
    let (far, terminal) = terminal();
    far.type_bytes(b"\x13");
    while !terminal.terminal().is_stopped() {
        thread::yield_now();
    }
    assert_eq!(write(terminal.as_ref(), "x", NONBLOCKING), Err(Errno::EAGAIN));
    let writer = terminal.clone();
    let writer = thread::spawn(move || write(writer.as_ref(), "held", BLOCKING));
    far.type_bytes(b"\x11");
    assert_eq!(writer.join().unwrap(), Ok(4));
    far.expect("held");
}

#[test]
fn a_hang_up_is_the_end_for_readers_and_an_error_for_writers() {
    let (far, terminal) = terminal();
    let reader = terminal.clone();
    let reader = thread::spawn(move || read(reader.as_ref(), 10, BLOCKING));
    far.hang_up();
    assert_eq!(reader.join().unwrap().unwrap(), "");
    assert_eq!(write(terminal.as_ref(), "x", BLOCKING), Err(Errno::EIO));
    assert!(terminal.poll(None, NOBODY).contains(Ready::HANGUP));
}

#[test]
fn more_input_than_is_read_stays_with_the_port_and_comes_later() {
    let (far, terminal) = raw_terminal(1, 0);
    let sent: Vec<u8> = (0..20_000u32).map(|number| b'a' + (number % 26) as u8).collect();
    let expected = sent.clone();
    let typist = thread::spawn(move || {
        let mut rest = sent.as_slice();
        while !rest.is_empty() {
            let taken = far.type_bytes(rest);
            rest = &rest[taken..];
            thread::yield_now();
        }
    });
    let mut received = String::new();
    while received.len() < expected.len() {
        received += &read(terminal.as_ref(), 700, BLOCKING).unwrap();
    }
    typist.join().unwrap();
    assert!(received.as_bytes() == expected);
}

#[test]
fn a_stream_passes_bytes_as_they_are_and_ends_with_the_other_side() {
    let far = Arc::new(Far::default());
    let stream = Stream::new(far.clone());
    assert_eq!(read(stream.as_ref(), 1, NONBLOCKING), Err(Errno::EAGAIN));
    far.type_bytes(b"\x03\r\n");
    assert_eq!(read(stream.as_ref(), 100, BLOCKING).unwrap(), "\x03\r\n");
    write(stream.as_ref(), "a\nb", BLOCKING).unwrap();
    far.expect("a\nb");
    far.type_bytes(b"rest");
    far.hang_up();
    assert_eq!(read(stream.as_ref(), 100, BLOCKING).unwrap(), "rest");
    assert_eq!(read(stream.as_ref(), 100, BLOCKING).unwrap(), "");
    assert!(stream.poll(None, NOBODY).contains(Ready::HANGUP));
}

#[test]
fn a_stream_that_was_read_has_no_more_memory_than_before_much_came() {
    let far = Arc::new(Far::default());
    let stream = Stream::new(far.clone());
    let much = [b'x'; 30_000];
    assert_eq!(far.type_bytes(&much), much.len());
    while read(stream.as_ref(), 4096, NONBLOCKING).is_ok() {
        assert!(stream.room() >= stream.readable_bytes());
    }
    assert_eq!(stream.readable_bytes(), 0);
    assert!(stream.room() < 4096, "{} bytes of room", stream.room());
}

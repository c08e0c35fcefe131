//! The driver against a model of the chip.
use crate::probe;
use interfaces::terminal::{Port, PortSink};
use rt::host::{Registers, add_ports, raise_line};
use std::sync::{Arc, Condvar, Mutex};

#[derive(Default)]
struct ChipState {
    input: Vec<u8>,
    output: Vec<u8>,
    enabled: u8,
    scratch: u8,
    is_latched: bool,
    /// The transmitter says it is full that many times.
    busy: usize,
}

#[derive(Default)]
struct ChipModel(Mutex<ChipState>);

impl ChipModel {
    fn type_in(&self, bytes: &[u8]) {
        self.0.lock().unwrap().input.extend(bytes);
        raise_line(4);
    }
}

impl Registers for ChipModel {
    fn read(&self, offset: usize, _bytes: usize) -> u64 {
        let mut chip = self.0.lock().unwrap();
        u64::from(match offset {
            0 if chip.input.is_empty() => 0,
            0 => chip.input.remove(0),
            2 if chip.enabled & 1 != 0 && !chip.input.is_empty() => 4,
            2 if chip.enabled & 2 != 0 && chip.busy == 0 => 2,
            2 => 1,
            5 => {
                let has_room = chip.busy == 0;
                chip.busy = chip.busy.saturating_sub(1);
                u8::from(!chip.input.is_empty()) | if has_room { 0x60 } else { 0 }
            }
            7 => chip.scratch,
            _ => 0,
        })
    }
    fn write(&self, offset: usize, _bytes: usize, value: u64) {
        let mut chip = self.0.lock().unwrap();
        let value = value as u8;
        match offset {
            0 if !chip.is_latched => chip.output.push(value),
            1 if !chip.is_latched => chip.enabled = value,
            3 => chip.is_latched = value & 0x80 != 0,
            7 => chip.scratch = value,
            _ => {}
        }
        drop(chip);
        if offset == 1 {
            raise_line(4);
        }
    }
}

/// Takes input up to a limit.
struct Sink {
    state: Mutex<(Vec<u8>, usize, bool)>,
    changed: Condvar,
}

impl Sink {
    fn new(limit: usize) -> Arc<Sink> {
        Arc::new(Sink { state: Mutex::new((Vec::new(), limit, false)), changed: Condvar::new() })
    }
    fn wait_for(&self, bytes: &[u8]) {
        let state = self.state.lock().unwrap();
        drop(self.changed.wait_while(state, |(got, ..)| got != bytes).unwrap());
    }
}

impl PortSink for Sink {
    fn received(&self, bytes: &[u8]) -> usize {
        let mut state = self.state.lock().unwrap();
        let room = state.1 - state.0.len();
        let taken = bytes.len().min(room);
        state.0.extend(&bytes[..taken]);
        self.changed.notify_all();
        taken
    }
    fn connected(&self, is_open: bool) {
        self.state.lock().unwrap().2 = is_open;
    }
    fn resized(&self, _rows: u16, _columns: u16) {}
}

#[test]
fn bytes_go_both_ways_and_a_full_sink_is_offered_the_rest_again() {
    let chip = Arc::new(ChipModel::default());
    let _plugged = add_ports(0x3f8, 8, Some(4), chip.clone());
    let ports = probe();
    let port = ports.first().unwrap();
    assert_eq!(port.name(), "ttyS0");
    chip.type_in(b"early ");

    let sink = Sink::new(8);
    port.set_sink(sink.clone());
    sink.wait_for(b"early ");
    assert!(sink.state.lock().unwrap().2);
    chip.type_in(b"and late");
    sink.wait_for(b"early an");
    sink.state.lock().unwrap().1 = 100;
    port.resume();
    sink.wait_for(b"early and late");

    chip.0.lock().unwrap().busy = 2;
    assert_eq!(port.send(b"a line longer than the transmitter's buffer"), 43);
    port.drain();
    assert_eq!(chip.0.lock().unwrap().output, b"a line longer than the transmitter's buffer");
    port.stop();
}

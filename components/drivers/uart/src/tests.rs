//! Tests of the driver against a model of the chip.
use crate::probe;
use crate::{Uart, ledger};
use interfaces::terminal::{Port, PortSink, Position, Resumable};
use rt::{
    device::DmaBuffer,
    host::{DeviceRegisters, Life, add_ports, lives, raise_line, set_kept, set_life},
};
use std::sync::{Arc, Condvar, Mutex};

/// Taken by each test, because all share the machine's port addresses.
static MACHINE: Mutex<()> = Mutex::new(());

#[derive(Default)]
struct ChipState {
    input: Vec<u8>,
    output: Vec<u8>,
    enabled: u8,
    scratch: u8,
    is_latched: bool,
    /// A break came, and the status was not read since.
    has_broken: bool,
    /// Number of times the transmitter says that it is full.
    busy: usize,
}

#[derive(Default)]
struct ChipModel(Mutex<ChipState>);

impl ChipModel {
    fn type_in(&self, bytes: &[u8]) {
        self.0.lock().unwrap().input.extend(bytes);
        raise_line(4);
        raise_line(3);
    }
    /// Sends a break, as QEMU's chip receives it: a zero byte, and a bit in the status until that is read.
    fn send_break(&self) {
        self.0.lock().unwrap().has_broken = true;
        self.type_in(&[0]);
    }
    fn status(&self) -> u64 {
        self.read(5, 1)
    }
}

impl DeviceRegisters for ChipModel {
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
                let broke = if std::mem::take(&mut chip.has_broken) { 0x10 } else { 0 };
                u8::from(!chip.input.is_empty()) | broke | if has_room { 0x60 } else { 0 }
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
            2 if value & 2 != 0 => chip.input.clear(),
            3 => chip.is_latched = value & 0x80 != 0,
            7 => chip.scratch = value,
            _ => {}
        }
        drop(chip);
        if offset == 1 {
            raise_line(3);
            raise_line(4);
        }
    }
}

/// A sink that takes input up to a limit.
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
        if !lives() {
            return 0;
        }
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
    /// Shows a break as a bar among the bytes.
    fn broke(&self) {
        self.state.lock().unwrap().0.push(b'|');
        self.changed.notify_all();
    }
}

#[test]
fn bytes_go_both_ways_and_a_full_sink_is_offered_the_rest_again() {
    let _machine = MACHINE.lock().unwrap();
    let chip = Arc::new(ChipModel::default());
    let _plugged = add_ports(0x3f8, 8, Some(4), chip.clone());
    let ports = probe();
    let port = ports.first().unwrap();
    assert_eq!(port.name(), "ttyS0");
    // A chip loses input until it is set up.
    while chip.0.lock().unwrap().enabled & 1 == 0 {
        std::thread::yield_now();
    }
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

const TYPED: &[u8] = b"what is typed while drivers come and go, a little longer than a chip's FIFO";
const PRINTED: &[u8] =
    b"what is printed meanwhile, which also takes more than one look at the chip";

/// Ends a driver and waits until it is gone.
fn end(ports: Vec<Arc<Uart>>) {
    for port in ports {
        port.stop();
        // The last reference is dropped here, so that the ports are free when this returns.
        while Arc::strong_count(&port) > 1 {
            std::thread::yield_now();
        }
    }
}

/// Types and prints with a driver that lives for `life`, or for ever without one. Returns whether it died.
fn use_one(
    chip: &ChipModel,
    kept: &DmaBuffer,
    sink: &Arc<Sink>,
    is_typed: &mut bool,
    life: Option<&Arc<Life>>,
) -> bool {
    set_life(life.cloned());
    let ports = probe();
    if let Some(port) = ports.first() {
        let received = sink.state.lock().unwrap().0.len() as u64;
        // The client was never told how much was sent.
        let sent = port.pick_up(Position { received, sent: 0 });
        port.set_sink(sink.clone());
        set_life(None);
        while !*is_typed && life.is_none_or(|life| !life.is_over()) {
            // A chip loses input until it is set up.
            *is_typed = kept.load64(ledger::BYTES + 8) != 0;
            if *is_typed {
                chip.type_in(TYPED);
            }
        }
        set_life(life.cloned());
        if life.is_none_or(|life| !life.is_over()) {
            port.send(PRINTED.get(sent as usize..).unwrap());
        }
        let is_done = || sink.state.lock().unwrap().0.len() >= TYPED.len();
        while !is_done() && life.is_none_or(|life| !life.is_over()) {
            std::thread::yield_now();
        }
    }
    set_life(None);
    end(ports);
    life.is_some_and(|life| life.is_over())
}

#[test]
fn drivers_may_die_at_any_step_and_no_byte_is_lost_or_doubled() {
    let _machine = MACHINE.lock().unwrap();
    let chip = Arc::new(ChipModel::default());
    let _plugged = add_ports(0x2f8, 8, Some(3), chip.clone());
    let mut steps = 1;
    let mut has_died = true;
    while has_died {
        let kept = DmaBuffer::allocate(4 * ledger::BYTES).unwrap();
        set_kept(Some(&kept));
        let sink = Sink::new(TYPED.len() + PRINTED.len());
        let mut is_typed = false;
        *chip.0.lock().unwrap() = ChipState::default();
        // The successor lives as long; the third driver for ever.
        has_died = use_one(&chip, &kept, &sink, &mut is_typed, Some(&Life::of(steps)));
        use_one(&chip, &kept, &sink, &mut is_typed, Some(&Life::of(steps)));
        use_one(&chip, &kept, &sink, &mut is_typed, None);
        let got = String::from_utf8_lossy(&sink.state.lock().unwrap().0).into_owned();
        assert_eq!(got.as_bytes(), TYPED, "after {steps} steps: {got}");
        assert_eq!(chip.0.lock().unwrap().output, PRINTED, "after {steps} steps");
        steps += 1;
    }
    set_kept(None);
    assert!(steps > TYPED.len() + PRINTED.len(), "{steps} steps");
}

#[test]
fn a_client_begins_behind_one_that_has_ended_whether_the_driver_was_restarted_or_not() {
    let _machine = MACHINE.lock().unwrap();
    let chip = Arc::new(ChipModel::default());
    let _plugged = add_ports(0x2f8, 8, Some(3), chip.clone());
    let kept = DmaBuffer::allocate(4 * ledger::BYTES).unwrap();
    set_kept(Some(&kept));
    let ports = probe();
    let port = ports.first().unwrap();
    assert_eq!(port.position(), Position::default());
    port.pick_up(Position::default());
    while chip.0.lock().unwrap().enabled & 1 == 0 {
        std::thread::yield_now();
    }
    let sink = Sink::new(3);
    port.set_sink(sink.clone());
    chip.type_in(b"abcd");
    sink.wait_for(b"abc");
    port.send(b"printed");
    // The port's thread notes what the sink took after it has told it.
    while port.position().received < 3 {
        std::thread::yield_now();
    }
    let position = Position { received: 3, sent: 7 };
    assert_eq!(port.position(), position);
    assert_eq!(port.pick_up(position), 7);
    let another = Sink::new(3);
    port.set_sink(another.clone());
    another.wait_for(b"d");
    end(ports);
    let ports = probe();
    let port = ports.first().unwrap();
    assert_eq!(port.position(), Position { received: 4, sent: 7 });
    end(ports);
    set_kept(None);
}

#[test]
fn a_break_is_told_behind_what_came_before_it_whoever_reads_the_status() {
    let _machine = MACHINE.lock().unwrap();
    for first in [0x2f8, 0x3f8] {
        let chip = Arc::new(ChipModel::default());
        let line = if first == 0x3f8 { 4 } else { 3 };
        let _plugged = add_ports(first, 8, Some(line), chip.clone());
        let ports = probe();
        let port = ports.first().unwrap();
        while chip.0.lock().unwrap().enabled & 1 == 0 {
            std::thread::yield_now();
        }
        let sink = Sink::new(100);
        port.set_sink(sink.clone());
        chip.type_in(b"ab");
        sink.wait_for(b"ab");
        chip.send_break();
        sink.wait_for(b"ab\0|");
        chip.type_in(b"cd");
        sink.wait_for(b"ab\0|cd");
        // A sender's look at the status finds a break before the port's thread is told of the byte.
        chip.0.lock().unwrap().has_broken = true;
        port.send(b"out");
        sink.wait_for(b"ab\0|cd|");
        if first == 0x3f8 {
            // The nucleus took the report away.
            chip.0.lock().unwrap().has_broken = true;
            chip.status();
            chip.type_in(&[0]);
            sink.wait_for(b"ab\0|cd|\0|");
        }
        end(ports);
    }
}

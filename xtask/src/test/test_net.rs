//! The network card of a system test: a wire to a peer of smoltcp, with faults (`docs/wire.md`).
//!
//! The peer is 10.0.0.1 and fd00::1; the machine is to take 10.0.0.2 and fd00::2. All frames are in `build/system-test-N.pcapng`, for the Nth of the machines that run at once.
//! The machine's session orders questions from the peer ([`Orders`]).
use super::test_attacks::Attack;
use anyhow::{Context, Result};
use harness::{qemu::Config, session::Streams};
use serde::Deserialize;
use std::{
    io::{self, Read, Write},
    path::PathBuf,
    sync::mpsc,
    thread,
    time::Duration,
};
use wire::{
    Addresses, Counters, Faults, Peer, Port, Settings, Wire,
    peer::{Asking, Handle, Kinds},
};

/// A network card as a test describes it.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Description {
    /// The faults follow from it.
    seed: u64,
    /// Faults of frames from the machine.
    sent: Faults,
    /// Faults of frames to the machine.
    received: Faults,
}

/// Number of the peer, by which its addresses follow.
pub const PEER: u8 = 1;
/// Number of the machine.
pub const MACHINE: u8 = 2;

impl Description {
    /// Describes a card whose wire loses frames with probability `loss` in both directions.
    pub fn lossy(seed: u64, loss: f64) -> Description {
        let faults = Faults { loss, ..Faults::default() };
        Description { seed, sent: faults, received: faults }
    }

    /// Starts the peer and the wire, whose frames are written to `capture`, if any. Returns them, and QEMU's arguments for the
    /// card of that machine.
    ///
    /// # Errors
    /// Fails if the faults are wrong, or without rights in `build/`.
    pub fn start(
        &self,
        config: &Config,
        capture: Option<PathBuf>,
    ) -> Result<(Wire, Handle, Vec<String>)> {
        let port = Port::new()?;
        let [a, b, c, d, e, f] = Addresses::of(MACHINE).ethernet;
        let mac = format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}");
        let [option, card] = config.card("net0", &mac);
        let backing = port.netdev("net0");
        let (peer, handle) = Peer::new(&Addresses::of(PEER), self.seed)?;
        let settings = Settings {
            seed: self.seed,
            faults: [self.sent, self.received],
            capture,
            ..Settings::default()
        };
        let wire = Wire::start(&settings, [Box::new(port), Box::new(peer)])?;
        Ok((wire, handle, vec!["-netdev".to_owned(), backing, option, card]))
    }

    /// Judges a wire whose machine is off: each fault has happened.
    pub fn judge(&self, wire: Wire) -> std::result::Result<(), String> {
        let counters = wire.finish().map_err(|why| format!("{why:#}"))?;
        let all = [("sent", self.sent, counters[0]), ("received", self.received, counters[1])];
        for (direction, faults, counters) in all {
            if let Some(name) = absent(&faults, &counters) {
                return Err(format!("no frame {direction} met the {name}: {counters:?}"));
            }
        }
        Ok(())
    }
}

/// Returns the name of a fault that was asked for and did not happen.
fn absent(faults: &Faults, counters: &Counters) -> Option<&'static str> {
    let all = [
        ("loss", faults.loss, counters.lost),
        ("duplication", faults.duplication, counters.doubled),
        ("corruption", faults.corruption, counters.corrupted),
        ("reordering", faults.reordering, counters.reordered),
    ];
    let absent = all.iter().find(|(_, chance, count)| *chance > 0.0 && *count == 0);
    absent.map(|(name, ..)| *name)
}

/// Time that the machine has for the next answers, with a boot.
const PATIENCE: Duration = Duration::from_secs(200);
/// The word before an order.
const WORD: &str = "ask ";

/// An order of the session: `ask COUNT AT-ONCE EVERY` on a line of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Order {
    /// Number of questions.
    count: u64,
    /// Questions that wait for answers at once.
    at_once: usize,
    /// The session is told each time that so many are answered.
    every: u64,
}

impl Order {
    fn parse(line: &str) -> Option<Order> {
        let mut words = line.strip_prefix(WORD)?.split_whitespace().map(str::parse);
        let mut next = || words.next()?.ok();
        let (count, at_once, every) = (next()?, next()?, next()?);
        (every > 0 && at_once > 0).then_some(Order { count, at_once: at_once as usize, every })
    }

    /// Asks, and tells the session of the answers: `answered N` and at last `all answered`, or the reason why not. With each
    /// it sends a frame to a machine that is not there, which a card with a filter must not take.
    fn carry_out(self, peer: &Handle, told: &mpsc::Sender<String>) -> Result<()> {
        let Order { count, at_once, every } = self;
        peer.ask(Asking { to: Addresses::of(MACHINE), count, at_once, kinds: Kinds::All });
        let mut wanted = every.min(count);
        loop {
            let answers = peer.wait_for_answers(wanted, PATIENCE)?;
            peer.send_frame(stray_frame());
            let text = match answers.wrong {
                Some(wrong) => format!("wrong: {wrong}"),
                None if wanted >= count => "all answered".to_owned(),
                None => format!("answered {wanted}"),
            };
            let is_over = !text.starts_with("answered");
            told.send(text + "\n").context("the session has ended")?;
            if is_over {
                return Ok(());
            }
            wanted = (wanted + every).min(count);
        }
    }
}

/// Returns a frame of no protocol to a machine that is not there.
fn stray_frame() -> Vec<u8> {
    const STRAY: u8 = 0x99;
    const EXPERIMENTAL: [u8; 2] = [0x88, 0xb5];
    let mut frame = [Addresses::of(STRAY).ethernet, Addresses::of(PEER).ethernet].concat();
    frame.extend(EXPERIMENTAL);
    frame.resize(60, 0);
    frame
}

/// Carries a line's order out, and tells the session of it.
type CarryOut = Box<dyn Fn(&str, &mpsc::Sender<String>) -> Result<()> + Send>;

/// The orders that a session gives, a line each, and the function that carries them out.
pub struct Orders {
    /// Returns whether a line is an order.
    pub is_order: fn(&str) -> bool,
    /// Carries an order out, and tells the session of it.
    pub carry_out: CarryOut,
}

/// Returns the orders to `peer`: questions, and attacks.
pub fn orders_to(peer: Handle) -> Orders {
    Orders {
        is_order: |line| Order::parse(line).is_some() || Attack::parse(line).is_some(),
        carry_out: Box::new(move |line, told| {
            if let Some(order) = Order::parse(line) {
                return order.carry_out(&peer, told);
            }
            let Some(attack) = Attack::parse(line) else { return Ok(()) };
            attack.carry_out(&peer);
            told.send("attacked\n".to_owned()).context("the session has ended")
        }),
    }
}

/// Finds orders in the machine's output and passes the rest on.
struct OrderFinder {
    line: Vec<u8>,
    is_order: fn(&str) -> bool,
    orders: mpsc::Sender<String>,
    rest: Box<dyn Write + Send>,
}

/// Tells the machine what became of its orders, behind its input.
struct OrderReports {
    input: Box<dyn Read + Send>,
    lines: mpsc::Receiver<String>,
    line: io::Cursor<Vec<u8>>,
}

/// Returns `streams` with the orders of the session carried out.
pub fn with_orders(streams: Streams, Orders { is_order, carry_out }: Orders) -> Streams {
    let (orders, ordered) = mpsc::channel::<String>();
    let (teller, lines) = mpsc::channel();
    // The thread ends with the machine's output.
    thread::spawn(move || {
        for order in ordered {
            if let Err(why) = carry_out(&order, &teller) {
                let _ = teller.send(format!("wrong: {why:#}\n"));
            }
        }
    });
    let (line, rest) = (Vec::new(), streams.output);
    Streams {
        input: Box::new(OrderReports { input: streams.input, lines, line: io::Cursor::default() }),
        output: Box::new(OrderFinder { line, is_order, orders, rest }),
        error: streams.error,
    }
}

impl Write for OrderFinder {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        for byte in data {
            self.line.push(*byte);
            if *byte != b'\n' {
                continue;
            }
            let line = std::mem::take(&mut self.line);
            let text = String::from_utf8_lossy(&line);
            if (self.is_order)(&text) {
                // The thread that carries them out ends later than this.
                self.orders.send(text.into_owned()).map_err(io::Error::other)?;
            } else {
                self.rest.write_all(&line)?;
            }
        }
        Ok(data.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        self.rest.flush()
    }
}

impl Drop for OrderFinder {
    fn drop(&mut self) {
        // A last line without an end.
        let _ = self.rest.write_all(&self.line);
    }
}

impl Read for OrderReports {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let count = self.input.read(out)?;
        if count > 0 {
            return Ok(count);
        }
        let count = self.line.read(out)?;
        if count > 0 {
            return Ok(count);
        }
        let Ok(line) = self.lines.recv() else { return Ok(0) };
        self.line = io::Cursor::new(line.into_bytes());
        self.line.read(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_carried_out_and_other_lines_pass() {
        let order = Order { count: 8, at_once: 2, every: 3 };
        assert_eq!(Order::parse("ask 8 2 3\n"), Some(order));
        for wrong in ["ask 8 2\n", "ask 8 2 0\n", "ask 8 0 1\n", "asked 1 1 1\n"] {
            assert_eq!(Order::parse(wrong), None, "{wrong}");
        }
        // At the other end of the wire is a peer, which answers like a machine.
        let (machine, _) = Peer::new(&Addresses::of(MACHINE), 2).unwrap();
        let (peer, handle) = Peer::new(&Addresses::of(PEER), 1).unwrap();
        let wire = Wire::start(&Settings::default(), [Box::new(machine), Box::new(peer)]).unwrap();
        let output = harness::session::Captured::default();
        let streams = Streams {
            input: Box::new(io::Cursor::new(b"first\n")),
            output: Box::new(output.clone()),
            error: Box::new(io::sink()),
        };
        let Streams { mut input, output: mut out, .. } = with_orders(streams, orders_to(handle));
        out.write_all(b"one\nask 8 2 3\ntwo").unwrap();
        drop(out);
        let mut told = String::new();
        input.read_to_string(&mut told).unwrap();
        assert_eq!(told, "first\nanswered 3\nanswered 6\nall answered\n");
        assert_eq!(output.take(), b"one\ntwo");
        assert!(wire.finish().is_ok());
    }

    #[test]
    fn a_fault_that_did_not_happen_is_named() {
        let faults = Faults { loss: 0.1, reordering: 0.1, ..Faults::default() };
        let counters = Counters { lost: 1, ..Counters::default() };
        assert_eq!(absent(&faults, &counters), Some("reordering"));
        assert_eq!(absent(&faults, &Counters { reordered: 1, ..counters }), None);
        assert_eq!(absent(&Faults::default(), &Counters::default()), None);
    }
}

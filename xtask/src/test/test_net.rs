//! The network card of a system test: a wire to a peer of smoltcp, with faults (`docs/wire.md`).
//!
//! The peer is 10.0.0.1 and fd00::1; the machine is to take 10.0.0.2 and fd00::2. All frames are in `build/test-net.pcapng`.
use anyhow::Result;
use harness::shell;
use serde::Deserialize;
use wire::{Addresses, Counters, Faults, Peer, Port, Settings, Wire};

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
const PEER: u8 = 1;
/// Number of the machine.
const MACHINE: u8 = 2;

impl Description {
    /// Starts the peer and the wire. Returns the wire, and QEMU's arguments for the card.
    ///
    /// # Errors
    /// Fails if the faults are wrong, or without rights in `build/`.
    pub fn start(&self) -> Result<(Wire, Vec<String>)> {
        let port = Port::new()?;
        let [a, b, c, d, e, f] = Addresses::of(MACHINE).ethernet;
        let device = format!(
            "virtio-net-pci,disable-legacy=on,iommu_platform=on,romfile=,netdev=net0,mac={a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}"
        );
        let backing = port.netdev("net0");
        let (peer, _) = Peer::new(&Addresses::of(PEER), self.seed)?;
        let settings = Settings {
            seed: self.seed,
            faults: [self.sent, self.received],
            capture: Some(shell::build_path("test-net.pcapng")?),
            ..Settings::default()
        };
        let wire = Wire::start(&settings, [Box::new(port), Box::new(peer)])?;
        let arguments = ["-netdev", &backing, "-device", &device].map(str::to_owned);
        Ok((wire, arguments.to_vec()))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_that_did_not_happen_is_named() {
        let faults = Faults { loss: 0.1, reordering: 0.1, ..Faults::default() };
        let counters = Counters { lost: 1, ..Counters::default() };
        assert_eq!(absent(&faults, &counters), Some("reordering"));
        assert_eq!(absent(&faults, &Counters { reordered: 1, ..counters }), None);
        assert_eq!(absent(&Faults::default(), &Counters::default()), None);
    }
}

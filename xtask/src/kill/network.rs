//! The other end of the network when `./x kill` kills the driver of its card, or the stack: a peer (`docs/wire.md`) behind a wire that loses frames. The
//! load is `tests/abi/src/bin/kill_component/network.rs`.
use crate::test::test_net::Description;
use anyhow::Result;
use harness::qemu::Config;
use std::path::PathBuf;
use wire::{Wire, peer::Handle};

/// The driver of network cards.
pub const CARD: &str = "virtio-net";
/// The network stack.
pub const STACK: &str = "inet";
/// The commands before the load: the interface gets its address.
pub const PREPARATION: &str = "ifconfig eth0 10.0.0.2 netmask 255.255.255.0 up && ";
/// Probability that a frame is lost, in both directions.
const LOSS: f64 = 0.01;

/// The peer and the wire.
pub struct Ends {
    description: Description,
    wire: Wire,
    peer: Handle,
}

impl Ends {
    /// Starts them, and gives the machine its card. Frames are written to `capture`, if any.
    ///
    /// # Errors
    /// Fails without rights in `build/`, or if the capture cannot be written.
    pub fn start(config: &mut Config, seed: u64, capture: Option<PathBuf>) -> Result<Ends> {
        let description = Description::lossy(seed, LOSS);
        let (wire, peer, arguments) = description.start(config, capture)?;
        config.extra.extend(arguments);
        Ok(Ends { description, wire, peer })
    }

    /// Returns lines about what the peer and the wire have seen, and whether nothing was wrong.
    pub fn finish(self) -> (Vec<String>, bool) {
        let served = self.peer.served();
        let [sent, received] = self.wire.counters();
        let mut notes = vec![
            format!("the peer: {served:?}"),
            format!("frames from the machine: {sent:?}"),
            format!("frames to the machine: {received:?}"),
        ];
        let verdict = self.description.judge(self.wire);
        notes.extend(verdict.clone().err().map(|why| format!("wrong: {why}")));
        (notes, verdict.is_ok())
    }
}

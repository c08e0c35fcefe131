//! A component that may run programs (`tests/components/hostile-programs`).
use super::{
    Life,
    victims::{Victims, soon},
};
use crate::{costs::components, domains};
use alloc::{format, sync::Arc, vec};
use calls::{Grants, MAY_READ};
use nucleus::{
    capability::{Capability, Lender},
    memory::statistics,
    thread::{Endpoint, Policy},
};

const MEMORY_BYTES: usize = 4 << 20;
/// Threads: those that make calls, and those that they start.
const THREADS: usize = 10;
/// Frames by which the kernel's heap may grow meanwhile.
const HEAP_FRAMES: u64 = 200;

/// Starts one life of the hostile component.
pub(super) fn begin(seed: u64, victims: &Victims) -> Life {
    start(&format!("{seed:020}"), victims)
}

/// Tests attempts that must fail: the component ends by itself if they do.
pub fn attempts_fail() {
    let before = statistics().heap_frames;
    let victims = Victims::start();
    let Life { domain, .. } = start("", &victims);
    let end = loop {
        match domain.wait_end(soon(1_000_000).deadline_ns) {
            Some(end) => break end,
            None => assert!(statistics().heap_frames < before + HEAP_FRAMES, "the heap grows"),
        }
    };
    assert_eq!(end.cause, "its last thread ended", "{:x?}", end.calls);
    victims.end();
}

fn start(command_line: &str, victims: &Victims) -> Life {
    let grants = Grants {
        command_line: command_line.into(),
        can_run: true,
        memory_bytes: MEMORY_BYTES,
        threads: THREADS,
        policy: Policy::Fair { nice: 10 },
        ..domains::grants(0)
    };
    let loaded =
        components::load_with("hostile-programs", grants).expect("a kernel with its components");
    let guarded = Capability::Region(victims.guarded.clone().into());
    let (readable, _) = guarded.give(MAY_READ, 0).expect("a derivation");
    let mut held = vec![
        domains::serve(&Arc::new(Endpoint::new())),
        readable,
        domains::call(&victims.giver),
        Capability::Lender(Lender::default()),
    ];
    held.extend(victims.endpoints.iter().map(domains::call));
    loaded.start(held);
    Life { domain: loaded.domain, memory_bytes: MEMORY_BYTES, stuck_ns: 200_000_000 }
}

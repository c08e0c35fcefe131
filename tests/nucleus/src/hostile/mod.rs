//! Hostile components, and others beside them that must not be affected (K3, X5).
//!
//! Each kind of hostile component ends often, by itself or killed, and is started again. `component` makes random calls of any
//! kind; `personality` may run programs (L3). `victims` are the others.
mod component;
mod personality;
mod victims;

use alloc::sync::Arc;
use core::sync::atomic::Ordering::Relaxed;
use nucleus::{domain::Domain, params, time};
pub use personality::attempts_fail;
use victims::{Victims, soon};

/// The greatest number of kernel calls of one life.
const LIFE: u64 = 40_000;

/// One life of a hostile component.
struct Life {
    domain: Arc<Domain>,
    /// Memory that it was granted.
    memory_bytes: usize,
    /// Nanoseconds without a call after which it is ended.
    stuck_ns: u64,
}

/// Makes random calls of any kind, see [`harms_nobody`].
pub fn component_harms_nobody() {
    harms_nobody("component", component::begin);
}

/// Makes random calls of a component that runs programs, see [`harms_nobody`].
pub fn personality_harms_nobody() {
    harms_nobody("personality", personality::begin);
}

/// Makes as many kernel calls as the parameter `skerry.calls` says, or a few without it, in lives that `begin` starts, and checks
/// the victims.
fn harms_nobody(kind: &str, begin: fn(u64, &Victims) -> Life) {
    let total = params::number("skerry.calls").unwrap_or(100_000);
    let seed = params::number("skerry.seed").unwrap_or(1) << 32;
    let victims = Victims::start();
    let (mut lives, mut told, mut calls) = (0, 0, 0);
    while calls < total {
        lives += 1;
        let life = begin(seed + lives, &victims);
        life.watch(total - calls);
        life.domain.kill("it has lived long enough");
        calls += life.domain.usage().calls;
        if calls / 1_000_000 > told {
            told = calls / 1_000_000;
            log::info!("hostile {kind}: {calls} calls in {lives} lives");
        }
    }
    victims.end();
    let [exchanges, wanted_ns, busy_ns] =
        [&victims.exchanges, &victims.wanted_ns, &victims.busy_ns].map(|count| count.load(Relaxed));
    log::info!(
        "hostile {kind}: {calls} calls in {lives} lives; beside it {exchanges} calls were answered, and a busy thread had {} %",
        busy_ns * 100 / wanted_ns
    );
    assert!(exchanges > lives, "others are kept from each other");
    assert!(busy_ns > wanted_ns / 4, "others are kept from the processor");
}

impl Life {
    /// Watches the component until it has ended, makes no more calls, or has made `most` or lived long enough, and checks that it
    /// never has more memory than granted.
    fn watch(&self, most: u64) {
        let (mut last, mut seen_ns) = (0, time::now_ns());
        while self.domain.wait_end(soon(1_000_000).deadline_ns).is_none() {
            let usage = self.domain.usage();
            assert!(usage.memory_bytes <= self.memory_bytes, "more memory than granted");
            let (now, now_ns) = (usage.calls, time::now_ns());
            if now >= most.min(LIFE) || (now == last && now_ns - seen_ns > self.stuck_ns) {
                return;
            }
            if now != last {
                (last, seen_ns) = (now, now_ns);
            }
        }
    }
}

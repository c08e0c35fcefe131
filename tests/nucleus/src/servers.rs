//! Tests with components that run programs (`bench/src/bin/program-server.rs`).
use crate::{
    costs::components::{self, Loaded},
    domains, messages,
};
use alloc::{sync::Arc, vec, vec::Vec};
use calls::Grants;
use nucleus::{
    thread::{self, Endpoint, Wait},
    time,
};

const MEMORY_BYTES: usize = 32 << 20;
/// Number of components that are killed. The suite runs twice a boot.
const KILLS: u32 = 500;
/// Each second component is killed so much later after its start than the one before it.
const STEP_NS: u64 = 10_000;

fn load_with(command_line: &str, share_percent: u8) -> Option<Loaded> {
    let grants = Grants {
        can_run: true,
        memory_bytes: MEMORY_BYTES,
        command_line: command_line.into(),
        share_percent,
        ..domains::big_grants()
    };
    components::load_with("program-server", grants)
}

/// Loads a component in which everything of `rt::user` is tested, with a share of the processors; `None` if it was not built.
pub fn load(share_percent: u8) -> Option<Loaded> {
    load_with("", share_percent)
}

/// Checks that the component has found no fault.
pub fn check_end(server: &Loaded) {
    let end = server.domain.wait_end(None).expect("an end");
    assert_eq!(end.cause, "its last thread ended", "{:x?}", end.calls);
}

/// Tests a component that runs programs, and that nothing of it is left.
pub fn runs_programs() {
    let Some(server) = load(100) else {
        return log::warn!("selftest: built without program-server");
    };
    server.start(Vec::new());
    check_end(&server);
}

/// Tests that a component can be killed at any moment, from its first step on and while its programs run, and that nothing of it
/// or of its programs is left.
pub fn killed_with_their_programs() {
    for kill in 0..KILLS {
        let Some(server) = load_with("program-server.serves", 100) else {
            return log::warn!("selftest: built without program-server");
        };
        let endpoint = Arc::new(Endpoint::new());
        server.start(vec![domains::serve(&endpoint)]);
        if kill % 2 == 0 {
            // It answers when its programs run.
            endpoint.call(&mut messages::message(0), Wait::default()).expect("an answer");
        } else {
            let moment_ns = time::now_ns() + u64::from(kill) * STEP_NS;
            thread::park(Some(moment_ns), thread::Sleep::Uninterruptible);
        }
        server.domain.kill("the test");
        let end = server.domain.wait_end(None).expect("an end");
        assert_eq!(end.cause, "the test", "kill {kill}: {:x?}", end.calls);
        assert_eq!(server.domain.usage().threads, 0);
    }
}

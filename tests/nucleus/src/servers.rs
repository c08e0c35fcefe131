//! Tests with components that run programs (`bench/src/bin/program-server.rs`).
use crate::{costs::components, domains, messages};
use alloc::{sync::Arc, vec, vec::Vec};
use calls::Grants;
use nucleus::thread::{self, Endpoint, Wait};

const MEMORY_BYTES: usize = 32 << 20;
/// Number of components that are killed.
const KILLS: u32 = 1000;

fn load(command_line: &str) -> Option<components::Loaded> {
    let grants = Grants {
        can_run: true,
        memory_bytes: MEMORY_BYTES,
        command_line: command_line.into(),
        ..domains::big_grants()
    };
    let server = components::load_with("program-server", grants);
    if server.is_none() {
        log::warn!("selftest: built without program-server");
    }
    server
}

/// Tests a component in which everything of `rt::user` is tested, and that nothing of it is left.
pub fn runs_programs() {
    let Some(server) = load("") else { return };
    server.start(Vec::new());
    let end = server.domain.wait_end(None).expect("an end");
    assert_eq!(end.cause, "its last thread ended", "{:x?}", end.calls);
}

/// Tests that a component can be killed at any moment, from its first step on and while its programs run, and that nothing of it
/// or of its programs is left.
pub fn killed_with_their_programs() {
    for kill in 0..KILLS {
        let Some(server) = load("program-server.serves") else { return };
        let endpoint = Arc::new(Endpoint::new());
        server.start(vec![domains::serve(&endpoint)]);
        if kill % 2 == 0 {
            // It answers when its programs run.
            endpoint.call(&mut messages::message(0), Wait::default()).expect("an answer");
        } else {
            (0..kill).for_each(|_| thread::yield_now());
        }
        server.domain.kill("the test");
        let end = server.domain.wait_end(None).expect("an end");
        assert_eq!(end.cause, "the test", "kill {kill}: {:x?}", end.calls);
        assert_eq!(server.domain.usage().threads, 0);
    }
}

//! Tests with components that run programs (`bench/src/bin/program-server.rs`).
use crate::{costs::components, domains};
use alloc::vec::Vec;
use calls::Grants;

const MEMORY_BYTES: usize = 32 << 20;

/// Tests a component in which everything of `rt::user` is tested, and that nothing of it is left.
pub fn runs_programs() {
    let grants = Grants { can_run: true, memory_bytes: MEMORY_BYTES, ..domains::big_grants() };
    let Some(server) = components::load_with("program-server", grants) else {
        return log::warn!("selftest: built without program-server");
    };
    server.start(Vec::new());
    let end = server.domain.wait_end(None).expect("an end");
    assert_eq!(end.cause, "its last thread ended", "{:x?}", end.calls);
}

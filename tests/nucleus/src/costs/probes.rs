//! The cost of messages: each measurement is repeated with several counts, so that whoever reads the log takes what
//! starting and ending cost out by regression (`xtask/bench`). A line is `bench: NAME: COUNT NS`.
use super::components::{
    self, Parameters, client, copier, lister, long_client, long_server, nothing, pair, server,
    signaller, slow_server, waiter,
};
use crate::{
    domains::{call, serve, with},
    program::{start, with_code},
};
use alloc::{format, sync::Arc, vec::Vec};
use calls::{IMAGE_BASE, MAY_READ};
use ipc::INLINE_WORDS;
use nucleus::{
    arch::user::run,
    capability::{Capability, Window},
    memory::PAGE,
    params,
    thread::{self, Endpoint},
    time,
};

const COUNTS: [u64; 4] = [2000, 4000, 6000, 8000];
const LENGTHS: [u64; 7] = [0, 1, 4, 8, 16, 32, 64];
const CLIENTS: [u64; 4] = [1, 10, 100, 1000];

/// Measurements of copies between two components: name, code, bytes of a piece.
const COPIES: [(&str, fn() -> &'static [u8], u64); 3] = [
    ("copy of 64", copier, 64),
    ("copy of 4096", copier, 4096),
    ("copy of 16 times 64", lister, 64),
];

/// Times `act` with each count, which it does `factor` times over.
fn probe(name: &str, counts: &[u64], factor: u64, mut act: impl FnMut(u64)) {
    act(counts[0]);
    for &count in counts {
        let start_ns = time::now_ns();
        act(count);
        log::info!("bench: {name}: {} {}", count * factor, time::now_ns() - start_ns);
    }
}

/// Measures one after the other.
pub fn report() {
    spaces();
    probe("nothing", &COUNTS, 1, |count| {
        let domain = components::start(nothing(), parameters(count), Vec::new());
        assert_eq!(domain.wait_end(None).expect("an end").cause, "its last thread ended");
    });
    for words in LENGTHS {
        probe(&format!("call {words} words"), &COUNTS, 1, |count| {
            calls(Parameters { words, ..parameters(count) });
        });
    }
    probe("local call 4 words", &COUNTS, 1, local_calls);
    probe("notification", &COUNTS, 2, notifications);
    for (name, code, bytes) in COPIES {
        probe(name, &COUNTS, 1, |count| {
            copies(code(), Parameters { words: bytes, ..parameters(count) })
        });
    }
    loaded("plain-server", "plain-client");
    loaded("interface-server", "interface-client");
    for threads in CLIENTS {
        let counts = COUNTS.map(|count| (count / threads).max(4 * count / COUNTS[0]));
        probe(&format!("{threads} clients"), &counts, threads, |count| {
            serve_calls(slow_server(), Parameters { threads, ..parameters(count) });
        });
    }
}

/// Measures a system call from one space, and from two in turn: the cost of changing the space.
fn spaces() {
    // The code is: 1: syscall; jmp 1b
    let spaces = [(); 2].map(|()| with_code(&[0x0f, 0x05, 0xeb, 0xfc]));
    for (name, used) in [("system call", 1), ("system call in turn", 2)] {
        let mut registers = [start(), start()];
        probe(name, &COUNTS, 1, |count| {
            for round in 0..count as usize {
                let at = round % used;
                run(&mut registers[at], &spaces[at]);
            }
        });
    }
}

/// Calls for ever, so that an observer sees each instruction.
pub fn trace() {
    log::info!("bench: calling");
    let count = u64::from(u32::MAX);
    match params::number("skerry.trace") {
        Some(1) => local_calls(count),
        Some(2) => notifications(count),
        Some(3) => probe("nothing", &[count], 1, |count| {
            components::start(nothing(), parameters(count), Vec::new()).wait_end(None);
        }),
        Some(4) => loaded("interface-server", "interface-client"),
        Some(5) => loaded("plain-server", "plain-client"),
        _ => calls(parameters(count)),
    }
}

/// Measures a server and its client in one domain.
fn local_calls(count: u64) {
    let endpoint = Arc::new(Endpoint::new());
    let both = Parameters { threads: 2, ..parameters(count) };
    let domain = components::start(pair(), both, [serve(&endpoint)].into());
    let end = domain.wait_end(None).expect("an end");
    assert!(end.cause.starts_with("exception 6"), "{}", end.cause);
}

/// Runs a server and its client, both in Rust; the client measures by itself.
fn loaded(server: &str, client: &str) {
    let endpoint = Arc::new(Endpoint::new());
    let (serving, calling) = (components::load(server), components::load(client));
    let (Some(serving), Some(calling)) = (serving, calling) else {
        return log::warn!("bench: built without {server} and {client}");
    };
    serving.start([serve(&endpoint)].into());
    calling.start([call(&endpoint)].into());
    let end = calling.domain.wait_end(None).expect("an end");
    let is_well = end.cause == "its last thread ended" || end.cause.starts_with("done ");
    assert!(is_well, "{}", end.cause);
    serving.domain.kill("done");
}

/// Measures copies from another component.
fn copies(code: &[u8], parameters: Parameters) {
    let owner = with(&[0; PAGE], 0, Vec::new());
    let window = Window::new(owner.space().inner(), IMAGE_BASE, PAGE as u64, MAY_READ);
    let held = Capability::Window(window.expect("a window"));
    let copying = components::start(code, parameters, [held].into());
    assert_eq!(copying.wait_end(None).expect("an end").cause, "its last thread ended");
    owner.kill("done");
}

fn parameters(count: u64) -> Parameters {
    Parameters { count, threads: 1, words: 4 }
}

/// Returns whether the words of a message do not fit in registers.
fn is_long(parameters: Parameters) -> bool {
    parameters.words > INLINE_WORDS as u64
}

/// Measures a server and the clients of `parameters`, each in its own domain.
fn calls(parameters: Parameters) {
    let server = if is_long(parameters) { long_server() } else { server() };
    serve_calls(server, parameters);
}

fn serve_calls(code: &[u8], parameters: Parameters) {
    let endpoint = Arc::new(Endpoint::new());
    let one = Parameters { threads: 1, ..parameters };
    let serving = components::start(code, one, [serve(&endpoint)].into());
    thread::yield_now();
    let client = if is_long(parameters) { long_client() } else { client() };
    let calling = components::start(client, parameters, [call(&endpoint)].into());
    assert_eq!(calling.wait_end(None).expect("an end").cause, "its last thread ended");
    serving.kill("done");
}

fn notifications(count: u64) {
    let (here, there) = (Arc::new(Endpoint::new()), Arc::new(Endpoint::new()));
    let waiting =
        components::start(waiter(), parameters(count), [serve(&there), call(&here)].into());
    thread::yield_now();
    let held = [serve(&here), call(&there)].into();
    let signalling = components::start(signaller(), parameters(count), held);
    assert_eq!(signalling.wait_end(None).expect("an end").cause, "its last thread ended");
    waiting.kill("done");
}

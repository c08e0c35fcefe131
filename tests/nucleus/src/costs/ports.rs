//! The cost of accesses of ports, by four ways: the component `ports` of `bench/` makes them and times itself. A line is
//! `ports: WAY FORM: ROUNDS SUM SQUARES`, read by `xtask/bench/src/suites/minix.rs`.
//!
//! The first way is a message to a task here, as MINIX 3's drivers ask its system task: a thread of the kernel world
//! that checks the port and accesses it. Its messages are those of `bench/src/serial.rs`.
use super::components;
use crate::domains;
use alloc::{boxed::Box, sync::Arc};
use calls::PortStep;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use ipc::{Header, MESSAGE_WORDS, Message};
use nucleus::{
    device,
    domain::{Grants, PortAccess},
    thread::{self, Endpoint, Policy, Wait},
};

const PORTS: (u16, u16) = (0x2f8, 8);
const WAY: u64 = 0;
const ONE: u64 = 1;
const STRING: u64 = 2;
const LIST: u64 = 3;
const STOP: u64 = 4;

/// Measures each way after the other.
pub fn report() {
    let ways = [
        (1, None),
        (2, Some(PortAccess::Call)),
        (3, Some(PortAccess::Map)),
        (4, Some(PortAccess::Trap)),
    ];
    for (way, access) in ways {
        let endpoint = Arc::new(Endpoint::new());
        let own = endpoint.clone();
        let body: thread::Body = Box::new(Box::new(move || serve(&own, way)));
        thread::spawn("task", Policy::Fair { nice: 0 }, body)
            .expect("no memory for a test's thread");
        let ports = if access.is_some() { [PORTS].into() } else { [].into() };
        let port_access = access.unwrap_or_default();
        let grants = Grants { ports, port_access, ..domains::big_grants() };
        let Some(loaded) = components::load_with("ports", grants) else {
            return log::warn!("bench: built without ports");
        };
        loaded.start([domains::call(&endpoint)].into());
        let end = loaded.domain.wait_end(None).expect("an end");
        assert_eq!(end.cause, "its last thread ended");
        let mut stop = Message { header: Header::new(STOP, 0), ..Message::default() };
        endpoint.call(&mut stop, Wait::default()).expect("an answer");
    }
}

/// Body of the task.
fn serve(endpoint: &Endpoint, way: u64) {
    let area = [const { AtomicU64::new(0) }; MESSAGE_WORDS];
    thread::set_message_area(area.as_ptr().cast_mut().cast());
    let mut now = Message::default();
    endpoint.receive(&mut now, Wait::default()).expect("a message");
    while now.header.label() != STOP {
        let words = now.header.words();
        answer(&mut now.words, &area, way, now.header.label(), words);
        now.header = Header::new(now.header.label(), words);
        endpoint.reply_and_receive(&mut now, Wait::default()).expect("a message");
    }
    thread::set_message_area(core::ptr::null_mut());
    endpoint.reply(&mut now).expect("its caller waits");
}

/// Does the accesses that the first `words` words of `inline` and `area` ask for, and leaves the answer there.
fn answer(inline: &mut [u64; 4], area: &[AtomicU64], way: u64, label: u64, words: usize) {
    match label {
        WAY => inline[0] = way,
        ONE => inline[0] = u64::from(access(step(inline[0]))),
        STRING => {
            let step = step(inline[0]);
            for word in &mut inline[1..3] {
                let bytes = word
                    .to_le_bytes()
                    .map(|value| access(PortStep { value: value.into(), ..step }) as u8);
                *word = u64::from_le_bytes(bytes);
            }
        }
        LIST => {
            let done = |word| {
                let step = step(word);
                u64::from_le_bytes(PortStep { value: access(step), ..step }.pack())
            };
            inline.iter_mut().for_each(|word| *word = done(*word));
            for word in &area[4..words] {
                word.store(done(word.load(Relaxed)), Relaxed);
            }
        }
        other => panic!("no request {other}"),
    }
}

fn step(word: u64) -> PortStep {
    PortStep::unpack(word.to_le_bytes())
}

fn access(PortStep { port, width, is_write, value }: PortStep) -> u32 {
    assert!(
        matches!(width, 1 | 2 | 4) && device::holds(PORTS, (port, width.into())),
        "not its port"
    );
    if is_write {
        device::write_port(port, width, value);
        return value;
    }
    device::read_port(port, width)
}

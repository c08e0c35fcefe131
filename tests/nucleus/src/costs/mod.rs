//! The cost of the hot paths, by the time-stamp counter; under `-icount shift=0` that is in instructions
//! (one nanosecond each), so `ns` is the relevant number there.
pub mod components;
pub mod ports;
pub mod probes;

use crate::{
    domains, messages,
    program::{start, with_code},
};
use alloc::{boxed::Box, sync::Arc, vec};
use core::sync::atomic::{AtomicU32, Ordering::SeqCst};
use nucleus::{
    arch::user::run,
    memory::{
        PAGE, frame, frames,
        space::{Protection, Space, USER_END},
    },
    thread::{self, Endpoint, Sleep},
    time,
};
use program::{CloneMode, Registers};

const READ_WRITE: Protection = Protection::READ.union(Protection::WRITE);
const DATA: u64 = 0x2000_0000;

fn measure(name: &str, count: u64, act: impl FnOnce()) {
    let start_ns = time::now_ns();
    act();
    let each = (time::now_ns() - start_ns) * 10 / count;
    log::info!("selftest: cost: {name}: {}.{} ns", each / 10, each % 10);
}

/// Measures the costs and logs them.
pub fn report() {
    // The code is: 1: syscall; jmp 1b
    let space = with_code(&[0x0f, 0x05, 0xeb, 0xfc]);
    let mut registers = start();
    measure("system call round trip", 10_000, || {
        (0..10_000).for_each(|_| {
            run(&mut registers, &space);
        });
    });
    pages(&space);
    fork();
    threads();
    measure("heap 100 bytes", 10_000, || {
        (0..10_000).for_each(|_| drop(core::hint::black_box(Box::new([0u8; 100]))))
    });
    measure("frame", 10_000, || {
        (0..10_000).for_each(|_| {
            if let Ok(frame) = frame::allocate(false) {
                frames::release(frame);
            }
        });
    });
    measure("frame zeroed", 1000, || {
        (0..1000).for_each(|_| {
            if let Ok(frame) = frame::allocate(true) {
                frames::release(frame);
            }
        });
    });
}

fn pages(space: &Space) {
    // 1: mov [rdi], rax; add rdi, 4096; jmp 1b
    let faulting = with_code(&[0x48, 0x89, 0x07, 0x48, 0x81, 0xc7, 0, 0x10, 0, 0, 0xeb, 0xf4]);
    let mut registers = Registers { rdi: DATA, ..start() };
    measure("page fault with a zeroed page", 500, || {
        for page in 0..500 {
            run(&mut registers, &faulting);
            let _ = faulting.map_zeroed(DATA + page * PAGE as u64, 1, READ_WRITE);
        }
    });
    measure("unmap a page of a range", 500, || {
        faulting.unmap(DATA, DATA + 500 * PAGE as u64);
    });
    let _ = space.map_zeroed(DATA, 16, READ_WRITE);
    run(&mut start(), space);
    let data = vec![1u8; 65536];
    for length in [8, 4096, 65536] {
        measure(&alloc::format!("copy out {length} bytes"), 100, || {
            for _ in 0..100 {
                let _ = space.write(DATA, &data[..length]);
            }
        });
    }
}

fn fork() {
    let parent = Space::new().expect("a space");
    let _ = parent.map_zeroed(DATA, 500, READ_WRITE);
    let mut child = None;
    measure("new space", 1, || child = Space::new().ok());
    let Some(child) = child else { return };
    measure("clone a page", 500, || {
        let _ = parent.clone_to(&child, 0, USER_END, CloneMode::Pages);
    });
    measure("copy a page on write", 100, || {
        for page in 0..100 {
            let _ = parent.make_writable(DATA + page * PAGE as u64, READ_WRITE);
        }
    });
    measure("destroy a page of a space", 500, || drop(child));
}

fn threads() {
    let ball = Arc::new(AtomicU32::new(0));
    let other = ball.clone();
    let body: thread::Body = Box::new(Box::new(move || play(&other, 1)));
    let me = thread::current_number();
    thread::set_affinity(me, 1);
    let number = thread::spawn("ball", thread::Policy::Fair { nice: 0 }, body)
        .expect("no memory for a test's thread");
    thread::set_affinity(number, 1);
    measure("wake and switch", 2000, || play(&ball, 0));
    messages(me);
    measure("spawn and end", 200, || {
        for _ in 0..200 {
            let done = Arc::new(AtomicU32::new(0));
            let own = done.clone();
            let body: thread::Body = Box::new(Box::new(move || {
                own.store(1, SeqCst);
                thread::wake(&own, 1);
            }));
            thread::spawn("end", thread::Policy::Fair { nice: 0 }, body)
                .expect("no memory for a test's thread");
            while done.load(SeqCst) == 0 {
                thread::wait_on(&done, 0, None, Sleep::Uninterruptible);
            }
        }
    });
    thread::set_affinity(me, u64::MAX);
}

/// Calls and notifications between two threads of one processor, `me` being one.
fn messages(me: u64) {
    let endpoint = Arc::new(Endpoint::new());
    let server = messages::start_server(&endpoint, thread::Policy::Fair { nice: 0 });
    thread::set_affinity(server, 1);
    for _ in 0..2 {
        measure("call and reply between threads", 2000, || {
            (0..2000).for_each(|word| messages::call(&endpoint, word));
        });
    }
    messages::stop_server(&endpoint);
    thread::set_affinity(me, 1);
    for count in [500, 1000, 1500, 2000] {
        let endpoint = Arc::new(Endpoint::new());
        let server = domains::start(&domains::server(), 0, [domains::serve(&endpoint)].into());
        thread::yield_now();
        measure(&alloc::format!("{count} calls between domains, each"), count, || {
            let code = domains::client(count as u32);
            let client = domains::start(&code, 0, [domains::call(&endpoint)].into());
            client.wait_end(None);
        });
        server.kill("done");
    }
}

fn play(ball: &AtomicU32, side: u32) {
    for round in 0..1000 {
        let mine = round * 2 + side;
        loop {
            let now = ball.load(SeqCst);
            if now == mine {
                break;
            }
            thread::wait_on(ball, now, None, Sleep::Uninterruptible);
        }
        ball.store(mine + 1, SeqCst);
        thread::wake(ball, 1);
    }
}

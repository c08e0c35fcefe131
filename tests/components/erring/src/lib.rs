//! A component that fails on purpose, for tests of its keeper. `erring=MODE,MODE ...` on the kernel's command line says
//! how each of its lives fails (`Mode`); `MODE*` applies to all lives from then on. The first life does not fail, so
//! that the system starts, nor do those beyond the last word. The number of the present life is in memory that outlives
//! the component.
#![cfg(all(target_os = "none", skerry_process))]
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;
use alloc::{boxed::Box, vec::Vec};
use core::hint::{black_box, spin_loop};
use interfaces::service::{self, Serve};
use rt::{
    message::{self, Endpoint, Message},
    system, time,
};

/// Number of pings answered before it fails: one may have been meant for its predecessor, one makes its state *running*,
/// and the next one proves that.
const ANSWERED: usize = 3;
/// Memory is taken in pieces of this size.
const PIECE_BYTES: usize = 16 << 10;
const HOUR_NS: u64 = 3_600_000_000_000;

/// A way in which the component errs.
#[derive(Clone, Copy)]
enum Mode {
    /// It computes for ever.
    Loop,
    /// It waits for ever.
    Silent,
    /// It takes memory as long as it gets some, and continues to answer.
    Memory,
    /// Calls itself until its stack ends.
    Fault,
    /// It panics.
    Panic,
    /// It ends.
    Exit,
}

/// Returns the way in which life number `life` errs; `None` if it does not.
fn wanted(life: u64) -> Option<Mode> {
    let place = usize::try_from(life.checked_sub(1)?).ok()?;
    let said = system::parameter("erring")?;
    let last = said.rsplit(',').next().and_then(|word| word.strip_suffix('*'));
    match said.split(',').nth(place).or(last)?.trim_end_matches('*') {
        "loop" => Some(Mode::Loop),
        "silent" => Some(Mode::Silent),
        "memory" => Some(Mode::Memory),
        "fault" => Some(Mode::Fault),
        "panic" => Some(Mode::Panic),
        "exit" => Some(Mode::Exit),
        _ => None,
    }
}

/// Returns the number of this life, from 0.
fn life() -> u64 {
    let Some(kept) = rt::device::kept() else { return 0 };
    let life = kept.load64(0);
    kept.store64(0, life.wrapping_add(1));
    life
}

/// Answers this many messages.
fn answer(endpoint: &Endpoint, count: usize) {
    let mut message = Message::new(0);
    for _ in 0..count {
        if endpoint.receive(&mut message, None).is_ok() {
            service::respond::<Box<dyn Serve>>(&[], &mut message);
            // The caller may have ended.
            let _ = endpoint.reply(&mut message);
        }
    }
}

fn serve(endpoint: &Endpoint) {
    let ended = service::run::<Box<dyn Serve>>(endpoint, &[]);
    log::info!("no more calls: {ended:?}");
}

fn err(mode: Mode, endpoint: &Endpoint) {
    match mode {
        Mode::Loop => loop {
            spin_loop();
        },
        Mode::Silent => loop {
            time::sleep_until(time::now().after_ns(HOUR_NS));
        },
        Mode::Memory => {
            let taken = take_all();
            serve(endpoint);
            drop(taken);
        }
        Mode::Fault => {
            black_box(descend(1));
        }
        Mode::Panic => panic!("as was asked for"),
        Mode::Exit => {}
    }
}

fn take_all() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    loop {
        let mut piece = Vec::new();
        if piece.try_reserve_exact(PIECE_BYTES).is_err() || all.try_reserve(1).is_err() {
            return all;
        }
        all.push(piece);
    }
}

#[inline(never)]
fn descend(depth: u64) -> u64 {
    if depth == black_box(0) {
        return 0;
    }
    let room = black_box([depth; 8]);
    descend(depth.wrapping_add(1)).wrapping_add(room.iter().sum())
}

/// The component's main function.
pub fn main() {
    let endpoint = message::service();
    match wanted(life()) {
        None => serve(&endpoint),
        Some(mode) => {
            answer(&endpoint, ANSWERED);
            err(mode, &endpoint);
        }
    }
}

//! A workload like an ordinary Rust program's: threads in a row pass numbers on by channels, and each adds the numbers
//! it received to a sum.
use std::{
    sync::{Arc, RwLock, mpsc},
    thread,
};

const THREADS: u64 = 16;
const NUMBERS: u64 = 500;
const ROOM: usize = 4;

fn main() {
    let sum = Arc::new(RwLock::new(0u64));
    let (first, mut from) = mpsc::sync_channel::<u64>(ROOM);
    let mut threads = Vec::new();
    for _ in 0..THREADS {
        let (to, next) = mpsc::sync_channel(ROOM);
        let (own, sum) = (from, sum.clone());
        threads.push(thread::spawn(move || {
            let mut passed = 0;
            for number in own {
                *sum.write().expect("nobody panics") += number;
                to.send(number + 1).expect("the next is there");
                passed += 1;
            }
            passed
        }));
        from = next;
    }
    let last = thread::spawn(move || from.into_iter().sum::<u64>());
    for number in 0..NUMBERS {
        first.send(number).expect("the first is there");
    }
    drop(first);
    let passed: Vec<u64> = threads.into_iter().map(|one| one.join().expect("a thread")).collect();
    println!("{passed:?} {} {}", last.join().expect("the last"), sum.read().expect("the sum"));
}

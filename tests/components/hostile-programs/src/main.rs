//! The component `hostile-programs`: a personality that harms whom it can. `tests/nucleus` starts it again and again beside
//! others, which it must not affect.
//!
//! Its threads make random kernel calls, mostly those of a component that runs programs. Handles, addresses and lists are drawn
//! from what the component has, had, or never got (`draw`). They enter random programs (`code`) with random registers, and change
//! the contexts of each other meanwhile (`acts`).
//!
//! Beside the endpoint at which it serves it has a region that it may only read, the right to call a server that gives regions
//! away and takes them back, and the right to lend to a driver. Its command line is its
//! seed. Without one it makes the attempts of `cases` and ends.
#![cfg_attr(all(target_os = "none", skerry_process), no_std, no_main)]

#[cfg(all(target_os = "none", skerry_process))]
extern crate alloc;

#[cfg(all(target_os = "none", skerry_process))]
mod acts;
#[cfg(all(target_os = "none", skerry_process))]
mod cases;
#[cfg(all(target_os = "none", skerry_process))]
mod code;
#[cfg(all(target_os = "none", skerry_process))]
mod draw;
#[cfg(all(target_os = "none", skerry_process))]
mod raw;

#[cfg(all(target_os = "none", skerry_process))]
mod component {
    use crate::{acts::Actor, cases, raw};
    use calls::Call;
    use rt::thread::{self, Policy};

    /// Threads that act.
    const THREADS: u64 = 5;
    /// The best policy that it is granted.
    pub(crate) const POLICY: Policy = Policy::Fair { nice: 10 };

    rt::component_main!(main);

    fn main() {
        let mut digits = [b'0'; 20];
        let place = digits.as_mut_ptr() as u64;
        let (_, [length, ..]) =
            raw::call(Call::CommandLine as u64, [place, digits.len() as u64, 0, 0, 0, 0]);
        if length == 0 {
            return cases::all();
        }
        let seed = digits
            .iter()
            .fold(0_u64, |seed, digit| seed.wrapping_mul(10).wrapping_add(u64::from(digit % 16)));
        for index in 1..=THREADS {
            let body = move || {
                let mut actor = Actor::new(seed ^ index << 56);
                loop {
                    actor.act();
                }
            };
            let _ = thread::spawn("hostile", POLICY, body);
        }
    }
}

#[cfg(not(all(target_os = "none", skerry_process)))]
fn main() {}

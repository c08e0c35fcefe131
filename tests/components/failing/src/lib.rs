//! A driver whose lives end early. `hostile.start=PERCENT` on the kernel's command line makes every step fail that is taken
//! before the system has the age that the driver names, and this percentage of the steps before it is [`EARLY_NS`] old. After
//! that the driver works normally.
#![cfg(all(target_os = "none", skerry_process))]
#![no_std]
#![forbid(unsafe_code)]
use rt::{system, time};

const EARLY_NS: u64 = 2_000_000_000;

/// May panic before `step`; always does while the system is younger than `surely_ns`.
pub fn may_fail(step: &str, surely_ns: u64) {
    let percent = system::parameter("hostile.start").and_then(|text| text.parse::<u64>().ok());
    let now_ns = time::now().0;
    let Some(percent) = percent.filter(|_| now_ns < EARLY_NS) else { return };
    let mut random = [0; 8];
    rt::entropy::fill(&mut random);
    if now_ns < surely_ns || u64::from_le_bytes(random) % 100 < percent {
        panic!("as was asked for, before {step}");
    }
}

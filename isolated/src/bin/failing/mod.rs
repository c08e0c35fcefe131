//! A driver whose lives end early: `hostile.start=PERCENT` on the kernel's command line ends so many of the steps that it
//! takes, as long as the system is [`EARLY_NS`] old at most. After that it is as good as any.
use rt::{system, time};

const EARLY_NS: u64 = 2_000_000_000;

/// Panics before `step`, or not.
pub fn may_fail(step: &str) {
    let percent = system::parameter("hostile.start").and_then(|text| text.parse::<u64>().ok());
    let Some(percent) = percent.filter(|_| time::now().0 < EARLY_NS) else { return };
    let mut random = [0; 8];
    rt::entropy::fill(&mut random);
    if u64::from_le_bytes(random) % 100 < percent {
        panic!("as was asked for, before {step}");
    }
}

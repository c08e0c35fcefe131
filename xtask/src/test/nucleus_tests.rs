//! Boots the kernel that is the nucleus and its tests (`tests/nucleus`).
use anyhow::Result;
use harness::{
    build, guest,
    nucleus::{LONGEST, SECOND_SERIAL_PORT, boot},
    qemu::Config,
    tally::Tally,
};
use std::{path::Path, time::Duration};

/// So does one of random calls that makes fewer in a second.
const CALLS_A_SECOND: u64 = 2_000;

/// Runs every test with 1, 2 and 4 processors, the overflow of a kernel stack, and what messages cost.
///
/// # Errors
/// Fails if the kernel does not build or QEMU does not start.
pub fn run_all(tally: &mut Tally, filter: Option<&str>) -> Result<()> {
    let names = |text: &str| filter.is_none_or(|filter| text.contains(filter));
    if !names("nucleus") {
        return Ok(());
    }
    let kernel = build::nucleus_tests(&build::Features::default())?;
    for cpus in [1, 2, 4] {
        let log = boot_tests(&kernel, cpus, "skerry.selftest=2")?;
        let passed = log.lines().filter(|line| line.contains("selftest: ok: ")).count();
        let is_whole = log.contains(&format!("selftest: {passed} passed"));
        let what = format!("nucleus with {cpus} processors");
        tally.count(&what, if is_whole { Ok(()) } else { Err(end_of(&log)) });
    }
    let log = boot_tests(&kernel, 2, "skerry.selftest=overflow")?;
    let wanted = ["panic: kernel stack overflow at 0x", "threads::use_up_stack", "end of panic"];
    let missing = wanted.into_iter().find(|text| !log.contains(text));
    let result = missing.map_or(Ok(()), |text| Err(format!("no {text:?}\n{}", end_of(&log))));
    tally.count("a kernel stack that overflows panics and says so", result);
    let costs = xtask_bench::ipc::check(&kernel)?;
    println!("instructions: {}", costs.as_ref().map_or_else(String::as_str, String::as_str));
    tally.count("messages cost what they may", costs.map(|_| ()));
    let costs = xtask_bench::minix::check(&kernel)?;
    println!("instructions: {}", costs.as_ref().map_or_else(String::as_str, String::as_str));
    tally.count("accesses of ports cost what they may", costs.map(|_| ()));
    Ok(())
}

/// A kind of hostile component, by the name that the tests' kernel has for its run.
pub const HOSTILE: [&str; 2] = ["hostile", "personality"];

/// Runs hostile components of a kind until they have made `calls` random kernel calls, from a seed.
///
/// # Errors
/// Fails if the kernel does not build or QEMU does not start.
pub fn hostile(
    kind: &str,
    (calls, seed): (u64, u64),
    cpus: u32,
    features: &build::Features,
) -> Result<u8> {
    let kernel = build::nucleus_tests(features)?;
    let parameters = format!("skerry.selftest={kind} skerry.calls={calls} skerry.seed={seed}");
    let longest = LONGEST + Duration::from_secs(calls / CALLS_A_SECOND);
    let log = boot(&tests(&kernel, cpus, &parameters)?, "random kernel calls", longest)?;
    let is_whole = log.contains("selftest: done");
    let said = log.lines().filter(|line| line.contains("calls were answered"));
    said.for_each(|line| println!("{line}"));
    if !is_whole {
        println!("{}", end_of(&log));
    }
    Ok(u8::from(!is_whole))
}

/// Boots the tests. Returns the log, to its end or as far as it came.
fn boot_tests(kernel: &Path, cpus: u32, parameters: &str) -> Result<String> {
    let what = format!("tests of the nucleus with {cpus} processors");
    boot(&tests(kernel, cpus, parameters)?, &what, LONGEST)
}

/// Returns the machine that the tests' kernel runs on.
fn tests(kernel: &Path, cpus: u32, parameters: &str) -> Result<Config> {
    Ok(Config {
        cpus,
        append: format!("{} {parameters}", guest::PARAMETERS),
        extra: SECOND_SERIAL_PORT.map(str::to_owned).into(),
        ..guest::machine(kernel, kernel, &format!("nucleus-{cpus}.log"))?
    })
}

fn end_of(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(40)..].join("\n")
}

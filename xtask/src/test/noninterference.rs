//! The test of noninterference (K1): a program at a low level sees the same, whatever a program at a high level does.
//!
//! A machine is started twice, alike to the instruction: with QEMU's clock of instructions and its seeded random numbers. In one
//! run the worker at the high level idles, in the other it works by a seed. The transcripts of the observer at the low level must be
//! equal byte for byte. `tests/abi/src/bin/noninterference` has the programs.
use anyhow::{Result, bail};
use harness::{
    build::{self, Features},
    disk, guest,
    qemu::{Clock, Config},
    shell::{self, Lane},
    tally::Tally,
};
use std::{
    fs,
    ops::Range,
    path::{Path, PathBuf},
};

/// The system with levels.
pub const SYSTEM: &str = "mls";
/// The seeds of a test run.
pub const TESTED: Range<u64> = 1..6;
/// The seed of the machine's random numbers.
const MACHINE_SEED: &str = "20261128";
const LIMIT_SECONDS: u64 = 600;
/// Lines of a difference that are shown.
const SHOWN_LINES: usize = 20;

/// Compares the transcript of each seed with that of an idle worker, on the system `system`.
///
/// # Errors
/// Fails if something does not build or QEMU does not start.
pub fn run(tally: &mut Tally, system: &str, seeds: Range<u64>, filter: Option<&str>) -> Result<()> {
    let name = |seed: &str| format!("noninterference: a worker above, seed {seed} ({system})");
    let is_chosen = |seed: &u64| filter.is_none_or(|part| name(&seed.to_string()).contains(part));
    let seeds: Vec<String> = seeds.filter(is_chosen).map(|seed| seed.to_string()).collect();
    if seeds.is_empty() {
        return Ok(());
    }
    let (kernel, image) = (build::image(system, &Features::default())?, disk::programs_image()?);
    let bar = shell::progress(&format!("noninterference, {} seeds ({system})", seeds.len()));
    let idle = transcript(&kernel, &image, 0, "idle")?;
    let workers: Vec<&str> = seeds.iter().map(String::as_str).collect();
    let found = shell::side_by_side(&workers, shell::processors(), |lane, worker| {
        shell::next_step(&bar, &name(worker));
        Ok(compare(&idle, &transcript(&kernel, &image, lane, worker)?))
    });
    bar.finish_and_clear();
    for (seed, found) in seeds.iter().zip(found) {
        let found: Result<std::result::Result<(), String>> = found;
        let found = found?;
        if found.is_ok() {
            fs::remove_file(kept(seed)?)?;
        }
        tally.count(&name(seed), found);
    }
    Ok(())
}

/// Compares the transcripts of `count` seeds from `first` on.
///
/// # Errors
/// As [`run`].
pub fn campaign(first: u64, count: u64) -> Result<u8> {
    let mut tally = Tally::default();
    run(&mut tally, SYSTEM, first..first.saturating_add(count), None)?;
    println!("{count} seeds: {} transcripts differ from that of the idle worker", tally.failed);
    Ok(u8::from(tally.failed > 0))
}

/// Boots a machine, and returns the observer's transcript while the worker works by `worker`.
fn transcript(kernel: &Path, image: &Path, lane: Lane, worker: &str) -> Result<String> {
    let config = guest::machine(kernel, image, &format!("noninterference-{lane}.log"))?;
    let seed = ["-seed", MACHINE_SEED, "-rtc", "base=2026-11-28T12:00:00,clock=vm"];
    let extra = seed.map(str::to_owned).into();
    let config = Config { cpus: 1, clock: Clock::Instructions, extra, ..config };
    let command = "/abi/noninterference run";
    let input = format!("{worker}\n");
    let (ended, output, error) = guest::run_captured(&config, command, &input, LIMIT_SECONDS)?;
    if ended.to_string() != "exited 0" || output.is_empty() {
        bail!("{worker}: {ended}\n{}", String::from_utf8_lossy(&error));
    }
    fs::write(kept(worker)?, &output)?;
    Ok(String::from_utf8_lossy(&output).into_owned())
}

/// The file in which the transcript stays.
fn kept(worker: &str) -> Result<PathBuf> {
    shell::build_path(&format!("noninterference-{worker}.txt"))
}

/// Returns the lines in which two transcripts differ, as an error.
fn compare(idle: &str, found: &str) -> std::result::Result<(), String> {
    if idle == found {
        return Ok(());
    }
    let (idle, found): (Vec<_>, Vec<_>) = (idle.lines().collect(), found.lines().collect());
    let pairs = idle.iter().zip(&found).filter(|(idle, found)| idle != found);
    let lines: Vec<String> = pairs
        .take(SHOWN_LINES)
        .map(|(idle, found)| format!("idle:  {idle}\nworks: {found}"))
        .collect();
    let count = (idle.len(), found.len());
    Err(format!("{} and {} lines; they differ:\n{}", count.0, count.1, lines.join("\n")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_shown() {
        assert_eq!(compare("a\nb\n", "a\nb\n"), Ok(()));
        let why = compare("a\nb\n", "a\nc\n").unwrap_err();
        assert!(why.ends_with("idle:  b\nworks: c"), "{why}");
        assert!(compare("a\n", "a\nb\n").is_err());
    }
}

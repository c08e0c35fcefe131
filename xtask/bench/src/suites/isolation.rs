//! `./x bench isolation`: the cost of isolated drivers (`default`) compared with the same drivers in the kernel
//! (`monolith`): instructions of the same work and of the boot, and memory. Printed as a table, drawn in
//! `build/bench-isolation.svg`, described in `docs/isolation.md`.
use crate::{
    draw::chart::{self, Bar},
    measure::executed::Counter,
};
use anyhow::{Context, Result, bail};
use harness::{
    build::{self, Features},
    disk,
    guest::{self, Outcome},
    packages,
    qemu::Config,
    session::Ended,
    shell,
};

/// Greatest allowed cost of the work with disks, relative to `monolith`.
const DISK_SHARE_MAX: f64 = 1.30;
/// Greatest allowed cost of other work, relative to `monolith`.
const CACHED_SHARE_MAX: f64 = 1.10;
/// Names of the work without disks.
const CACHED: [&str; 3] =
    ["40,000 cached reads of 4 KiB", "2,000 files created and removed", "200 programs"];
const SYSTEMS: [&str; 2] = ["monolith", "default"];
const SECONDS: u64 = 600;

/// A figure of both systems.
struct Row {
    name: String,
    figures: [f64; 2],
    most: Option<f64>,
}

/// Measures, prints and draws. The status is 1 if isolation costs more than allowed.
///
/// # Errors
/// Fails if something does not build, start or end as it should.
pub fn run() -> Result<u8> {
    packages::ensure(packages::Need::Test)?;
    let [monolith, default] = [measure(SYSTEMS[0])?, measure(SYSTEMS[1])?];
    let rows: Vec<Row> = monolith
        .into_iter()
        .zip(default)
        .map(|((name, before), (_, after))| {
            let most = match name.as_str() {
                "boot" | "memory" => None,
                name if CACHED.contains(&name) => Some(CACHED_SHARE_MAX),
                _ => Some(DISK_SHARE_MAX),
            };
            Row { name, figures: [before, after], most }
        })
        .collect();
    println!("million instructions; KiB of memory in use after boot");
    println!("{:<36}{:>12}{:>12}{:>8}{:>8}", "", SYSTEMS[0], SYSTEMS[1], "ratio", "at most");
    let mut is_good = true;
    for Row { name, figures: [before, after], most } in &rows {
        let unit = if name == "memory" { 1.0 } else { 1e6 };
        let (ratio, allowed) =
            (after / before, most.map_or(String::new(), |most| format!("{most:.2}")));
        let (before, after) = (before / unit, after / unit);
        println!("{name:<36}{before:>12.1}{after:>12.1}{ratio:>8.3}{allowed:>8}");
        is_good &= most.is_none_or(|most| ratio <= most);
    }
    let share = |row: &Row| 100.0 * row.figures[1] / row.figures[0];
    let bars: Vec<Bar> =
        rows.iter().map(|row| Bar { name: row.name.clone(), value: share(row) }).collect();
    let path = shell::build_path("bench-isolation.svg")?;
    let mark = ("monolith", 100.0);
    std::fs::write(&path, chart::draw("default, of monolith", "per cent", &bars, mark))?;
    println!("drawn in {}", path.display());
    Ok(u8::from(!is_good))
}

/// Returns the cost of the workloads on `system`, by name.
fn measure(system: &str) -> Result<Vec<(String, f64)>> {
    let kernel = build::image(system, &Features::default())?;
    let image = disk::programs_image()?;
    let counter = Counter::new(&format!("bench-isolation-{system}.txt"))?;
    let log = format!("bench-isolation-{system}.log");
    let config =
        Config { cpus: 1, extra: counter.arguments(), ..guest::machine(&kernel, &image, &log)? };
    let bar = shell::progress(&format!("measuring {system}"));
    let ran = guest::run_captured(&config, "/abi/isolation_cost /home/cost", "", SECONDS)?;
    bar.finish_and_clear();
    let (outcome, output, error) = ran;
    if outcome != Outcome::Session(Ended::Exited(0)) {
        let error = String::from_utf8_lossy(&error);
        bail!("{outcome}: {error}log in {}", config.log.display());
    }
    let counted = counter.read()?;
    let said = String::from_utf8_lossy(&output);
    let names = said.lines().filter_map(|line| line.strip_prefix("part "));
    let memory = said.lines().find_map(|line| line.strip_prefix("memory ")?.parse().ok());
    let mut rows = vec![
        ("boot".to_owned(), counted.boot as f64),
        ("memory".to_owned(), memory.context("no figure of memory")?),
    ];
    if names.clone().count() != counted.parts.len() {
        bail!("parts and marks differ; counts in {}", counter.out().display());
    }
    rows.extend(names.map(str::to_owned).zip(counted.parts.iter().map(|&part| part as f64)));
    Ok(rows)
}

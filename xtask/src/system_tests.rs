//! Whole boots, described in `tests/system/*.toml`: a machine, a command, and what is expected.
use crate::{
    build::{self, Features},
    campaign, compare, disk,
    qemu::{Config, Machine},
    shell,
    test::{self, Tally},
};
use anyhow::{Context, Result};
use serde::Deserialize;
use std::{fs, path::PathBuf};

/// One file of tests.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    test: Vec<Case>,
}

/// One boot, or the same boot on several machines.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    /// What the session runs.
    run: String,
    /// What is on the disk.
    #[serde(default)]
    root: Root,
    #[serde(default)]
    stdin: String,
    #[serde(default)]
    machine: Option<String>,
    #[serde(default = "default_cpus")]
    cpus: Vec<u32>,
    #[serde(default = "default_memory")]
    memory: Vec<u32>,
    #[serde(default)]
    append: String,
    #[serde(default)]
    lock_checks: bool,
    #[serde(default)]
    lock_statistics: bool,
    #[serde(default = "default_timeout")]
    timeout: u64,
    /// Exact stdout.
    stdout: Option<String>,
    /// What stdout holds.
    #[serde(default)]
    contains: Vec<String>,
    /// Exact stderr.
    stderr: Option<String>,
    /// What the kernel's log holds.
    #[serde(default)]
    log: Vec<String>,
    /// How the run ends (`build/run.status`).
    #[serde(default = "default_outcome")]
    outcome: String,
}

/// Disks to boot from.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Root {
    /// Debian's busybox.
    #[default]
    Busybox,
    /// And the programs of the campaigns in /abi.
    Programs,
}

impl Root {
    fn image(self) -> Result<PathBuf> {
        match self {
            Root::Busybox => disk::default_root(),
            Root::Programs => campaign::image(),
        }
    }
}

fn default_cpus() -> Vec<u32> {
    vec![2]
}

fn default_memory() -> Vec<u32> {
    vec![512]
}

fn default_timeout() -> u64 {
    60
}

fn default_outcome() -> String {
    "exited 0".to_owned()
}

/// Runs every case whose name holds `filter`.
///
/// # Errors
/// Where a description is wrong or the system does not build.
pub fn run(tally: &mut Tally, filter: Option<&str>) -> Result<()> {
    for case in
        cases()?.into_iter().filter(|case| filter.is_none_or(|filter| case.name.contains(filter)))
    {
        let features = Features { check: case.lock_checks, statistics: case.lock_statistics };
        let kernel = build::image("default", &features)?;
        let root = case.root.image()?;
        for &cpus in &case.cpus {
            for &memory in &case.memory {
                let name = format!("{} ({cpus} processors, {memory} MiB)", case.name);
                let machine = match case.machine.as_deref() {
                    Some("pc") => Machine::Pc,
                    Some("microvm") => Machine::Microvm,
                    _ => Machine::Q35,
                };
                let mut config = test::machine(&kernel, &root, "system-test.log")?;
                config.append = format!("{} {}", config.append, case.append);
                let bar = shell::progress(&name);
                let result = boot(&Config { machine, cpus, memory, ..config }, &case)?;
                bar.finish_and_clear();
                tally.count(&name, result);
            }
        }
    }
    Ok(())
}

fn cases() -> Result<Vec<Case>> {
    let mut files: Vec<_> = fs::read_dir(shell::root().join("tests/system"))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .collect();
    files.sort();
    let mut cases = Vec::new();
    for path in files {
        let file: File = toml::from_str(&fs::read_to_string(&path)?)
            .with_context(|| format!("in {}", path.display()))?;
        cases.extend(file.test);
    }
    Ok(cases)
}

fn boot(config: &Config, case: &Case) -> Result<std::result::Result<(), String>> {
    let (outcome, output, error) =
        compare::run_captured(config, &case.run, &case.stdin, case.timeout)?;
    let log = fs::read(&config.log).unwrap_or_default();
    Ok(judge(
        case,
        &outcome.to_string(),
        [&output, &error, &log].map(|bytes| String::from_utf8_lossy(bytes).into_owned()),
    ))
}

fn judge(
    case: &Case,
    outcome: &str,
    [output, error, log]: [String; 3],
) -> std::result::Result<(), String> {
    let everything =
        || format!("ended: {outcome}\nstdout:\n{output}\nstderr:\n{error}\nlog:\n{log}");
    if outcome != case.outcome {
        return Err(format!("expected `{}`\n{}", case.outcome, everything()));
    }
    if case.stdout.as_ref().is_some_and(|expected| *expected != output) {
        return Err(format!("another stdout\n{}", everything()));
    }
    if case.stderr.as_ref().is_some_and(|expected| *expected != error) {
        return Err(format!("another stderr\n{}", everything()));
    }
    for (wanted, place) in
        case.contains.iter().map(|w| (w, &output)).chain(case.log.iter().map(|w| (w, &log)))
    {
        if !place.contains(wanted.as_str()) {
            return Err(format!("`{wanted}` is missing\n{}", everything()));
        }
    }
    Ok(())
}

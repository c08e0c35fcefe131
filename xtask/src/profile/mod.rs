//! `./x profile`: where the kernel spends a command's instructions (B9, as McRae's "Hardware Profiling of Kernels",
//! Figure 3): what each function executed, the path of calls, a flame graph, a trace to look at. Described in
//! `docs/profile.md`.
//!
//! [`calls::follow`] runs any machine so, between the marks of a program in it or for a whole session; [`Profile`] is what
//! comes of it, and [`report`] says it. With `--sample` the system samples itself instead ([`sample`]).
pub mod calls;
mod chrome;
mod flame;
mod names;
mod path;
mod sample;
mod table;
pub mod test;

use crate::{
    build, disk,
    packages::{self, Need},
    qemu::{self, Config},
    run::Outcome,
    session::Streams,
    shell,
    test::machine as plain_machine,
};
use anyhow::{Context, Result};
use calls::{Profile, Span, Wanted};
use names::Names;
use std::path::PathBuf;

/// Options of `profile`.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// Run `/bin/sh -c CMD` and profile it
    #[arg(value_name = "CMD")]
    command: String,
    /// The system description, systems/NAME.toml; what is isolated there counts as user mode
    #[arg(long, value_name = "NAME", default_value = "default")]
    system: String,
    /// Root disk: an ext4 image or a folder, packed into one; what is written is dropped
    #[arg(long, value_name = "IMAGE|DIR")]
    root: Option<PathBuf>,
    /// Processors
    #[arg(long, value_name = "N", default_value_t = 1)]
    cpus: u32,
    /// Further kernel parameters
    #[arg(long, value_name = "PARAMETERS", default_value = "", allow_hyphen_values = true)]
    append: String,
    /// Rows of the table
    #[arg(long, value_name = "N", default_value_t = 30)]
    rows: usize,
    /// Print the path of the first call of FUNCTION: those whose name holds it, the shortest such name first
    #[arg(long, value_name = "FUNCTION")]
    trace: Option<String>,
    /// Entries and exits that the traces hold at most
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    events: u64,
    /// Count between the marks of a program in the guest (bench/plugin/plugin.h) alone, or between the Nth pair of them
    #[arg(long, value_name = "N", require_equals = true)]
    marks: Option<Option<u32>>,
    /// Do not follow calls but have the system sample itself, so many times a second (at most 1000)
    #[arg(long, value_name = "HZ", require_equals = true, default_missing_value = "1000", num_args = 0..=1,
        value_parser = clap::value_parser!(u64).range(1..=1000), conflicts_with_all = ["trace", "marks"])]
    sample: Option<u64>,
    /// End the run after so many seconds, with status 124
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u64>,
}

/// Runs the command, prints its table and writes the other results to `build/profile/`.
///
/// # Errors
/// Fails if something does not build or start, or no function has the name to trace.
pub fn run(options: &Options) -> Result<u8> {
    packages::ensure(Need::Run)?;
    let config = machine(options)?;
    if let Some(rate) = options.sample {
        let limit_seconds = options.timeout;
        let wanted = sample::Wanted { rate, rows: options.rows, limit_seconds };
        let outcome = sample::report(&config, &options.command, &title(options), &wanted)?;
        return Ok(status(&outcome));
    }
    let wanted = Wanted {
        span: match options.marks {
            None => Span::Session,
            Some(None) => Span::Marks,
            Some(Some(number)) => Span::Part(number),
        },
        trace: match &options.trace {
            Some(text) => Names::of(&config.kernel)?.holding(text)?,
            None => Vec::new(),
        },
        events: options.events,
        limit_seconds: options.timeout,
    };
    let (outcome, profile) =
        report(&config, &options.command, &title(options), &wanted, options.rows)?;
    if options.trace.is_some() {
        print!("\n{}", path::text(&path::first(&profile.events)));
    }
    Ok(status(&outcome))
}

/// Runs `command` on any machine with a kernel of ours, prints the first `rows` of its table under `title` and writes what
/// else there is to `build/profile/`.
///
/// # Errors
/// As [`calls::follow`]; where a file cannot be written.
pub fn report(
    config: &Config,
    command: &str,
    title: &str,
    wanted: &Wanted,
    rows: usize,
) -> Result<(Outcome, Profile)> {
    let (outcome, profile) = calls::follow(config, command, Streams::ours(), wanted)?;
    println!("{title}\n{}", table::text(&profile, rows));
    export(&profile, title)?;
    Ok((outcome, profile))
}

fn machine(options: &Options) -> Result<Config> {
    let cpus = qemu::check(Some(options.cpus), false)?;
    let kernel = build::image(&options.system, &build::Features::default())?;
    let root = disk::root_image(options.root.as_deref(), &[])?;
    let mut config = plain_machine(&kernel, &root, "profile.log")?;
    config.append = format!("{} {}", config.append, options.append);
    Ok(Config { cpus, ..config })
}

fn title(options: &Options) -> String {
    let Options { command, system, cpus, .. } = options;
    let plural = if *cpus == 1 { "" } else { "s" };
    format!("`{command}` on {system}, {cpus} processor{plural}")
}

/// Says how a run ended that did not end as its command did.
fn status(outcome: &Outcome) -> u8 {
    if !matches!(outcome, Outcome::Session(_)) {
        eprintln!("x: {outcome}");
    }
    outcome.status()
}

/// A file of `build/profile/`.
fn path(name: &str) -> Result<PathBuf> {
    let folder = shell::build_path("profile")?;
    std::fs::create_dir_all(&folder).context("making build/profile/")?;
    Ok(folder.join(name))
}

/// Writes the flame graph, the whole table and the traces.
fn export(profile: &Profile, title: &str) -> Result<()> {
    let mut graph = flame::Graph::default();
    profile.paths(|names, net| graph.add(names, net));
    let files = [
        ("table.txt", table::text(profile, usize::MAX)),
        ("flame.svg", graph.draw(title, "instructions")),
        ("path.txt", path::text(&path::calls(&profile.events))),
        ("trace.json", chrome::text(&profile.events)),
    ];
    for (name, text) in files {
        let file = path(name)?;
        std::fs::write(&file, text).with_context(|| format!("writing {}", file.display()))?;
    }
    println!("in {}: table.txt, flame.svg, path.txt, trace.json", path("")?.display());
    Ok(())
}

//! `./x profile`: where the kernel spends a command's instructions. [`harness::profile`] follows and draws; this file is the
//! command and its options.
pub mod test;

use anyhow::Result;
use harness::{
    build, disk,
    guest::{self, Outcome},
    packages::{self, Need},
    profile::{
        self,
        calls::{Span, Wanted},
        names::Names,
        path, sample,
    },
    qemu::{self, Config},
};
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
        profile::report(&config, &options.command, &title(options), &wanted, options.rows)?;
    if options.trace.is_some() {
        print!("\n{}", path::text(&path::first(&profile.events)));
    }
    Ok(status(&outcome))
}

fn machine(options: &Options) -> Result<Config> {
    let cpus = qemu::check_cpus(options.cpus)?;
    let kernel = build::image(&options.system, &build::Features::default())?;
    let root = disk::root_image(options.root.as_deref(), &[])?;
    let mut config = guest::machine(&kernel, &root, "profile.log")?;
    config.append = format!("{} {}", config.append, options.append);
    Ok(Config { cpus, ..config })
}

fn title(options: &Options) -> String {
    let Options { command, system, cpus, .. } = options;
    let plural = if *cpus == 1 { "" } else { "s" };
    format!("`{command}` on {system}, {cpus} processor{plural}")
}

/// Returns a message on the end of a run that did not end with the status of its command.
fn status(outcome: &Outcome) -> u8 {
    if !matches!(outcome, Outcome::Session(_)) {
        eprintln!("x: {outcome}");
    }
    outcome.status()
}

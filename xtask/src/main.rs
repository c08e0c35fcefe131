//! The commands of `./x`. Each is a module, or a crate: `bench` is `xtask/bench`. What they share is `xtask/harness`.
#![forbid(unsafe_code)]
mod campaign;
mod check;
mod crash;
mod debug;
mod image;
mod imports;
mod kill;
mod profile;
mod run;
mod test;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Skerry: build it, run it, test it.
#[derive(Parser)]
#[command(name = "x", bin_name = "./x", version, propagate_version = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Build and boot: an interactive shell, or one command with --exec
    Run(Box<run::Options>),
    /// Host tests, ABI tests on Linux and on Skerry, system tests
    Test(test::Options),
    /// The long runs: forks, loops, random calls, mutated programs and disks, boot time
    Campaign(campaign::Options),
    /// Kill QEMU at random moments of a file workload and judge the disk
    Crash(crash::Options),
    /// Kill an isolated component again and again under a file workload, and measure the time until it serves again
    Kill(kill::Options),
    /// The experiments: printed as tables and drawn
    Bench(xtask_bench::Options),
    /// Instructions that the kernel executes for a command: by function, by path of calls, drawn
    Profile(Box<profile::Options>),
    /// Formatting, lints, import directions, comments, commits, names in the docs; code and unsafe per crate
    Check(check::Options),
    /// Which parts of a folder's crates import which: a drawing, the cycles and the imports of higher floors
    Imports(imports::Options),
    /// Boot stopped at the first instruction, with gdb attached
    Debug(Box<run::Options>),
    /// Build the kernel and the disk image, and say where they are
    Image(image::Options),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Run(options) => run::run(&options),
        Command::Test(options) => test::run(&options),
        Command::Campaign(options) => campaign::run(&options),
        Command::Crash(options) => crash::run(&options),
        Command::Kill(options) => kill::run(&options),
        Command::Bench(options) => xtask_bench::run(&options),
        Command::Profile(options) => profile::run(&options),
        Command::Check(options) => check::run(&options),
        Command::Imports(options) => imports::run(&options),
        Command::Debug(options) => debug::run(&options),
        Command::Image(options) => image::run(&options),
    };
    match result {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("x: {error:#}");
            ExitCode::from(1)
        }
    }
}

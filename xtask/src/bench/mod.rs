//! `./x bench`: the experiments, each a module; what they share is in `measure` and `chart`.
mod chart;
mod executed;
pub mod ipc;
mod isolation;
mod measure;
pub mod minix;
mod split;

use anyhow::Result;

/// Options of `bench`.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    #[command(subcommand)]
    experiment: Experiment,
}

#[derive(clap::Subcommand, Clone, Debug)]
enum Experiment {
    /// What messages cost: in instructions, how they split and grow, and by the clock
    Ipc,
    /// What it costs that drivers are isolated: `default` beside `monolith`
    Isolation,
    /// What accesses of ports cost by message, kernel call, permission map and trap, beside a paper's figures
    Minix,
}

/// Runs an experiment; its table is printed and drawn.
///
/// # Errors
/// Where something does not build, start or end as it should.
pub fn run(options: &Options) -> Result<u8> {
    match options.experiment {
        Experiment::Ipc => ipc::run(),
        Experiment::Isolation => isolation::run(),
        Experiment::Minix => minix::run(),
    }
}

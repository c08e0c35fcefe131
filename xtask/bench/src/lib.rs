//! `./x bench`: the suites. Those that compare sides by the probes of `bench/probes` are run by `run::compared`; the experiments
//! have a module each in `suites`.
#![forbid(unsafe_code)]

mod draw;
mod measure;
mod report;
mod results;
mod run;
mod suites;
mod values;

pub use run::{options::Options, test};
pub use suites::{ipc, minix};

use anyhow::Result;
use run::{compared, profiled};
use suites::suite::Suite;

/// Runs suites, and prints and draws their tables.
///
/// # Errors
/// Fails if something does not build, start or end as it should.
pub fn run(options: &Options) -> Result<u8> {
    if let Some(row) = &options.profile {
        return profiled::run(options, row);
    }
    let (compared, experiments): (Vec<Suite>, Vec<Suite>) =
        options.suites_to_run().into_iter().partition(|suite| suite.is_compared());
    let mut status = 0;
    if !compared.is_empty() {
        status = compared::run(options, &compared)?;
    }
    for suite in experiments {
        status = status.max(suite.experiment(&options.channels())?);
    }
    Ok(status)
}

//! `./x bench`: the suites. Those that compare sides by the probes of `bench/probes` are run by `compared`; the experiments
//! have a module each.
#![forbid(unsafe_code)]

mod axis;
mod bars;
mod boot;
mod causes;
mod chapters;
mod chart;
mod compared;
mod curves;
mod draw;
mod executed;
mod fit;
mod history;
mod html;
pub mod ipc;
mod isolated;
mod isolation;
mod locks;
mod measure;
pub mod minix;
mod options;
mod page;
mod papers;
mod probes;
mod profiled;
mod results;
mod rows;
mod runs;
mod side;
mod split;
mod suite;
mod table;
mod terminal;
pub mod test;
mod text;
mod unit;

pub use options::Options;

use anyhow::Result;
use suite::Suite;

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
        status = status.max(suite.experiment()?);
    }
    Ok(status)
}

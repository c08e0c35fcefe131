//! `./x bench --profile`: the functions in which a row's measurements execute their instructions.
use super::options::Options;
use crate::{
    measure::{
        probes::{self, Plan},
        side::Side,
    },
    suites::suite::{Part, all_parts},
    values::unit::Unit,
};
use anyhow::{Context, Result};
use harness::{
    build::Features,
    packages,
    profile::{self, calls::Span, calls::Wanted},
};

/// Rows of the table of functions.
const FUNCTIONS: usize = 40;

/// Follows the calls of a row's measurements, and of no others.
///
/// # Errors
/// Fails if something does not build, start or end as it should.
pub fn run(options: &Options, row: &str) -> Result<u8> {
    packages::ensure(packages::Need::Test)?;
    let systems = options.systems();
    let system = systems.first().context("a system")?;
    let image = probes::image()?;
    let mut parts = Vec::new();
    match options.suites.as_slice() {
        [] => parts = all_parts(Some(row))?,
        asked => {
            for suite in asked {
                parts.extend(suite.parts(Some(row))?);
            }
        }
    }
    // Rows on different machines are not profiled at once.
    let Part { probes: suites, card } =
        parts.first().with_context(|| format!("no row that can run has `{row}` in its name"))?;
    let (card, suites) = (*card, suites.as_slice());
    let side = Side::new(system, &image, &Features::default())?;
    let (unit, cpus, filter) = (Unit::Instructions, 1, Some(row));
    let plan = Plan { unit, cpus, rounds: 1, filter, suites, card };
    let wanted =
        Wanted { span: Span::Marks, trace: Vec::new(), events: 100_000, limit_seconds: None };
    let title = format!("the measurements of `{row}` on {system}");
    let command = format!("/bin/sh {}", probes::RUNNER);
    card.beside(side.machine(cpus)?, |mut config, wire| {
        config.append = format!("{} {} {wire}", config.append, probes::parameter(&plan));
        let (outcome, _) = profile::report(&config, &command, &title, &wanted, FUNCTIONS)?;
        Ok(outcome.status())
    })
}

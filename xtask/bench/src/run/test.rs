//! Tests that every probe runs to its end, on Debian's Linux and on a Skerry system, as `./x bench` needs.
use crate::{
    measure::{
        probes::{self, Plan},
        side::{LINUX, Side},
    },
    suites::suite::{Part, all_parts},
    values::unit::Unit,
};
use anyhow::Result;
use harness::{
    build::Features,
    linux, shell,
    tally::{Tally, Target},
};

/// Number of processors.
const CPUS: u32 = 2;

/// Runs all probes on the target; if the target is tested at length, on Linux first.
///
/// # Errors
/// Fails if something does not build or start.
pub fn run(tally: &mut Tally, target: &Target, filter: Option<&str>) -> Result<()> {
    if !target.is_short {
        linux::prepare()?;
    }
    let image = probes::image()?;
    let parts = all_parts(None)?;
    let linux = (!target.is_short).then_some(LINUX);
    let names = linux.into_iter().chain([target.system.as_str()]);
    let named = |system: &str| format!("bench: every probe runs ({system}, {CPUS} processors)");
    let is_meant = |system: &&str| filter.is_none_or(|filter| named(system).contains(filter));
    let mut sides = Vec::new();
    for system in names.filter(is_meant) {
        sides.push((named(system), Side::new(system, &image, &Features::default())?));
    }
    let results = shell::side_by_side(&sides, shell::processors(), |_, (name, side)| {
        let bar = shell::progress(name);
        let result = parts.iter().try_for_each(|part| {
            let lines = side.run_probes(side.machine(CPUS)?, &plan(part))?;
            judge(&probes::parse(&lines)).map_err(anyhow::Error::msg)
        });
        bar.finish_and_clear();
        result
    });
    for ((name, _), result) in sides.iter().zip(results) {
        tally.count(name, result.map_err(|error| format!("{error:#}")));
    }
    Ok(())
}

fn plan(part: &Part) -> Plan<'_> {
    let (suites, card) = (part.probes.as_slice(), part.card);
    Plan { unit: Unit::Clock, cpus: CPUS, rounds: 0, filter: None, suites, card }
}

fn judge(said: &probes::Said) -> Result<(), String> {
    let failed = said.measured.iter().filter_map(|one| {
        let why = one.failed.as_ref()?;
        Some(format!("{}: {why}\n", one.name))
    });
    let failed: String = failed.collect();
    match said.is_whole {
        true if failed.is_empty() => Ok(()),
        true => Err(failed),
        false => Err(format!("the probes did not end; {} began\n{failed}", said.measured.len())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::probes::{Measured, Said};

    #[test]
    fn a_probe_that_failed_is_named() {
        let one = |failed: Option<&str>| Measured {
            name: "stat".to_owned(),
            failed: failed.map(str::to_owned),
            ..Measured::default()
        };
        let said = |failed, is_whole| Said { measured: vec![one(failed)], is_whole, rate: None };
        assert_eq!(judge(&said(None, true)), Ok(()));
        assert_eq!(judge(&said(Some("no disk"), true)), Err("stat: no disk\n".to_owned()));
        assert!(judge(&said(None, false)).is_err());
    }
}

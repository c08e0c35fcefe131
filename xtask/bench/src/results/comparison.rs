//! The results of a comparison: rows, each with a fit for each boot and side; and their ratios.
use super::bars;
use crate::{
    measure::{locks::Lock, probes::Measured, side::LINUX},
    values::{
        fit::{self, Fit},
        unit::Unit,
    },
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// All results of a bench: the contents of `build/bench/results.json`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Results {
    /// Description of the machine.
    pub machine: String,
    /// Name of the side with which the others are compared.
    pub against: String,
    /// Names of the other sides.
    pub systems: Vec<String>,
    /// Systems that the curves of `mach` show besides.
    #[serde(default)]
    pub curves_only: Vec<String>,
    /// The rows, in the order of the suites.
    pub rows: Vec<Row>,
    /// The locks missed most often by `mach` on the first system.
    #[serde(default)]
    pub locks: Vec<Lock>,
}

impl Results {
    /// Returns the side that is compared with, and the others.
    pub fn sides(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.against).chain(&self.systems).map(String::as_str)
    }

    /// Returns these sides, and those that are only in the curves of `mach`.
    pub fn drawn(&self) -> impl Iterator<Item = &str> {
        self.sides().chain(self.curves_only.iter().map(String::as_str))
    }

    /// Returns the bar of a row: its greatest allowed ratio to Linux; `None` if it is compared with another side.
    pub fn bar(&self, row: &Row) -> Option<f64> {
        bars::bar(&row.suite, row.unit, &row.name).filter(|_| self.against == LINUX)
    }

    /// Returns whether a side's ratio meets the bar. For calls by the clock its interval decides.
    pub fn is_met(&self, row: &Row, ratio: &Ratio) -> bool {
        let judged = match (row.suite.as_str(), row.unit) {
            ("ksos" | "micro" | "net", Unit::Clock) => ratio.low,
            _ => ratio.value,
        };
        self.bar(row).is_none_or(|bar| judged <= bar)
    }

    /// Compares with the results of an earlier bench: its first system's figures become those of `against`.
    pub fn join(&mut self, earlier: Results) {
        let Some(before) = earlier.systems.first() else { return };
        for row in &mut self.rows {
            let is_it = |old: &&Row| {
                (&old.suite, &old.name, old.unit, old.cpus)
                    == (&row.suite, &row.name, row.unit, row.cpus)
            };
            let fits = earlier.rows.iter().find(is_it).and_then(|old| old.fits.get(before));
            row.fits.extend(fits.map(|fits| (self.against.clone(), fits.clone())));
        }
    }
}

/// The results of one probe in one unit.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// Name of its suite.
    pub suite: String,
    /// Name of the probe.
    pub name: String,
    /// The unit of the counts.
    pub unit: Unit,
    /// Number of processors.
    pub cpus: u32,
    /// By side: a fit for each boot, in the order of the boots.
    pub fits: BTreeMap<String, Vec<Fit>>,
    /// By side: the reason why there is no fit.
    pub failed: BTreeMap<String, String>,
}

/// The ratio of two sides of a row: of their medians, and the least and the greatest of pairs of boots (of the intervals, if
/// there was one boot).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// The ratio of the medians.
    pub value: f64,
    /// The least ratio.
    pub low: f64,
    /// The greatest ratio.
    pub high: f64,
}

impl Ratio {
    /// Returns whether the spread is greater than the distance from 1.
    pub fn is_unsettled(&self) -> bool {
        self.high - self.low > (self.value - 1.0).abs()
    }
}

impl Row {
    /// Makes an empty row for a probe.
    pub fn new(suite: &str, name: &str, unit: Unit, cpus: u32) -> Row {
        let (fits, failed) = (BTreeMap::new(), BTreeMap::new());
        Row { suite: suite.to_owned(), name: name.to_owned(), unit, cpus, fits, failed }
    }

    /// Adds the measurement of one boot of `side`.
    pub fn add(&mut self, side: &str, measured: &Measured) {
        let fit = Fit::of_figures(&measured.figures)
            .or_else(|| fit::fit_less(&measured.points, &measured.overhead));
        match (fit, &measured.failed) {
            (Some(fit), None) => self.fits.entry(side.to_owned()).or_default().push(fit),
            (_, why) => {
                let why = why.clone().unwrap_or_else(|| "too few points".to_owned());
                self.failed.insert(side.to_owned(), why);
            }
        }
    }

    /// Adds a figure that one boot of `side` gave.
    pub fn note(&mut self, side: &str, value: f64) {
        self.fits.entry(side.to_owned()).or_default().push(Fit::exact(value));
    }

    /// Returns the cost of one unit on `side`: the median of the boots.
    pub fn cost(&self, side: &str) -> Option<f64> {
        let slopes = |fits: &Vec<Fit>| fits.iter().map(|fit| fit.slope).collect();
        fit::median(self.fits.get(side).map(slopes)?)
    }

    /// Compares `side` with `against`.
    pub fn ratio(&self, side: &str, against: &str) -> Option<Ratio> {
        let value = self.cost(side)? / self.cost(against)?;
        let (ours, theirs) = (self.fits.get(side)?, self.fits.get(against)?);
        let pairs = || ours.iter().zip(theirs);
        let (low, high) = match pairs().count() {
            1 => pairs().map(|(a, b)| {
                let least = (b.slope - b.within).max(0.0);
                let low = (a.slope - a.within) / (b.slope + b.within);
                (low.max(0.0), (a.slope + a.within) / least)
            }),
            _ => return Some(widest(value, pairs().map(|(a, b)| a.slope / b.slope))),
        }
        .next()?;
        Some(Ratio { value, low, high })
    }
}

fn widest(value: f64, ratios: impl Iterator<Item = f64> + Clone) -> Ratio {
    let low = ratios.clone().fold(value, f64::min);
    Ratio { value, low, high: ratios.fold(value, f64::max) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(ours: &[f64], theirs: &[f64]) -> Row {
        let fits = |slopes: &[f64]| {
            let fit = |&slope| Fit { slope, within: 0.1, r2: 1.0, outliers: 0 };
            slopes.iter().map(fit).collect::<Vec<Fit>>()
        };
        let mut row = Row::new("micro", "getppid", Unit::Instructions, 1);
        row.fits = [("a".to_owned(), fits(ours)), ("b".to_owned(), fits(theirs))].into();
        row
    }

    #[test]
    fn a_ratio_is_of_medians_and_spreads_over_the_pairs() {
        let ratio = row(&[6.0, 8.0, 7.0], &[10.0, 10.0, 14.0]).ratio("a", "b").unwrap();
        assert_eq!(ratio, Ratio { value: 0.7, low: 0.5, high: 0.8 });
        assert!(!ratio.is_unsettled());
        assert!(Ratio { value: 0.9, low: 0.8, high: 1.1 }.is_unsettled());
    }

    #[test]
    fn one_boot_has_the_intervals_of_its_lines() {
        let ratio = row(&[5.0], &[10.0]).ratio("a", "b").unwrap();
        assert!(ratio.low < 0.5 && ratio.high > 0.5 && ratio.high < 0.53);
        assert_eq!(row(&[5.0], &[]).ratio("a", "b"), None);
    }

    #[test]
    fn a_row_meets_its_bar() {
        let at = |value| Ratio { value, low: value, high: value };
        let row = row(&[1.0], &[1.0]);
        let of = |against: &str| Results { against: against.to_owned(), ..Results::default() };
        assert!(of(LINUX).is_met(&row, &at(0.69)) && !of(LINUX).is_met(&row, &at(0.71)));
        assert!(of("monolith").is_met(&row, &at(0.71)), "a bar is one of Linux");
    }
}

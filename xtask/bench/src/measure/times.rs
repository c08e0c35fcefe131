//! The measurements of a guest: lines `bench: NAME: COUNT NS` of its log, and the cost of one by regression over the counts.
use anyhow::{Context, Result};
use std::collections::BTreeMap;

/// Measurements by name: counts, each with its nanoseconds.
#[derive(Clone, Debug, Default)]
pub struct Times(BTreeMap<String, Vec<(f64, f64)>>);

impl Times {
    /// Reads the measurements from a log.
    pub fn of(log: &str) -> Times {
        let mut times = Times::default();
        for (name, point) in log.lines().filter_map(point) {
            times.0.entry(name.to_owned()).or_default().push(point);
        }
        times
    }

    /// Returns the cost of one `name`, in nanoseconds; under `-icount shift=0` that is in instructions.
    ///
    /// # Errors
    /// Fails if it was measured with fewer than four counts.
    pub fn cost(&self, name: &str) -> Result<f64> {
        let points = self.0.get(name).filter(|points| points.len() >= 4);
        Ok(slope(points.with_context(|| format!("the guest did not measure {name:?}"))?))
    }
}

fn point(line: &str) -> Option<(&str, (f64, f64))> {
    let (name, numbers) = line.split_once("bench: ")?.1.rsplit_once(": ")?;
    let (count, ns) = numbers.trim().split_once(' ')?;
    Some((name, (count.parse().ok()?, ns.parse().ok()?)))
}

/// Returns the slope of the line through `points`, by least squares.
fn slope(points: &[(f64, f64)]) -> f64 {
    let count = points.len() as f64;
    let mean_x = points.iter().map(|point| point.0).sum::<f64>() / count;
    let mean_y = points.iter().map(|point| point.1).sum::<f64>() / count;
    let both: f64 = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    let square: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    both / square
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_is_the_slope_over_the_counts() {
        let log = "[ 0.1] I x: bench: call: 10 150\nbench: call: 20 250\nnoise\nbench: call: 30 350\nbench: call: 40 450\nbench: b: 1 1";
        let times = Times::of(log);
        assert!((times.cost("call").unwrap() - 10.0).abs() < 1e-9);
        assert!(times.cost("b").is_err() && times.cost("c").is_err());
    }
}

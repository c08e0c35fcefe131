//! The cost of isolation, over all suites: `default` of `monolith`.
use super::table::Table;
use crate::{
    results::{
        chapters::{chapters, title},
        comparison::{Results, Row},
    },
    values::unit::Unit,
};

/// The system whose drivers are isolated, and the one whose drivers are in the kernel.
pub const SYSTEMS: [&str; 2] = ["default", "monolith"];

/// Returns a table with a line for each suite and unit; `None` unless both systems were measured.
pub fn tables(results: &Results) -> Option<Table> {
    let [isolated, not] = SYSTEMS;
    if !SYSTEMS.iter().all(|system| results.sides().any(|side| side == *system)) {
        return None;
    }
    let of = |row: &Row| row.ratio(isolated, not).map(|ratio| ratio.value);
    let rows = chapters(results).into_iter().filter_map(|rows| {
        let first = *rows.first().filter(|row| row.unit != Unit::Kib)?;
        let ratios: Vec<(f64, &str)> =
            rows.iter().filter_map(|row| Some((of(row)?, row.name.as_str()))).collect();
        let (most, name) = ratios.iter().copied().max_by(|a, b| a.0.total_cmp(&b.0))?;
        let logs: f64 = ratios.iter().map(|(ratio, _)| ratio.ln()).sum();
        let mean = (logs / ratios.len() as f64).exp();
        Some(vec![title(first), format!("{mean:.3}"), format!("{most:.3}"), name.to_owned()])
    });
    let head = ["suite", "geometric mean", "most", "by the row"].map(str::to_owned).to_vec();
    let title = format!("What isolation costs: {isolated}, of {not}");
    Some(Table { title, head, rows: rows.collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suite_has_its_mean_and_its_worst_row() {
        let row = |name: &str, ours: f64| {
            let mut row = Row::new("micro", name, Unit::Instructions, 1);
            row.note("monolith", 100.0);
            row.note("default", ours);
            row
        };
        let mut results = Results {
            against: "monolith".to_owned(),
            systems: vec!["default".to_owned()],
            rows: vec![row("a", 200.0), row("b", 50.0)],
            ..Results::default()
        };
        let table = tables(&results).unwrap();
        assert_eq!(table.rows[0][1..], ["1.000", "2.000", "a"]);
        results.against = "linux".to_owned();
        assert!(tables(&results).is_none());
    }
}

//! The chapters of a comparison: the rows of one suite, unit and number of processors.
use super::comparison::{Results, Row};
use crate::values::unit::Unit;

/// Returns the title of rows of one suite and unit.
pub fn title(row: &Row) -> String {
    let unit = match row.unit {
        Unit::Clock => "nanoseconds",
        Unit::Instructions => "executed instructions",
        Unit::Kib => "KiB",
    };
    format!("{}: {unit}, {} processors", row.suite, row.cpus)
}

/// Rows of one suite, unit and number of processors.
pub fn chapters(results: &Results) -> Vec<Vec<&Row>> {
    let mut chapters: Vec<Vec<&Row>> = Vec::new();
    for row in &results.rows {
        match chapters
            .last_mut()
            .filter(|rows| rows.first().is_some_and(|first| title(first) == title(row)))
        {
            Some(rows) => rows.push(row),
            None => chapters.push(vec![row]),
        }
    }
    chapters
}

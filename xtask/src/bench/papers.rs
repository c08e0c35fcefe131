//! The papers' own tables, redone: what the paper measured beside what is measured here.
use super::{
    curves, isolated, locks,
    results::{Results, Row},
};
use crate::bench::{side::Unit, table::figure};

/// A table.
#[derive(Debug)]
pub struct Table {
    /// What it is, and whose.
    pub title: String,
    /// Names of the columns.
    pub head: Vec<String>,
    /// Their cells.
    pub rows: Vec<Vec<String>>,
}

/// Table 1 of T. Perrine and others, "Performance of the KSOS-32" (K7): seconds on a VAX-11/780 under KSOS and 4.2BSD.
const KSOS: [(&str, u32, u32); 5] =
    [("prime", 178, 178), ("openit", 352, 8), ("rw", 54, 3), ("copy", 57, 3), ("forkit", 832, 10)];

/// Those of which there are rows.
pub fn tables(results: &Results) -> Vec<Table> {
    let system = results.systems.first().map_or("", String::as_str);
    let mut tables: Vec<Table> = ksos(results).into_iter().collect();
    tables.extend(curves::tables(results));
    tables.extend(isolated::tables(results));
    tables.extend(locks::table(&results.locks, system));
    tables
}

fn ksos(results: &Results) -> Option<Table> {
    let row = |name: &str| {
        let is_it =
            |row: &&Row| row.suite == "ksos" && row.name == name && row.unit == Unit::Instructions;
        results.rows.iter().find(is_it)
    };
    let rows: Vec<Vec<String>> = KSOS
        .iter()
        .filter_map(|&(name, ksos, bsd)| Some(ksos_row(results, row(name)?, (name, ksos, bsd))))
        .collect();
    if rows.is_empty() {
        return None;
    }
    let mut head = ["", "KSOS, s", "4.2BSD, s", "ratio"].map(str::to_owned).to_vec();
    head.push(format!("{}, instructions", results.against));
    head.extend(results.systems.iter().flat_map(|system| [system.clone(), "ratio".to_owned()]));
    Some(Table { title: "KSOS-32, Table 1: the five programs".to_owned(), head, rows })
}

fn ksos_row(results: &Results, row: &Row, (name, ksos, bsd): (&str, u32, u32)) -> Vec<String> {
    let cost = |side: &str| row.cost(side).map_or_else(|| "-".to_owned(), figure);
    let ratio = format!("{:.1}:1", f64::from(ksos) / f64::from(bsd));
    let mut cells =
        vec![name.to_owned(), ksos.to_string(), bsd.to_string(), ratio, cost(&results.against)];
    for system in &results.systems {
        let ratio = row.ratio(system, &results.against);
        cells.extend([
            cost(system),
            ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{:.2}:1", ratio.value)),
        ]);
    }
    cells
}

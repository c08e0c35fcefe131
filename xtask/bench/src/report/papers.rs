//! The papers' own tables, with the measurements of this bench beside the paper's, and all other tables below the rows.
use super::{curves, isolated, received, table::Table};
use crate::{
    measure::locks::{Lock, MISSED_MAX},
    results::comparison::{Results, Row},
    values::{text::figure, unit::Unit},
};

/// The figures of table 1 of T. Perrine and others, "Performance of the KSOS-32" (K7): seconds on a VAX-11/780 under KSOS and
/// 4.2BSD.
const KSOS: [(&str, u32, u32); 5] =
    [("prime", 178, 178), ("openit", 352, 8), ("rw", 54, 3), ("copy", 57, 3), ("forkit", 832, 10)];

/// Returns all tables for which there are rows.
pub fn tables(results: &Results) -> Vec<Table> {
    let system = results.systems.first().map_or("", String::as_str);
    let mut tables: Vec<Table> = ksos(results).into_iter().chain(mutexes(results)).collect();
    tables.extend(received::table(results));
    tables.extend(curves::tables(results));
    tables.extend(isolated::tables(results));
    tables.extend(missed(&results.locks, system));
    tables
}

/// Table 8.2 of T. Birch, "Performance Limits of Darwin on L4" (L6): cycles of an increment by threads, Darwin and L4/Darwin.
const MUTEXES: [(u32, u32, u32); 8] = [
    (2, 12089, 6426),
    (3, 13944, 6433),
    (4, 15878, 6479),
    (5, 16582, 6522),
    (6, 16957, 6515),
    (7, 17113, 6544),
    (8, 17362, 6535),
    (9, 17256, 6531),
];

fn ksos(results: &Results) -> Option<Table> {
    let rows = KSOS.iter().map(|&(name, ksos, bsd)| {
        let ratio = format!("{:.1}:1", f64::from(ksos) / f64::from(bsd));
        (name.to_owned(), vec![name.to_owned(), ksos.to_string(), bsd.to_string(), ratio])
    });
    let head = ["", "KSOS, s", "4.2BSD, s", "ratio"];
    redone(results, "KSOS-32, Table 1: the five programs", "ksos", &head, rows)
}

fn mutexes(results: &Results) -> Option<Table> {
    let rows = MUTEXES.iter().map(|&(threads, darwin, l4)| {
        let ratio = format!("{:.2}:1", f64::from(l4) / f64::from(darwin));
        let cells = vec![threads.to_string(), darwin.to_string(), l4.to_string(), ratio];
        (format!("mutexes, ring of {threads} threads"), cells)
    });
    let head = ["threads", "Darwin, cycles", "L4/Darwin, cycles", "ratio"];
    redone(results, "L4/Darwin, Table 8.2: a ring of threads and mutexes", "threads", &head, rows)
}

/// Makes a table of `rows`, each with the name of a row of `suite` and the paper's cells, beside which our measurements are
/// put.
fn redone(
    results: &Results,
    title: &str,
    suite: &str,
    head: &[&str],
    rows: impl Iterator<Item = (String, Vec<String>)>,
) -> Option<Table> {
    let find = |name: &str| {
        let is_it =
            |row: &&Row| row.suite == suite && row.name == name && row.unit == Unit::Instructions;
        results.rows.iter().find(is_it)
    };
    let rows: Vec<Vec<String>> = rows
        .filter_map(|(name, cells)| Some([cells, measured(results, find(&name)?)].concat()))
        .collect();
    if rows.is_empty() {
        return None;
    }
    let mut head: Vec<String> = head.iter().map(|&name| name.to_owned()).collect();
    head.push(format!("{}, instructions", results.against));
    head.extend(results.systems.iter().flat_map(|system| [system.clone(), "ratio".to_owned()]));
    Some(Table { title: title.to_owned(), head, rows })
}

/// Returns the costs of the other side and of each Skerry system, and the ratios.
fn measured(results: &Results, row: &Row) -> Vec<String> {
    let cost = |side: &str| row.cost(side).map_or_else(|| "-".to_owned(), figure);
    let mut cells = vec![cost(&results.against)];
    for system in &results.systems {
        let ratio = row.ratio(system, &results.against);
        cells.extend([
            cost(system),
            ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{:.2}:1", ratio.value)),
        ]);
    }
    cells
}

/// Makes a table of the locks missed most often (M4).
fn missed(locks: &[Lock], system: &str) -> Option<Table> {
    let head = ["lock", "attempts", "misses", "per cent"].map(str::to_owned).to_vec();
    let row = |lock: &Lock| {
        let mark = if lock.missed() > MISSED_MAX { " !" } else { "" };
        let share = format!("{:.3}{mark}", lock.missed() * 100.0);
        vec![lock.class.clone(), lock.attempts.to_string(), lock.misses.to_string(), share]
    };
    let title = format!("Locks missed most often by mach on {system}, 2 processors");
    (!locks.is_empty()).then(|| Table { title, head, rows: locks.iter().map(row).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_misses_too_often_is_marked() {
        let lock = |attempts, misses| Lock { class: "a".to_owned(), attempts, misses };
        let rows = missed(&[lock(100, 50), lock(1000, 5)], "default").unwrap().rows;
        assert_eq!((rows[0][3].as_str(), rows[1][3].as_str()), ("50.000 !", "0.500"));
        assert!(missed(&[], "default").is_none());
    }
}

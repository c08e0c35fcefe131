//! The page with few rows and with all that docs/performance.md records.
use super::*;
use crate::{measure::probes::Measured, results::history, values::unit::Unit};
use harness::shell;
use std::fs;

/// A row's name and unit, and its costs by side.
type Costs<'a> = (&'a str, Unit, &'a [(&'a str, f64)]);

/// Makes a bench with rows of `micro`.
fn results(rows: &[Costs<'_>]) -> Results {
    let row = |&(name, unit, costs): &Costs<'_>| {
        let mut row = Row::new("micro", name, unit, 1);
        for &(side, slope) in costs {
            let points = (1..=5).map(|x| (f64::from(x), slope * f64::from(x))).collect();
            row.add(side, &Measured { name: name.to_owned(), points, ..Measured::default() });
        }
        row
    };
    Results {
        machine: "a machine".to_owned(),
        against: "linux".to_owned(),
        systems: vec!["default".to_owned(), "monolith".to_owned()],
        rows: rows.iter().map(row).collect(),
        ..Results::default()
    }
}

/// Reads the bench that docs/performance.md records.
fn recorded() -> Results {
    let page = fs::read_to_string(shell::root().join("docs/performance.md")).expect("the record");
    let mut found = results(&[]);
    for ((chapter, name), recorded) in history::parsed(&page) {
        let (suite, rest) = chapter.split_once(": ").expect("a suite");
        let (unit, cpus) = rest.split_once(", ").expect("processors");
        let unit = match unit {
            "nanoseconds" => Unit::Clock,
            "KiB" => Unit::Kib,
            _ => Unit::Instructions,
        };
        let cpus = cpus.split(' ').next().and_then(|cpus| cpus.parse().ok()).expect("a number");
        let mut row = Row::new(suite, &name, unit, cpus);
        recorded.costs.iter().for_each(|(side, &cost)| row.note(side, cost));
        found.rows.push(row);
    }
    found
}

#[test]
fn a_page_names_its_parts_and_cuts_long_bars() {
    let costs: &[(&str, f64)] = &[("linux", 100.0), ("default", 250.0), ("monolith", 90.0)];
    let results = results(&[("a<b", Unit::Instructions, costs), ("a<b", Unit::Clock, costs)]);
    let page = page(&results, &[]);
    assert!(page.contains("a&lt;b") && !page.contains("a<b"));
    assert!(page.contains("2.50 (cut) !") && page.contains("prefers-color-scheme:dark"));
    assert!(page.contains("<a href=\"#micro-nanoseconds-1-processors\">"));
    assert!(page.contains("<h2 id=\"micro-nanoseconds-1-processors\">"));
    assert!(page.contains(">100 ns<") && page.contains(">1 k<"), "each unit has its own axis");
    assert!(!page.contains("Recorded runs"));
}

#[test]
fn no_label_of_the_recorded_rows_touches_a_mark() {
    let results = recorded();
    assert!(results.rows.len() > 250, "{} rows", results.rows.len());
    let page = fs::read_to_string(shell::root().join("docs/performance.md")).expect("the record");
    let run =
        Run { date: "2026-01-01".to_owned(), commit: "1".to_owned(), rows: history::parsed(&page) };
    for runs in [Vec::new(), vec![run.clone(), Run::default(), run]] {
        for rows in chapters(&results) {
            let found = rows::draw(&results, &rows, &runs).collisions();
            assert!(found.is_empty(), "{}: {found:#?}", title(rows[0]));
        }
    }
}

#[test]
#[ignore = "writes build/bench/record.html, to be looked at"]
fn the_record_as_a_page() {
    let folder = shell::build_path("bench").expect("a folder");
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join("record.html"), page(&recorded(), &history::recorded())).expect("a page");
}

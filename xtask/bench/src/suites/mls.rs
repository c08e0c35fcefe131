//! `./x bench mls`: the instructions that levels cost: `mls` compared with `default`, and Linux that enforces SELinux's MLS policy
//! with Linux, in one run. Printed as a table, drawn in `build/bench-mls.svg`, described in `docs/mls.md`.
use crate::{
    draw::dots::{self, Dots},
    measure::{
        card::Card,
        probes::{self, Plan},
        side::{LINUX, Rate, SELINUX, Side},
    },
    results::comparison::Row,
    values::{text::figure, unit::Unit},
};
use anyhow::Result;
use harness::{build::Features, linux, packages, selinux, shell};
use std::fs;

const DEFAULT: &str = "default";
const LEVELS: &str = "mls";
const SIDES: [&str; 4] = [LINUX, SELINUX, DEFAULT, LEVELS];
/// The suites of `bench/probes` that have the rows.
const PROBES: [&str; 8] = ["audit", "ksos", "waits", "process", "files", "objects", "paths", "net"];

/// The most that nothing may cost: counts repeat to a thousandth.
const NOTHING: f64 = 1.001;
/// The rows, each with the greatest ratio of `mls` to `default`.
const ROWS: [(&str, f64); 31] = [
    ("prime", NOTHING),
    (DEEP, 1.01),
    (SHALLOW, 1.01),
    ("/home/bench/paths/a/b/c/d/file: open+close", 1.01),
    ("ext4: read", NOTHING),
    ("ext4: write", NOTHING),
    ("tmpfs: read", NOTHING),
    ("tmpfs: write", NOTHING),
    ("pipe: write+read", NOTHING),
    ("pipe 64 KB", NOTHING),
    ("stream: write+read", 1.01),
    ("datagram: write+read", 1.01),
    ("socket round trip", 1.01),
    ("datagram round trip", 1.01),
    ("socket 64 KB", 1.01),
    ("TCP round trip of one process", 1.01),
    ("connect+accept+close", 1.01),
    ("TCP write 64 KB", 1.01),
    ("UDP round trip", 1.01),
    ("create 0 KB ext4", 1.05),
    ("delete 0 KB ext4", 1.05),
    ("create 0 KB tmpfs", 1.05),
    ("delete 0 KB tmpfs", 1.05),
    ("fork+exit", 1.005),
    ("vfork+exec", 1.01),
    ("fork+exec", 1.01),
    ("sh -c", 1.01),
    (UNAUDITED, 1.01),
    (EXCLUDED, 1.01),
    (OTHER_CALL, 1.01),
    (OTHER_USER, 1.01),
];

/// Rows of two calls each: without audit, of a task that is not audited, and of calls that no rule selects.
const UNAUDITED: &str = "openat+close, audit off";
const EXCLUDED: &str = "openat+close, a task that is not audited";
const OTHER_CALL: &str = "openat+close, a rule of another call";
const OTHER_USER: &str = "openat+close, a rule of another user";
/// Rows of audit, each with the most instructions that a call may cost more than without it. A count repeats to an instruction.
const AUDITED: [(&str, f64); 3] = [(EXCLUDED, 1.0), (OTHER_CALL, 20.0), (OTHER_USER, 20.0)];

/// Two rows whose difference is that of so many names on a path: each is a decision.
const DEEP: &str = "/home/bench/paths/a/b/c/d/file: stat";
const SHALLOW: &str = "/home/bench/paths: stat";
const NAMES_BETWEEN: f64 = 5.0;
/// The most instructions of a decision that is known.
const DECISION_MAX: f64 = 5.0;
/// Boots of a side of Linux.
pub const BOOTS: u32 = 3;
/// Boots of a side of Skerry for each one of Linux, whose takes minutes: figures of waits differ from boot to boot.
const SKERRY_BOOTS: u32 = 4;

/// Measures in so many boots of each side, prints and draws the rows that have `filter` in their names. The status is 1 if a row misses its bar.
///
/// # Errors
/// Fails if something does not build, start or end as it should.
pub fn run(filter: Option<&str>, boots: u32) -> Result<u8> {
    packages::ensure(packages::Need::Test)?;
    linux::prepare()?;
    selinux::prepare()?;
    let image = probes::image()?;
    let is_wanted = |name: &str| filter.is_none_or(|filter| name.contains(filter));
    let mut rows: Vec<Row> = ROWS
        .iter()
        .filter(|(name, _)| is_wanted(name))
        .map(|(name, _)| Row::new("mls", name, Unit::Instructions, 1))
        .collect();
    for name in SIDES {
        let side = Side::new(name, &image, &Features::default())?;
        let times = if [LINUX, SELINUX].contains(&name) { 1 } else { SKERRY_BOOTS };
        for _ in 0..boots * times {
            measure(&side, &mut rows)?;
        }
    }
    let is_good = print(&rows);
    let path = shell::build_path("bench-mls.svg")?;
    fs::write(&path, draw(&rows))?;
    println!("drawn in {}", path.display());
    Ok(u8::from(!is_good))
}

/// Boots a side and adds its figures to the rows.
fn measure(side: &Side, rows: &mut [Row]) -> Result<()> {
    let bar = shell::progress(&format!("costs of levels: {}", side.name));
    let names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
    let filter = names.join("|");
    let unit = Unit::Instructions;
    let filter = Some(filter.as_str());
    let plan = Plan { unit, cpus: 1, rounds: 1, filter, suites: &PROBES, card: Card::None };
    for measured in side.boot(&plan, &mut Rate::default())? {
        if let Some(row) = rows.iter_mut().find(|row| row.name == measured.name) {
            row.add(&side.name, &measured);
        }
    }
    bar.finish_and_clear();
    Ok(())
}

fn bar_of(row: &Row) -> Option<f64> {
    ROWS.iter().find(|(name, _)| *name == row.name).map(|(_, bar)| *bar)
}

/// Returns the instructions of a decision that is known, of which a longer path needs more.
fn decision(rows: &[Row]) -> Option<f64> {
    let cost = |name: &str, side: &str| rows.iter().find(|row| row.name == name)?.cost(side);
    let names = |side: &str| Some(cost(DEEP, side)? - cost(SHALLOW, side)?);
    Some((names(LEVELS)? - names(DEFAULT)?) / NAMES_BETWEEN)
}

/// Returns the instructions that audit adds to each call of a row.
fn audited(rows: &[Row], name: &str, side: &str) -> Option<f64> {
    let cost = |name: &str| rows.iter().find(|row| row.name == name)?.cost(side);
    Some((cost(name)? - cost(UNAUDITED)?) / 2.0)
}

/// Prints what audit adds to a call. Returns whether it is within its bars on `mls`.
fn print_audited(rows: &[Row]) -> bool {
    let mut is_good = true;
    for (name, most) in AUDITED {
        let costs = SIDES.map(|side| (side, audited(rows, name, side)));
        let texts = costs.iter().filter_map(|(side, cost)| Some(format!("{side} {:.1}", (*cost)?)));
        let texts: Vec<String> = texts.collect();
        let is_met = audited(rows, name, LEVELS).is_none_or(|cost| cost <= most);
        if !texts.is_empty() {
            let mark = if is_met { "" } else { " !" };
            println!("{name}: a call costs more by {}, at most {most}{mark}", texts.join(", "));
        }
        is_good &= is_met;
    }
    is_good
}

/// Prints the table. Returns whether every row meets its bar.
fn print(rows: &[Row]) -> bool {
    println!("executed instructions\n");
    print!("{:<44}", "");
    for name in [LINUX, SELINUX, "ratio", DEFAULT, LEVELS, "ratio", "at most"] {
        print!("{name:>10}");
    }
    println!();
    let mut is_good = true;
    for row in rows {
        print!("{:<44}", row.name);
        for (base, side) in [(LINUX, SELINUX), (DEFAULT, LEVELS)] {
            for name in [base, side] {
                print!("{:>10}", row.cost(name).map_or_else(|| "-".to_owned(), figure));
            }
            let ratio = row.ratio(side, base);
            print!("{:>10}", ratio.map_or_else(|| "-".to_owned(), |it| format!("{:.3}", it.value)));
        }
        let is_met = is_met(row);
        println!("{:>10.3}{}", bar_of(row).unwrap_or_default(), if is_met { "" } else { " !" });
        is_good &= is_met;
        row.failed.iter().for_each(|(side, why)| println!("  {side}: {why}"));
    }
    if let Some(instructions) = decision(rows) {
        let is_met = instructions <= DECISION_MAX;
        println!(
            "\na decision that is known: {instructions:.1} instructions, at most {DECISION_MAX}"
        );
        is_good &= is_met;
    }
    is_good &= print_audited(rows);
    println!("! above what it is to be");
    is_good
}

/// Returns whether the ratio of the medians meets the bar of the row.
fn is_met(row: &Row) -> bool {
    let ratio = row.ratio(LEVELS, DEFAULT);
    ratio.is_some_and(|ratio| bar_of(row).is_none_or(|bar| ratio.value <= bar))
}

fn draw(rows: &[Row]) -> String {
    let sides = ["selinux/linux", "mls/default"].map(str::to_owned);
    let value = |row: &Row, (side, base)| row.ratio(side, base).map(|ratio| ratio.value);
    let of =
        |row: &Row| [(SELINUX, LINUX), (LEVELS, DEFAULT)].map(|pair| value(row, pair)).to_vec();
    let rows: Vec<dots::Row> = rows.iter().map(|row| (row.name.clone(), of(row))).collect();
    let title = "What levels cost: instructions with them, of those without";
    dots::draw(&Dots { title, sides: &sides, rows: &rows, mark: 1.0, least: None }).file()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, default: f64, mls: f64) -> Row {
        let mut row = Row::new("mls", name, Unit::Instructions, 1);
        row.note(DEFAULT, default);
        row.note(LEVELS, mls);
        row
    }

    #[test]
    fn a_row_meets_its_bar_by_its_medians() {
        assert!(is_met(&row("fork+exit", 1000.0, 1004.0)));
        assert!(!is_met(&row("fork+exit", 1000.0, 1006.0)));
        assert!(!is_met(&Row::new("mls", "prime", Unit::Instructions, 1)), "not measured");
    }

    #[test]
    fn a_decision_is_what_a_longer_path_costs_more() {
        let rows = [row(SHALLOW, 1000.0, 1010.0), row(DEEP, 1500.0, 1525.0)];
        assert_eq!(decision(&rows), Some(3.0));
        assert_eq!(decision(&rows[..1]), None);
    }

    #[test]
    fn audit_is_judged_by_what_it_adds_to_a_call() {
        let rows = [row(UNAUDITED, 3000.0, 3010.0), row(OTHER_CALL, 3030.0, 3050.0)];
        assert_eq!(audited(&rows, OTHER_CALL, LEVELS), Some(20.0));
        assert!(print_audited(&rows));
        assert!(!print_audited(&[row(UNAUDITED, 1.0, 1.0), row(OTHER_CALL, 43.0, 43.0)]));
    }
}

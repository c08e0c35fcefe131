//! A comparison as a page of the documentation.
use super::papers;
use crate::{
    measure::locks::{Lock, MISSED_MAX},
    results::{
        causes::Causes,
        chapters::{chapters, title},
        comparison::{Results, Row},
    },
    values::text::figure,
};
use std::fmt::Write;

/// Formats the page of the documentation. `causes` explains the rows that miss their bars.
pub fn markdown(results: &Results, causes: &Causes) -> String {
    let mut text = format!(
        "# Performance\n\nMade by `./x bench --record`: every row is measured on {} and on Skerry in turn, on the same QEMU, disk image \
         and binaries. What the columns mean, and how to find what a row does: [benchmarks](bench.md).\n\nMachine: {}.\n",
        results.against, results.machine
    );
    for rows in chapters(results) {
        let Some(first) = rows.first() else { continue };
        let _ = writeln!(text, "\n## {}\n", title(first));
        markdown_row(&mut text, &head(results));
        text += &format!("|---|{}\n", "---:|".repeat(head(results).len() - 1));
        rows.iter().for_each(|row| markdown_row(&mut text, &cells(results, row)));
    }
    for paper in papers::tables(results) {
        let _ = writeln!(text, "\n## {}\n", paper.title);
        markdown_row(&mut text, &paper.head);
        text += &format!("|---|{}\n", "---:|".repeat(paper.head.len() - 1));
        paper.rows.iter().for_each(|cells| markdown_row(&mut text, cells));
    }
    text + &losers(results, causes)
}

/// Lists the rows and locks that miss their bars, by cause and remedy.
fn losers(results: &Results, causes: &Causes) -> String {
    let of_row = |row: &Row| {
        let ratio =
            |system: &String| Some(format!("{:.2}", row.ratio(system, &results.against)?.value));
        let ratios: Vec<String> = results.systems.iter().filter_map(ratio).collect();
        let bar = results.bar(row).unwrap_or(1.0);
        format!("- **{}** ({}): {} of {bar:.2}", row.name, title(row), ratios.join(", "))
    };
    let of_lock = |lock: &Lock| {
        let (missed, bar) = (lock.missed() * 100.0, MISSED_MAX * 100.0);
        format!("- **{}** (misses of a lock): {missed:.2} % of {bar:.2} %", lock.class)
    };
    let rows = results.rows.iter().filter(|row| is_lost(results, row));
    let locks = results.locks.iter().filter(|lock| lock.missed() > MISSED_MAX);
    let lost = rows
        .map(|row| (causes.of(&row.name), of_row(row)))
        .chain(locks.map(|lock| (causes.of(&lock.class), of_lock(lock))));
    let mut by_cause: Vec<(&str, Vec<String>)> = Vec::new();
    for (why, line) in lost {
        match by_cause.iter_mut().find(|(other, _)| *other == why) {
            Some((_, lines)) => lines.push(line),
            None => by_cause.push((why, vec![line])),
        }
    }
    let mut text = String::from("\n## Rows above what they are to be\n");
    if by_cause.is_empty() {
        text += "\nNone.\n";
    }
    for (why, lines) in by_cause {
        let (first, rest) = why.split_at(why.chars().next().map_or(0, char::len_utf8));
        let first = first.to_uppercase();
        let _ = writeln!(text, "\n{first}{rest}.\n\n{}", lines.join("\n"));
    }
    text
}

/// Returns whether the row misses its bar on a system.
pub fn is_lost(results: &Results, row: &Row) -> bool {
    let ratio = |system: &String| row.ratio(system, &results.against);
    results.systems.iter().filter_map(ratio).any(|ratio| !results.is_met(row, &ratio))
}

/// Returns the names of a chapter's columns.
pub fn head(results: &Results) -> Vec<String> {
    let mut head = vec!["row".to_owned(), results.against.clone()];
    for system in &results.systems {
        head.extend([system.clone(), "ratio".to_owned(), "from..to".to_owned()]);
    }
    head.extend(["at most".to_owned(), "R2".to_owned(), "outliers".to_owned()]);
    head
}

/// Returns the cells of a row.
pub fn cells(results: &Results, row: &Row) -> Vec<String> {
    let cost = |side: &str| row.cost(side).map_or_else(|| "-".to_owned(), figure);
    let mut cells = vec![row.name.clone(), cost(&results.against)];
    for system in &results.systems {
        let ratio = row.ratio(system, &results.against);
        let value = ratio.map_or_else(
            || "-".to_owned(),
            |ratio| {
                let mark = if results.is_met(row, &ratio) { "" } else { " !" };
                let unsettled = if ratio.is_unsettled() { " ~" } else { "" };
                format!("{:.3}{unsettled}{mark}", ratio.value)
            },
        );
        let range =
            ratio.map_or_else(String::new, |ratio| format!("{:.2}..{:.2}", ratio.low, ratio.high));
        cells.extend([cost(system), value, range]);
    }
    let fits = || row.fits.values().flatten();
    let least = fits().map(|fit| fit.r2).fold(1.0, f64::min);
    let outliers: usize = fits().map(|fit| fit.outliers).sum();
    let bar = results.bar(row).map_or_else(String::new, |bar| format!("{bar:.3}"));
    cells.extend([bar, format!("{least:.4}"), outliers.to_string()]);
    cells
}

fn markdown_row(text: &mut String, cells: &[String]) {
    let _ = writeln!(text, "| {} |", cells.join(" | "));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{measure::probes::Measured, values::unit::Unit};

    const LOCK: &str = "- **a.lock** (misses of a lock): 5.00 % of 1.00 %";

    fn results() -> Results {
        let mut row = Row::new("micro", "a<b", Unit::Instructions, 1);
        for (side, slope) in [("linux", 100.0), ("default", 250.0)] {
            let points = (1..=5).map(|x| (f64::from(x), slope * f64::from(x))).collect();
            row.add(side, &Measured { name: "a<b".to_owned(), points, ..Measured::default() });
        }
        Results {
            machine: "a machine".to_owned(),
            against: "linux".to_owned(),
            systems: vec!["default".to_owned()],
            rows: vec![row],
            locks: vec![Lock { class: "a.lock".to_owned(), attempts: 100, misses: 5 }],
            ..Results::default()
        }
    }

    #[test]
    fn rows_that_are_lost_are_accounted_for() {
        let causes = Causes::parse("[[cause]]\nrows = [\"a<b\"]\nwhy = \"it is slow\"\n").unwrap();
        let page = markdown(&results(), &causes);
        assert!(page.contains("| a<b | 100 | 250 | 2.500 ! |"), "{page}");
        assert!(
            page.contains(
                "\nIt is slow.\n\n- **a<b** (micro: executed instructions, 1 processors): 2.50 of"
            ),
            "{page}"
        );
        assert!(page.contains(&format!("\nNot yet accounted for.\n\n{LOCK}")), "{page}");
    }
}

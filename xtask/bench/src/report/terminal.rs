//! A comparison as a table on the terminal.
use super::{papers, table::Table};
use crate::{
    results::{
        chapters::title,
        comparison::{Results, Row},
    },
    values::text::figure,
};

/// Prints `results`. Returns whether every row meets its bar.
pub fn print(results: &Results) -> bool {
    let mut is_good = true;
    let mut last = String::new();
    for row in &results.rows {
        let title = title(row);
        if title != last {
            print_head(results, &title);
            last = title;
        }
        is_good &= print_row(results, row);
    }
    papers::tables(results).iter().for_each(print_table);
    println!(
        "\n! above what it is to be   ~ not settled: the spread is more than the distance from 1"
    );
    is_good
}

fn print_head(results: &Results, title: &str) {
    print!("\n{title}\n{:<26}{:>12}", "", results.against);
    results.systems.iter().for_each(|system| print!("{system:>12}{:>22}", "ratio"));
    println!("{:>8}", "at most");
}

fn print_row(results: &Results, row: &Row) -> bool {
    let cost = |side: &str| row.cost(side).map_or_else(|| "-".to_owned(), figure);
    let mut is_good = true;
    print!("{:<26}{:>12}", row.name, cost(&results.against));
    for system in &results.systems {
        let ratio = row.ratio(system, &results.against);
        let is_met = ratio.as_ref().is_some_and(|ratio| results.is_met(row, ratio));
        is_good &= is_met;
        let said = ratio.map_or_else(
            || "-".to_owned(),
            |ratio| {
                let unsettled = if ratio.is_unsettled() { "~" } else { "" };
                format!("{:.3}{unsettled} ({:.2}..{:.2})", ratio.value, ratio.low, ratio.high)
            },
        );
        print!("{:>12}{said:>21}{}", cost(system), if is_met { " " } else { "!" });
    }
    println!("{:>8}", results.bar(row).map_or_else(String::new, |bar| format!("{bar:.3}")));
    for (side, why) in &row.failed {
        println!("  {side}: {why}");
    }
    is_good
}

fn print_table(table: &Table) {
    println!("\n{}", table.title);
    let lines = || std::iter::once(&table.head).chain(&table.rows);
    let width = |at: usize| lines().filter_map(|cells| Some(cells.get(at)?.len())).max();
    for cells in lines() {
        for (at, cell) in cells.iter().enumerate() {
            let width = width(at).unwrap_or_default();
            if at == 0 { print!("{cell:<width$}") } else { print!("  {cell:>width$}") }
        }
        println!();
    }
}

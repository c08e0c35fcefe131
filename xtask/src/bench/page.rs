//! A comparison as one HTML page that needs nothing else, and as a page of the documentation.
use super::{
    causes::Causes,
    curves,
    locks::{Lock, MISSED_MAX},
    papers,
    results::{Results, Row},
    table::{chapters, figure, title},
};
use std::fmt::Write;

/// Columns of a chart: where the bars begin, and how long one of ratio [`RATIO_MAX`] is.
const LEFT: f64 = 190.0;
const WIDTH: f64 = 520.0;
const BAR: f64 = 9.0;
const GAP: f64 = 6.0;
/// Longer bars are cut, and say what they are.
const RATIO_MAX: f64 = 2.0;
/// Patterns tell the systems apart without colour: filled, striped, outlined.
const FILLS: [&str; 3] = ["#357", "url(#stripes)", "#fff"];

const HEAD: &str = r##"<!doctype html>
<meta charset="utf-8"><title>Skerry beside Linux</title>
<style>body{font:14px sans-serif;max-width:60em;margin:2em auto;padding:0 1em}td,th{padding:.1em .8em;text-align:right}
td:first-child,th:first-child{text-align:left}table{border-collapse:collapse}tr:nth-child(even){background:#f2f2f2}</style>
<svg width="0" height="0"><defs><pattern id="stripes" width="4" height="4" patternUnits="userSpaceOnUse">
<rect width="4" height="4" fill="#fff"/><path d="M0,4 L4,0" stroke="#357" stroke-width="1.5"/></pattern></defs></svg>
"##;

/// The page.
pub fn html(results: &Results) -> String {
    let mut text = String::from(HEAD);
    let (machine, against) = (escaped(&results.machine), escaped(&results.against));
    let _ = writeln!(text, "<h1>Skerry beside {against}</h1><p>{machine}</p>");
    let _ = writeln!(
        text,
        "<p>Bars are ratios to {against}: shorter is better, the line is 1, the mark what the row is to be at most.</p>"
    );
    for rows in chapters(results) {
        let Some(first) = rows.first() else { continue };
        let _ = writeln!(text, "<h2>{}</h2>\n{}", escaped(&title(first)), chart(results, &rows));
        text += &html_table(results, &rows);
    }
    text += &curves::html(results);
    for paper in papers::tables(results) {
        let _ = writeln!(text, "<h2>{}</h2>\n<table>", escaped(&paper.title));
        html_row(&mut text, "th", &paper.head);
        paper.rows.iter().for_each(|cells| html_row(&mut text, "td", cells));
        text += "</table>\n";
    }
    text
}

/// The page of the documentation; `causes` accounts for the rows that are not what they are to be.
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

/// Rows and locks that are not what they are to be, by cause and remedy.
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

fn is_lost(results: &Results, row: &Row) -> bool {
    let ratio = |system: &String| row.ratio(system, &results.against);
    results.systems.iter().filter_map(ratio).any(|ratio| !results.is_met(row, &ratio))
}

fn head(results: &Results) -> Vec<String> {
    let mut head = vec!["row".to_owned(), results.against.clone()];
    for system in &results.systems {
        head.extend([system.clone(), "ratio".to_owned(), "from..to".to_owned()]);
    }
    head.extend(["at most".to_owned(), "R2".to_owned(), "outliers".to_owned()]);
    head
}

fn cells(results: &Results, row: &Row) -> Vec<String> {
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

fn html_table(results: &Results, rows: &[&Row]) -> String {
    let mut text = String::from("<details><summary>figures</summary><table>\n");
    html_row(&mut text, "th", &head(results));
    rows.iter().for_each(|row| html_row(&mut text, "td", &cells(results, row)));
    text + "</table></details>\n"
}

fn html_row(text: &mut String, element: &str, cells: &[String]) {
    *text += "<tr>";
    for cell in cells {
        let _ = write!(text, "<{element}>{}</{element}>", escaped(cell));
    }
    *text += "</tr>\n";
}

fn markdown_row(text: &mut String, cells: &[String]) {
    let _ = writeln!(text, "| {} |", cells.join(" | "));
}

/// The ratios of `rows` as bars.
fn chart(results: &Results, rows: &[&Row]) -> String {
    let systems = results.systems.len() as f64;
    let step = systems * BAR + GAP;
    let height = rows.len() as f64 * step + 30.0;
    let mut text = format!(
        "<svg width=\"{}\" height=\"{height}\" font-size=\"11\" font-family=\"sans-serif\">\n",
        LEFT + WIDTH + 60.0
    );
    for (at, row) in rows.iter().enumerate() {
        let top = at as f64 * step + 4.0;
        let _ = writeln!(
            text,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>",
            LEFT - 6.0,
            top + systems * BAR / 2.0 + 4.0,
            escaped(&row.name)
        );
        for (which, system) in results.systems.iter().enumerate() {
            if let Some(ratio) = row.ratio(system, &results.against) {
                bar(&mut text, top + which as f64 * BAR, ratio.value, FILLS[which % FILLS.len()]);
            }
        }
        if let Some(most) = results.bar(row) {
            line(&mut text, most, (top - 1.0, top + systems * BAR + 1.0), "#000");
        }
    }
    line(&mut text, 1.0, (0.0, height - 26.0), "#a33");
    for (which, system) in results.systems.iter().enumerate() {
        let (x, y) = (LEFT + 150.0 * which as f64, height - 14.0);
        let fill = FILLS[which % FILLS.len()];
        let _ = writeln!(
            text,
            "<rect x=\"{x}\" y=\"{y}\" width=\"20\" height=\"9\" fill=\"{fill}\" stroke=\"#357\"/>\
             <text x=\"{}\" y=\"{}\">{}</text>",
            x + 26.0,
            y + 9.0,
            escaped(system)
        );
    }
    text + "</svg>\n"
}

fn bar(text: &mut String, top: f64, ratio: f64, fill: &str) {
    let width = ratio.clamp(0.0, RATIO_MAX) / RATIO_MAX * WIDTH;
    let _ = writeln!(
        text,
        "<rect x=\"{LEFT}\" y=\"{top}\" width=\"{width:.1}\" height=\"{}\" fill=\"{fill}\" stroke=\"#357\"/>\
         <text x=\"{:.1}\" y=\"{}\" font-size=\"9\">{ratio:.2}{}</text>",
        BAR - 1.0,
        LEFT + width + 3.0,
        top + BAR - 1.0,
        if ratio > RATIO_MAX { " (cut)" } else { "" }
    );
}

fn line(text: &mut String, ratio: f64, (from, to): (f64, f64), colour: &str) {
    let x = LEFT + ratio / RATIO_MAX * WIDTH;
    let _ = writeln!(
        text,
        "<line x1=\"{x:.1}\" y1=\"{from}\" x2=\"{x:.1}\" y2=\"{to}\" stroke=\"{colour}\"/>"
    );
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::{probes::Measured, side::Unit};

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
    fn a_page_shows_each_row_once_a_chart_and_cuts_long_bars() {
        let page = html(&results());
        assert!(page.contains("a&lt;b") && !page.contains("a<b"));
        assert!(page.contains("2.50 (cut)") && page.contains("width=\"520.0\""));
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

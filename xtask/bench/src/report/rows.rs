//! A chapter of the page as a drawing: of each row its costs, its ratios and their history over the recorded runs.
use super::runs;
use crate::{
    draw::{
        axis::Axis,
        drawing::{Anchor, Area, Drawing, text_width, widest},
    },
    results::{
        comparison::{Results, Row},
        history::{self, Run},
    },
    values::{
        text::{plain, said},
        unit::Unit,
    },
};

const LEFT: f64 = 6.0;
/// Distance from one column to the next.
const GAP: f64 = 34.0;
const COSTS: f64 = 190.0;
const RATIOS: f64 = 250.0;
const PAST: f64 = 110.0;
/// Height of a bar, and of a row beyond its bars.
const BAR: f64 = 9.0;
const BETWEEN: f64 = 8.0;
/// Base line of the columns' names, and upper edge of the rows.
const NAMES: f64 = 14.0;
const TOP: f64 = 36.0;
/// A chapter's ratios above this are cut.
const RATIO_MAX: f64 = 2.0;

/// The positions of the columns.
struct Columns {
    names: f64,
    costs: Axis,
    ratios: Axis,
    /// Right ends of the systems' figures.
    figures: Vec<f64>,
    past: f64,
    bottom: f64,
    row: f64,
}

/// Draws `rows`, which have one unit.
pub fn draw(results: &Results, rows: &[&Row], runs: &[Run]) -> Drawing {
    let mut drawing = Drawing::default();
    let columns = Columns::of(results, rows);
    columns.frame(&mut drawing, results, rows, runs);
    for (at, row) in rows.iter().enumerate() {
        columns.row(&mut drawing, TOP + at as f64 * columns.row, results, row);
        let past = match results.systems.first() {
            Some(system) if !runs.is_empty() => history::past(runs, results, row, system),
            _ => continue,
        };
        columns.past(&mut drawing, TOP + at as f64 * columns.row, &past);
    }
    drawing
}

/// Returns the number by which `side` is drawn everywhere.
pub fn number(results: &Results, side: &str) -> usize {
    let ours = results.systems.iter().chain(&results.curves_only);
    ours.take_while(|&other| other != side).count()
}

impl Columns {
    fn of(results: &Results, rows: &[&Row]) -> Columns {
        let names = LEFT + widest(rows.iter().map(|row| row.name.as_str()));
        let costs = (names + GAP, names + GAP + COSTS);
        let ratios = (costs.1 + GAP, costs.1 + GAP + RATIOS);
        let of_rows = |system: &String| {
            let said = rows.iter().filter_map(|row| said_ratio(results, row, system));
            said.map(|(text, _)| text_width(&text)).fold(text_width(system), f64::max)
        };
        let mut right = ratios.1 + 6.0;
        let mut figures = Vec::new();
        for system in &results.systems {
            right += of_rows(system) + 12.0;
            figures.push(right);
        }
        let all = || rows.iter().flat_map(|row| results.sides().filter_map(|side| row.cost(side)));
        let greatest = greatest(results, rows);
        let is_size = rows.first().is_some_and(|row| row.unit == Unit::Kib);
        let base = if is_size { 4.0 } else { 10.0 };
        let row = (results.systems.len() + 1) as f64 * BAR + BETWEEN;
        Columns {
            names,
            costs: Axis::powers(base, all(), costs),
            ratios: Axis::even(greatest, ratios),
            figures,
            past: right + GAP,
            bottom: TOP + rows.len() as f64 * row,
            row,
        }
    }

    /// Draws the names of the columns, axes above and below the rows, and the legend.
    fn frame(&self, drawing: &mut Drawing, results: &Results, rows: &[&Row], runs: &[Run]) {
        let unit = rows.first().map_or(Unit::Clock, |row| row.unit);
        let (first, ratio) = (self.names + GAP, self.names + GAP + COSTS + GAP);
        drawing.label((first, NAMES), Anchor::Start, "cost, logarithmic", "dim");
        let of = format!("ratio to {}", results.against);
        drawing.label((ratio, NAMES), Anchor::Start, &of, "dim");
        for (system, &right) in results.systems.iter().zip(&self.figures) {
            drawing.label((right, NAMES), Anchor::End, system, "dim");
        }
        for (y, across) in [(TOP, self.bottom), (self.bottom, TOP)] {
            self.costs.draw_flat(drawing, (y, across), |value| said(value, unit));
            self.ratios.draw_flat(drawing, (y, across), plain);
        }
        let one = self.ratios.place(1.0);
        drawing.line(&[(one, TOP), (one, self.bottom)], "one");
        if let Some(run) = runs.first() {
            let name = results.systems.first().map_or("", String::as_str);
            let name = format!("{name} over the recorded runs");
            drawing.label((self.past, NAMES), Anchor::Start, &name, "dim");
            let below = self.bottom + 13.0;
            drawing.label((self.past, below), Anchor::Start, &run.date, "dim");
            drawing.label((self.past + PAST, below), Anchor::End, "now", "dim");
        }
        legend(
            drawing,
            results.sides().map(|side| (number(results, side), side)),
            (first, self.bottom + 34.0),
        );
    }

    fn row(&self, drawing: &mut Drawing, top: f64, results: &Results, row: &Row) {
        let middle = top + self.row / 2.0;
        drawing.label((self.names, middle + 4.0), Anchor::End, &row.name, "");
        let step = (self.row - BETWEEN) / results.sides().count() as f64;
        for (at, side) in results.sides().enumerate() {
            if let Some(cost) = row.cost(side) {
                let y = top + BETWEEN / 2.0 + (at as f64 + 0.5) * step;
                drawing.sign(number(results, side), (self.costs.place(cost), y));
            }
        }
        let bars = results.systems.len() as f64 * BAR;
        let first = middle - bars / 2.0;
        for (at, (system, &right)) in results.systems.iter().zip(&self.figures).enumerate() {
            let (Some(ratio), Some((said, class))) =
                (row.ratio(system, &results.against), said_ratio(results, row, system))
            else {
                continue;
            };
            let top = first + at as f64 * BAR;
            let (left, right_end) = (self.ratios.place(0.0), self.ratios.place(ratio.value));
            let area = Area { left, top, right: right_end, bottom: top + BAR - 1.5 };
            drawing.rect(area, &format!("s{}", number(results, system) % 4));
            drawing.label((right, middle + 4.0), Anchor::End, &said, class);
        }
        if let Some(most) = results.bar(row).filter(|most| !self.ratios.is_below(*most)) {
            let x = self.ratios.place(most);
            drawing.line(&[(x, first - 3.0), (x, first + bars + 3.0)], "most");
        }
    }

    fn past(&self, drawing: &mut Drawing, top: f64, past: &history::Past) {
        let Some((first, last)) = history::ends(past) else { return };
        let (top, bottom) = (top + BETWEEN / 2.0, top + self.row - BETWEEN / 2.0);
        let area = Area { left: self.past, top, right: self.past + PAST, bottom };
        runs::line(drawing, past, area);
        let said = format!("{first:.2} → {last:.2}");
        let at = (self.past + PAST + 12.0, f64::midpoint(top, bottom) + 4.0);
        drawing.label(at, Anchor::Start, &said, "dim");
    }
}

/// Draws the sides with their signs and names in a line.
pub fn legend<'a>(
    drawing: &mut Drawing,
    sides: impl Iterator<Item = (usize, &'a str)>,
    (left, y): (f64, f64),
) {
    let mut x = left + 4.0;
    for (number, side) in sides {
        drawing.sign(number, (x, y));
        drawing.label((x + 9.0, y + 4.0), Anchor::Start, side, "");
        x += 9.0 + text_width(side) + 24.0;
    }
}

/// Returns the greatest ratio that the axis must show.
fn greatest(results: &Results, rows: &[&Row]) -> f64 {
    let ratios = rows.iter().flat_map(|row| {
        let ratio = |system: &String| Some(row.ratio(system, &results.against)?.value);
        results.systems.iter().filter_map(ratio)
    });
    ratios.fold(1.0, f64::max).min(RATIO_MAX)
}

/// Returns a ratio as text, and the class for one that is above its bar.
fn said_ratio(results: &Results, row: &Row, system: &str) -> Option<(String, &'static str)> {
    let ratio = row.ratio(system, &results.against)?;
    let is_cut = ratio.value > RATIO_MAX;
    let text = format!("{:.2}{}", ratio.value, if is_cut { " (cut)" } else { "" });
    Some(match results.is_met(row, &ratio) {
        true => (text, ""),
        false => (format!("{text} !"), "bad"),
    })
}

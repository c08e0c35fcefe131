//! Dot charts as separate drawings: a line for each row, with a sign for each side.
use super::{
    axis::Axis,
    drawing::{Anchor, Drawing, widest},
};
use crate::values::text::{figure, plain};

/// A row: its name, and a value for each side that has one.
pub type Row = (String, Vec<Option<f64>>);

/// A chart.
#[derive(Clone, Debug)]
pub struct Dots<'a> {
    /// Its title, with the unit.
    pub title: &'a str,
    /// Names of the sides.
    pub sides: &'a [String],
    /// The rows.
    pub rows: &'a [Row],
    /// The value at which a line crosses all rows.
    pub mark: f64,
    /// The least value of a logarithmic axis; an even one begins at 0.
    pub least: Option<f64>,
}

const STEP: f64 = 18.0;
const TOP: f64 = 56.0;
const WIDTH: f64 = 420.0;
/// Distance between the signs of the legend.
const LEGEND: f64 = 110.0;

/// Draws a chart.
pub fn draw(chart: &Dots<'_>) -> Drawing {
    let left = 10.0 + widest(chart.rows.iter().map(|(name, _)| name.as_str())) + 10.0;
    let bottom = TOP + chart.rows.len() as f64 * STEP;
    let values = || chart.rows.iter().flat_map(|(_, values)| values).flatten().copied();
    let ends = (left, left + WIDTH);
    let axis = match chart.least {
        Some(least) => Axis::powers(10.0, values().chain([least, chart.mark]), ends),
        None => Axis::even(values().fold(chart.mark, f64::max), ends),
    };
    let mut drawing = Drawing::default();
    drawing.label((10.0, 16.0), Anchor::Start, chart.title, "");
    for (at, side) in chart.sides.iter().enumerate() {
        let x = left + at as f64 * LEGEND;
        drawing.sign(at, (x, 28.0));
        drawing.label((x + 8.0, 32.0), Anchor::Start, side, "");
    }
    let say = |value| if chart.least.is_some() { figure(value) } else { plain(value) };
    axis.draw_flat(&mut drawing, (bottom, TOP), say);
    for (at, (name, values)) in chart.rows.iter().enumerate() {
        let y = TOP + (at as f64 + 0.5) * STEP;
        drawing.label((left - 10.0, y + 4.0), Anchor::End, name, "");
        for (side, value) in values.iter().enumerate() {
            if let Some(value) = value {
                drawing.sign(side, (axis.place(*value), y));
            }
        }
    }
    let mark = axis.place(chart.mark);
    drawing.line(&[(mark, TOP), (mark, bottom)], "one");
    drawing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_label_touches_another_and_each_value_has_a_sign() {
        let sides = ["linux", "selinux", "default", "mls"].map(str::to_owned);
        let rows = [
            ("a row of a long name".to_owned(), vec![Some(1.0), Some(900.0), None, Some(4000.0)]),
            ("b".to_owned(), vec![None, None, None, Some(1.04)]),
        ];
        for least in [Some(0.1), None] {
            let chart = Dots { title: "Title, unit", sides: &sides, rows: &rows, mark: 1.0, least };
            let drawing = draw(&chart);
            assert_eq!(drawing.collisions(), Vec::<String>::new());
            // Four in the rows, four in the legend: discs, squares and rings are of each kind, triangles are paths.
            assert_eq!(drawing.svg().matches("l3.5,7 h-7 z").count(), 3);
        }
    }
}

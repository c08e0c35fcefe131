//! Bar charts as separate drawings.
use super::{
    axis::Axis,
    drawing::{Anchor, Area, Drawing, text_width, widest},
};
use crate::values::text::plain;

/// A bar of a chart.
#[derive(Clone, Debug)]
pub struct Bar {
    /// Name of the bar.
    pub name: String,
    /// Length of the bar, in the unit of the drawing.
    pub value: f64,
}

const LEFT: f64 = 10.0;
const WIDTH: f64 = 460.0;
const STEP: f64 = 22.0;
/// Upper edge of the first bar.
const TOP: f64 = 46.0;

/// Returns a drawing of `bars` of `unit` under `title`. `mark` is a line across all of them, with
/// its name.
pub fn draw(title: &str, unit: &str, bars: &[Bar], mark: (&str, f64)) -> String {
    drawing(title, unit, bars, mark).file()
}

fn drawing(title: &str, unit: &str, bars: &[Bar], (name, mark): (&str, f64)) -> Drawing {
    let most = bars.iter().map(|bar| bar.value).fold(mark, f64::max).max(1.0);
    let left = LEFT + widest(bars.iter().map(|bar| bar.name.as_str())) + 8.0;
    let right = left + WIDTH;
    let figures: Vec<String> = bars.iter().map(|bar| format!("{:.0}", bar.value)).collect();
    let end = right + 14.0 + widest(figures.iter().map(String::as_str));
    let bottom = TOP + bars.len() as f64 * STEP;
    let axis = Axis::even(most, (left, right));
    let mut drawing = Drawing::default();
    drawing.label((LEFT, 16.0), Anchor::Start, &format!("{title}, {unit}"), "");
    axis.draw_flat(&mut drawing, (bottom, TOP), plain);
    for (row, (bar, figure)) in bars.iter().zip(&figures).enumerate() {
        let top = TOP + row as f64 * STEP + 3.0;
        let (base, bottom) = (top + 12.0, top + STEP - 6.0);
        drawing.label((left - 6.0, base), Anchor::End, &bar.name, "");
        drawing.rect(Area { left, top, right: axis.place(bar.value), bottom }, "s0");
        drawing.label((end, base), Anchor::End, figure, "");
    }
    let at = axis.place(mark);
    drawing.line(&[(at, TOP - 4.0), (at, bottom)], "one");
    let said = format!("{name} {mark:.0}");
    // The label is above its line, within the drawing.
    let place = (at - text_width(&said) / 2.0).clamp(LEFT, (end - text_width(&said)).max(LEFT));
    drawing.label((place, TOP - 10.0), Anchor::Start, &said, "bad");
    drawing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_bar_fills_the_drawing_and_no_label_touches_it() {
        for (name, mark) in [("mark", 75.0), ("a mark with a long name", 0.0), ("most", 100.0)] {
            let bars = [("a", 50.0), ("a bar of a long name", 100.0)]
                .map(|(name, value)| Bar { name: name.to_owned(), value });
            let drawing = drawing("title", "instructions", &bars, (name, mark));
            assert_eq!(drawing.collisions(), Vec::<String>::new());
            let text = drawing.file();
            assert!(text.contains("width=\"460.0\"") && text.contains("width=\"230.0\""));
            assert!(text.contains(&format!("{name} {mark}")) && text.contains(">20<"), "{text}");
        }
    }
}

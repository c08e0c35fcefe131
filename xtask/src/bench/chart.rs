//! Bars as SVG.
use std::fmt::Write;

/// One bar.
#[derive(Clone, Debug)]
pub struct Bar {
    /// What it is.
    pub name: String,
    /// How long.
    pub value: f64,
}

const LEFT: f64 = 330.0;
const WIDTH: f64 = 460.0;
const STEP: usize = 22;

/// A drawing of `bars` of `unit` under `title`; `mark` is a line across all of them, with its name.
pub fn draw(title: &str, unit: &str, bars: &[Bar], mark: (&str, f64)) -> String {
    let most = bars.iter().map(|bar| bar.value).fold(mark.1, f64::max).max(1.0);
    let height = 60 + bars.len() * STEP;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"860\" height=\"{}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <text x=\"10\" y=\"20\">{title}, {unit}</text>\n",
        height + 20
    );
    for (row, bar) in bars.iter().enumerate() {
        let (top, width) = (34 + row * STEP, bar.value / most * WIDTH);
        let _ = writeln!(
            text,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\
             <rect x=\"{LEFT}\" y=\"{top}\" width=\"{width:.1}\" height=\"{}\" fill=\"#357\"/>\
             <text x=\"{:.1}\" y=\"{}\">{:.0}</text>",
            LEFT - 6.0,
            top + 13,
            bar.name,
            STEP - 6,
            LEFT + width + 4.0,
            top + 13,
            bar.value
        );
    }
    let at = LEFT + mark.1 / most * WIDTH;
    let _ = writeln!(
        text,
        "<line x1=\"{at:.1}\" y1=\"28\" x2=\"{at:.1}\" y2=\"{height}\" stroke=\"#a33\"/>\
         <text x=\"{at:.1}\" y=\"{}\" fill=\"#a33\">{} {:.0}</text>\n</svg>",
        height + 14,
        mark.0,
        mark.1
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_bar_fills_the_drawing() {
        let bars =
            [("a", 50.0), ("b", 100.0)].map(|(name, value)| Bar { name: name.to_owned(), value });
        let text = draw("title", "instructions", &bars, ("mark", 75.0));
        assert!(text.contains("width=\"460.0\"") && text.contains("width=\"230.0\""));
        assert!(text.contains("mark 75"));
    }
}

//! Drawings as SVG. A label has a measured box, so a host test can check that no label touches a mark or another
//! label.
//!
//! Widths are those of Helvetica and of the fonts with the same metrics; `textLength` forces other fonts to them.
use std::fmt::Write;

/// Height of a label's font, in pixels.
pub const FONT: f64 = 11.0;
/// Reach of a label above and below its base line.
const ASCENT: f64 = 0.74 * FONT;
const DESCENT: f64 = 0.22 * FONT;
/// Pixels between the outermost shapes and the drawing's edge.
const MARGIN: f64 = 6.0;

/// Colours by variable, light and dark, and the classes of labels and marks. Fills differ without colour, too: filled,
/// striped, outlined, grey.
pub const STYLE: &str = "\
:root{color-scheme:light dark;--page:#fff;--ink:#222;--dim:#667;--rule:#e2e4e8;--even:#f4f5f7;--main:#2b5a8c;--soft:#9bbcdd;--bad:#b3261e}
@media (prefers-color-scheme:dark){:root{--page:#16181c;--ink:#e4e6ea;--dim:#9aa0aa;--rule:#2e323a;--even:#1e2127;--main:#7fb2e5;--soft:#3c6591;--bad:#ff8a80}}
svg text{font:11px Helvetica,Arial,'Liberation Sans',sans-serif;fill:var(--ink)}
svg .dim{fill:var(--dim)}svg .bad{fill:var(--bad)}
svg .s0,svg .s1,svg .s2,svg .s3{stroke:var(--main)}
svg .s0{fill:var(--main)}svg .s1{fill:url(#stripes)}svg .s2{fill:var(--page)}svg .s3{fill:var(--soft)}
svg .l0,svg .l1,svg .l2,svg .l3,svg .past{fill:none;stroke:var(--main);stroke-width:1.5}
svg .l1{stroke-dasharray:6 3}svg .l2{stroke-dasharray:2 3}svg .l3{stroke-dasharray:9 3 2 3}
svg .axis{stroke:var(--ink)}svg .grid{stroke:var(--rule)}svg .one{stroke:var(--bad)}svg .most{stroke:var(--ink);stroke-width:2}
";

/// The pattern of `s1`. A page defines it once; a drawing in a file of its own contains it.
pub const PATTERN: &str = "<defs><pattern id=\"stripes\" width=\"4\" height=\"4\" patternUnits=\"userSpaceOnUse\">\
<rect width=\"4\" height=\"4\" fill=\"var(--page)\"/><path d=\"M0,4 L4,0\" stroke=\"var(--main)\" stroke-width=\"1.5\"/></pattern></defs>";

/// A point: right and down, in pixels.
pub type Point = (f64, f64);

/// A rectangular area.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Area {
    /// Its left edge.
    pub left: f64,
    /// Its upper edge.
    pub top: f64,
    /// Its right edge.
    pub right: f64,
    /// Its lower edge.
    pub bottom: f64,
}

/// The point of a label that its position gives.
#[derive(Clone, Copy, Debug)]
pub enum Anchor {
    /// The position is the label's start.
    Start,
    /// The position is the label's centre.
    Middle,
    /// The position is the label's end.
    End,
}

/// Labels and marks drawn so far, and their boxes.
#[derive(Debug, Default)]
pub struct Drawing {
    body: String,
    labels: Vec<(Area, String)>,
    marks: Vec<Mark>,
}

/// A shape that no label may touch.
#[derive(Clone, Copy, Debug)]
enum Mark {
    Filled(Area),
    Line(Point, Point),
}

impl Drawing {
    /// Writes `text` with its base line at `at`.
    pub fn label(&mut self, at: Point, anchor: Anchor, text: &str, class: &str) {
        if text.is_empty() {
            return;
        }
        let area = label_area(at, anchor, text);
        let _ = writeln!(
            self.body,
            "<text x=\"{:.1}\" y=\"{:.1}\" textLength=\"{:.1}\" lengthAdjust=\"spacingAndGlyphs\" class=\"{class}\">{}</text>",
            area.left,
            at.1,
            area.right - area.left,
            escaped(text)
        );
        self.labels.push((area, text.to_owned()));
    }

    /// Draws a bar.
    pub fn rect(&mut self, area: Area, class: &str) {
        let Area { left, top, right, bottom } = area;
        let (width, height) = (right - left, bottom - top);
        let _ = writeln!(
            self.body,
            "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" class=\"{class}\"/>"
        );
        self.marks.push(Mark::Filled(area));
    }

    /// Draws a line through `points`.
    pub fn line(&mut self, points: &[Point], class: &str) {
        let path: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = writeln!(self.body, "<polyline points=\"{}\" class=\"{class}\"/>", path.join(" "));
        let ends = points.iter().zip(points.iter().skip(1));
        self.marks.extend(ends.map(|(&from, &to)| Mark::Line(from, to)));
    }

    /// Draws the sign of side number `which`: a disc, a square, a ring, a triangle.
    pub fn sign(&mut self, which: usize, (x, y): Point) {
        const HALF: f64 = 3.5;
        let class = which % 4;
        let _ = match class {
            0 => {
                writeln!(
                    self.body,
                    "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{HALF}\" class=\"s0\"/>"
                )
            }
            1 => writeln!(
                self.body,
                "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"7\" height=\"7\" class=\"s1\"/>",
                x - HALF,
                y - HALF
            ),
            2 => {
                writeln!(
                    self.body,
                    "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{HALF}\" class=\"s2\"/>"
                )
            }
            _ => writeln!(
                self.body,
                "<path d=\"M{x:.1},{:.1} l3.5,7 h-7 z\" class=\"s3\"/>",
                y - HALF
            ),
        };
        let (left, top, right, bottom) = (x - HALF, y - HALF, x + HALF, y + HALF);
        self.marks.push(Mark::Filled(Area { left, top, right, bottom }));
    }

    /// Returns the drawing for a page that has [`STYLE`] and [`PATTERN`].
    pub fn svg(&self) -> String {
        let (width, height) = self.size();
        format!("<svg width=\"{width:.0}\" height=\"{height:.0}\">\n{}</svg>\n", self.body)
    }

    /// Returns the drawing as a file of its own.
    pub fn file(&self) -> String {
        let (width, height) = self.size();
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\">\n<style>{STYLE}</style>{PATTERN}\n\
             <rect width=\"100%\" height=\"100%\" fill=\"var(--page)\"/>\n{}</svg>\n",
            self.body
        )
    }

    /// Returns the size that has room for all labels and marks.
    fn size(&self) -> Point {
        let areas = self.labels.iter().map(|(area, _)| *area);
        let areas = areas.chain(self.marks.iter().map(Mark::area));
        let most = areas.fold((0.0, 0.0), |(x, y), area| (area.right.max(x), area.bottom.max(y)));
        (most.0 + MARGIN, most.1 + MARGIN)
    }

    /// Returns the labels that touch a mark or another label or leave the drawing, each with the thing it touches.
    #[cfg(test)]
    pub fn collisions(&self) -> Vec<String> {
        let mut found = Vec::new();
        for (at, (area, text)) in self.labels.iter().enumerate() {
            if area.left < 0.0 || area.top < 0.0 {
                found.push(format!("`{text}` leaves the drawing at {area:?}"));
            }
            let others = self.labels.iter().skip(at + 1).filter(|(other, _)| area.meets(other));
            found.extend(others.map(|(_, other)| format!("`{text}` touches `{other}`")));
            let marks = self.marks.iter().filter(|mark| mark.meets(area));
            found.extend(marks.map(|mark| format!("`{text}` at {area:?} touches {mark:?}")));
        }
        found
    }
}

impl Mark {
    fn area(&self) -> Area {
        match *self {
            Mark::Filled(area) => area,
            Mark::Line((x, y), (to_x, to_y)) => Area {
                left: x.min(to_x),
                top: y.min(to_y),
                right: x.max(to_x),
                bottom: y.max(to_y),
            },
        }
    }

    /// Returns whether the mark touches `area`. A line is clipped to the box side by side (Liang and Barsky).
    #[cfg(test)]
    fn meets(&self, area: &Area) -> bool {
        let Mark::Line((x, y), (to_x, to_y)) = *self else { return self.area().meets(area) };
        let (mut from, mut to) = (0.0_f64, 1.0_f64);
        for (start, change, least, most) in
            [(x, to_x - x, area.left, area.right), (y, to_y - y, area.top, area.bottom)]
        {
            if change == 0.0 {
                if start < least || start > most {
                    return false;
                }
                continue;
            }
            let (one, other) = ((least - start) / change, (most - start) / change);
            (from, to) = (from.max(one.min(other)), to.min(one.max(other)));
        }
        from <= to
    }
}

#[cfg(test)]
impl Area {
    fn meets(&self, other: &Area) -> bool {
        self.left < other.right
            && other.left < self.right
            && self.top < other.bottom
            && other.top < self.bottom
    }
}

/// Returns the box of a label.
pub fn label_area((x, y): Point, anchor: Anchor, text: &str) -> Area {
    let width = text_width(text);
    let left = match anchor {
        Anchor::Start => x,
        Anchor::Middle => x - width / 2.0,
        Anchor::End => x - width,
    };
    Area { left, top: y - ASCENT, right: left + width, bottom: y + DESCENT }
}

/// Returns the width of `text` in pixels.
pub fn text_width(text: &str) -> f64 {
    text.chars().map(|char| f64::from(thousandths(char))).sum::<f64>() * FONT / 1000.0
}

/// Returns the width of the widest of `texts`.
pub fn widest<'a>(texts: impl IntoIterator<Item = &'a str>) -> f64 {
    texts.into_iter().map(text_width).fold(0.0, f64::max)
}

/// Helvetica's widths of space to tilde, in thousandths of its height.
const WIDTHS: [u16; 95] = [
    278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278, 556, 556, 556,
    556, 556, 556, 556, 556, 556, 556, 278, 278, 584, 584, 584, 556, 1015, 667, 667, 722, 722, 667,
    611, 778, 722, 278, 500, 667, 556, 833, 722, 778, 667, 778, 722, 667, 611, 722, 667, 944, 667,
    667, 611, 278, 278, 278, 469, 556, 333, 556, 556, 500, 556, 556, 278, 556, 556, 222, 222, 500,
    222, 833, 556, 556, 556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334, 260, 334, 584,
];

fn thousandths(char: char) -> u16 {
    if char == 'µ' {
        return 556;
    }
    let at = u32::from(char).checked_sub(u32::from(' ')).and_then(|at| usize::try_from(at).ok());
    at.and_then(|at| WIDTHS.get(at).copied()).unwrap_or(1000)
}

/// Escapes `text` for HTML.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_has_the_width_of_its_letters() {
        assert_eq!(WIDTHS[usize::from(b'W' - b' ')], 944);
        assert!((text_width("ill") - 0.666 * FONT).abs() < 1e-9);
        let area = label_area((100.0, 50.0), Anchor::End, "ill");
        assert!(area.right == 100.0 && area.top < 50.0 && area.bottom > 50.0);
    }

    #[test]
    fn what_a_label_touches_is_found() {
        let mut drawing = Drawing::default();
        drawing.label((20.0, 20.0), Anchor::Start, "label", "");
        drawing.line(&[(0.0, 30.0), (60.0, 26.0)], "axis");
        drawing.rect(Area { left: 60.0, top: 0.0, right: 90.0, bottom: 30.0 }, "s0");
        assert_eq!(drawing.collisions(), Vec::<String>::new());
        // The line's bounding box covers the label, yet the line passes beside it.
        drawing.line(&[(0.0, 40.0), (40.0, 0.0)], "axis");
        drawing.label((58.0, 25.0), Anchor::Start, "bar", "");
        drawing.label((30.0, 24.0), Anchor::Start, "other", "");
        let found = drawing.collisions();
        assert_eq!(found.len(), 5, "{found:#?}");
        drawing.label((-1.0, 90.0), Anchor::Start, "left", "");
        assert!(drawing.collisions().iter().any(|said| said.contains("leaves")));
    }

    #[test]
    fn a_file_holds_its_style_and_fits_what_is_drawn() {
        let mut drawing = Drawing::default();
        drawing.label((10.0, 20.0), Anchor::Start, "a<b", "dim");
        drawing.rect(Area { left: 0.0, top: 0.0, right: 94.0, bottom: 44.0 }, "s1");
        let file = drawing.file();
        assert!(file.contains("width=\"100\" height=\"50\"") && file.contains("a&lt;b"));
        assert!(file.contains("prefers-color-scheme:dark") && file.contains("id=\"stripes\""));
        assert!(!drawing.svg().contains("<style>"));
    }
}

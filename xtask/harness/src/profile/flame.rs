//! Flame graphs: paths of calls as bars over their callers, each as wide as its cost, in one self-contained file.
//! Source: Gregg, "The Flame Graph", ACM Queue 14(2).
use std::{collections::BTreeMap, fmt::Write};

const WIDTH: f64 = 1400.0;
const ROW: f64 = 17.0;
const TOP: f64 = 40.0;
/// Least width of a bar; narrower ones are left out.
const LEAST: f64 = 0.4;
/// Width of a letter.
const LETTER: f64 = 6.7;

/// The cost of paths of calls.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    total: u64,
    callees: BTreeMap<String, Graph>,
}

impl Graph {
    /// Adds the cost of the path `names`, outermost first, without its callees.
    pub fn add(&mut self, names: &[&str], weight: u64) {
        self.total += weight;
        if let Some((first, rest)) = names.split_first() {
            self.callees.entry((*first).to_owned()).or_default().add(rest, weight);
        }
    }

    fn depth(&self) -> usize {
        1 + self.callees.values().map(Graph::depth).max().unwrap_or(0)
    }

    /// Draws the graph. A click on a bar makes it as wide as the page; a click on the lowest shows all.
    pub fn draw(&self, title: &str, unit: &str) -> String {
        let height = TOP + self.depth() as f64 * ROW;
        let mut text = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" font-family=\"monospace\" font-size=\"11\">\n\
             <style>rect{{stroke:#fff;stroke-width:.5}}g{{cursor:pointer}}</style>\n\
             <text x=\"8\" y=\"22\" font-size=\"14\">{}: {} {unit}</text>\n",
            escaped(title),
            self.total
        );
        let scale = WIDTH / self.total.max(1) as f64;
        self.bar(
            &mut text,
            &Place { name: "all", left: 0, bottom: height, scale, unit },
            self.total,
        );
        text + SCRIPT + "</svg>\n"
    }

    fn bar(&self, text: &mut String, place: &Place<'_>, all: u64) {
        let Place { name, left, bottom, scale, unit } = *place;
        let (x, width) = (left as f64 * scale, self.total as f64 * scale);
        if width < LEAST {
            return;
        }
        let letters = (width / LETTER) as usize;
        let shown = if letters < 3 { String::new() } else { name.chars().take(letters).collect() };
        let _ = writeln!(
            text,
            "<g data-x=\"{x:.2}\" data-w=\"{width:.2}\" data-n=\"{0}\"><title>{0}: {1} {unit}, {2:.2} %</title>\
             <rect x=\"{x:.2}\" y=\"{3}\" width=\"{width:.2}\" height=\"{ROW}\" fill=\"{4}\"/>\
             <text x=\"{5:.2}\" y=\"{6}\">{7}</text></g>",
            escaped(name),
            self.total,
            100.0 * self.total as f64 / all.max(1) as f64,
            bottom - ROW,
            colour(name),
            x + 2.0,
            bottom - 5.0,
            escaped(&shown),
        );
        let mut left = left;
        for (name, callee) in &self.callees {
            callee.bar(text, &Place { name, left, bottom: bottom - ROW, ..*place }, all);
            left += callee.total;
        }
    }
}

/// The position of a bar.
struct Place<'a> {
    name: &'a str,
    /// The total of the frames left of it.
    left: u64,
    bottom: f64,
    scale: f64,
    unit: &'a str,
}

/// Returns the colour of a function; each crate has its hue.
fn colour(name: &str) -> String {
    let part = name.trim_start_matches(['<', '&']).split("::").next().unwrap_or(name);
    let hue = part.bytes().fold(7u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    format!("hsl({},60%,72%)", hue % 360)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;")
}

const SCRIPT: &str = r#"<script><![CDATA[
const bars = [...document.querySelectorAll("g")], width = +document.documentElement.getAttribute("width");
for (const chosen of bars) chosen.onclick = () => {
    const left = +chosen.dataset.x, scale = width / chosen.dataset.w;
    for (const bar of bars) {
        const x = (bar.dataset.x - left) * scale, w = bar.dataset.w * scale, [rect, text] = [bar.children[1], bar.children[2]];
        const from = Math.max(x, 0), wide = Math.min(x + w, width) - from;
        bar.style.display = wide > 0.4 ? "" : "none";
        rect.setAttribute("x", from), rect.setAttribute("width", Math.max(wide, 0)), text.setAttribute("x", from + 2);
        text.textContent = wide < 20 ? "" : bar.dataset.n.slice(0, wide / 6.7);
    }
};
]]></script>
"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_as_wide_as_what_its_path_took() {
        let mut graph = Graph::default();
        graph.add(&["run", "a<b>"], 30);
        graph.add(&["run"], 10);
        graph.add(&["user"], 60);
        graph.add(&["run", "tiny"], 0);
        let text = graph.draw("`x`", "instructions");
        assert!(text.contains("`x`: 100 instructions"));
        assert!(text.contains("<title>run: 40 instructions, 40.00 %</title>"));
        assert!(text.contains("data-x=\"560.00\" data-w=\"840.00\" data-n=\"user\""));
        assert!(text.contains("a&lt;b>: 30") && !text.contains("tiny"));
    }
}

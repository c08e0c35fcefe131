//! The recorded runs on the page: the ratios of a row as a line, and the means of all rows as a table.
use crate::{
    draw::drawing::{Area, Drawing, escaped},
    results::{
        chapters::title,
        comparison::Results,
        history::{Past, Run, past},
    },
};
use std::fmt::Write;

/// Draws ratios over the runs into `area`, on a scale of their own.
pub fn line(drawing: &mut Drawing, past: &Past, area: Area) {
    let known = || past.iter().flatten();
    let (least, most) =
        known().fold((f64::INFINITY, 0.0_f64), |(a, b), &it| (it.min(a), it.max(b)));
    // A line from edge to edge shows a change of at least a twentieth.
    let spread = (most - least).max(most / 20.0);
    let middle = f64::midpoint(least, most);
    let steps = past.len().saturating_sub(1).max(1) as f64;
    let place = |(at, ratio): (usize, &Option<f64>)| {
        let x = area.left + at as f64 / steps * (area.right - area.left);
        let above = ((*ratio)? - middle) / spread + 0.5;
        Some((x, area.bottom - above * (area.bottom - area.top)))
    };
    let points: Vec<_> = past.iter().enumerate().filter_map(place).collect();
    drawing.line(&points, "past");
    if let Some(&(x, y)) = points.last() {
        let (left, top, right, bottom) = (x - 1.5, y - 1.5, x + 1.5, y + 1.5);
        drawing.rect(Area { left, top, right, bottom }, "s0");
    }
}

/// Formats the runs as a table: their numbers of rows, and the geometric means of the ratios of rows that all runs of a chapter
/// have.
pub fn table(runs: &[Run], results: &Results) -> String {
    let Some(system) = results.systems.first() else { return String::new() };
    let mut titles: Vec<String> = Vec::new();
    results.rows.iter().map(title).for_each(|title| {
        if !titles.contains(&title) {
            titles.push(title);
        }
    });
    let mut text = format!(
        "<p>{} of {} in each run: the geometric mean of the ratios of the rows that every run has.</p>\n<table><tr><th>run</th><th>rows</th>",
        escaped(system),
        escaped(&results.against)
    );
    titles.iter().for_each(|title| text += &format!("<th>{}</th>", escaped(title)));
    text += "</tr>\n";
    for (at, run) in runs.iter().map(Some).chain([None]).enumerate() {
        let (name, rows) = match run {
            Some(run) => (format!("{} {}", run.date, run.commit), run.rows.len()),
            None => ("this one".to_owned(), results.rows.len()),
        };
        let _ = write!(text, "<tr><td>{}</td><td>{rows}</td>", escaped(&name));
        for wanted in &titles {
            let of_it = results.rows.iter().filter(|row| title(row) == *wanted);
            let all = of_it.filter_map(|row| whole(&past(runs, results, row, system)));
            let logs: Vec<f64> =
                all.filter_map(|ratios| ratios.get(at).map(|ratio| ratio.ln())).collect();
            let mean = (logs.iter().sum::<f64>() / logs.len() as f64).exp();
            let said = if logs.is_empty() { "-".to_owned() } else { format!("{mean:.3}") };
            let _ = write!(text, "<td>{said}</td>");
        }
        text += "</tr>\n";
    }
    text + "</table>\n"
}

/// Returns the ratios of a row that every run has; `None` if one lacks it.
fn whole(past: &Past) -> Option<Vec<f64>> {
    past.iter().copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::history::ends;

    #[test]
    fn ratios_are_drawn_over_the_runs_that_have_them() {
        let area = Area { left: 0.0, top: 0.0, right: 100.0, bottom: 20.0 };
        let mut drawing = Drawing::default();
        let past = vec![None, Some(0.5), Some(0.4)];
        line(&mut drawing, &past, area);
        assert!(drawing.svg().contains("points=\"50.0,0.0 100.0,20.0\""), "{}", drawing.svg());
        assert_eq!(ends(&past), Some((0.5, 0.4)));
        assert_eq!(ends(&vec![None, Some(0.5)]), None);
    }
}

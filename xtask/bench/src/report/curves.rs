//! The suite `mach` as the paper's figures (M7): each test over the number of tasks, and the gain from a second
//! processor.
use super::{rows, table::Table};
use crate::{
    draw::{
        axis::Axis,
        drawing::{self, Anchor, Drawing, Point},
    },
    results::comparison::{Results, Row},
    values::text::plain,
};
use std::fmt::Write;

/// The curves of one test on a number of processors.
#[derive(Debug)]
pub struct Curves {
    test: String,
    cpus: u32,
    /// By side: numbers of tasks, and nanoseconds until each of them has done its part once.
    sides: Vec<(String, Vec<(f64, f64)>)>,
}

/// Returns the curves of `results`.
pub fn curves(results: &Results) -> Vec<Curves> {
    let mut all: Vec<Curves> = Vec::new();
    for row in results.rows.iter().filter(|row| row.suite == "mach") {
        let Some((test, tasks)) = parsed(row) else { continue };
        let sides = || results.drawn().map(|side| (side.to_owned(), Vec::new())).collect();
        let is_it = |curves: &Curves| curves.test == test && curves.cpus == row.cpus;
        let at = all.iter().position(is_it).unwrap_or_else(|| {
            all.push(Curves { test: test.to_owned(), cpus: row.cpus, sides: sides() });
            all.len() - 1
        });
        for (side, points) in all.get_mut(at).into_iter().flat_map(|curves| &mut curves.sides) {
            points.extend(row.cost(side).map(|cost| (tasks, cost)));
        }
    }
    for (_, points) in all.iter_mut().flat_map(|curves| &mut curves.sides) {
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
    }
    all
}

/// Parses the test and the number of tasks of a row `TEST by TASKS`.
fn parsed(row: &Row) -> Option<(&str, f64)> {
    let (test, tasks) = row.name.rsplit_once(" by ")?;
    Some((test, tasks.parse().ok()?))
}

/// The metric: times, or the throughput computed from them, relative to that of one task.
#[derive(Clone, Copy)]
enum Metric {
    Time,
    Throughput,
}

impl Metric {
    fn of(self, points: &[(f64, f64)]) -> Vec<(f64, f64)> {
        let one = points.iter().find(|point| point.0 == 1.0).map(|point| point.1);
        match (self, one) {
            (Metric::Time, _) => points.to_vec(),
            (Metric::Throughput, Some(one)) => {
                points.iter().map(|&(tasks, time)| (tasks, tasks * one / time)).collect()
            }
            (Metric::Throughput, None) => Vec::new(),
        }
    }

    fn title(self) -> &'static str {
        match self {
            Metric::Time => "microseconds until every task has done its part once",
            Metric::Throughput => "throughput, of that of one task",
        }
    }

    fn scale(self) -> f64 {
        match self {
            Metric::Time => 1e-3,
            Metric::Throughput => 1.0,
        }
    }
}

/// Returns the curves and the gain from a second processor, as tables.
pub fn tables(results: &Results) -> Vec<Table> {
    let all = curves(results);
    let mut tables: Vec<Table> = all
        .iter()
        .map(|curves| {
            let title = format!(
                "Mach/4.3BSD, {}: throughput of that of one task, {} processors",
                curves.test, curves.cpus
            );
            throughputs(curves, title)
        })
        .collect();
    tables.extend(scaling(results, &all));
    tables
}

fn throughputs(curves: &Curves, title: String) -> Table {
    let mut head = vec!["tasks".to_owned()];
    head.extend(curves.sides.iter().map(|(side, _)| side.clone()));
    let lines: Vec<Vec<(f64, f64)>> =
        curves.sides.iter().map(|(_, points)| Metric::Throughput.of(points)).collect();
    let numbers: Vec<f64> =
        lines.first().map_or_else(Vec::new, |line| line.iter().map(|point| point.0).collect());
    let value = |line: &Vec<(f64, f64)>, tasks: f64| {
        let point = line.iter().find(|point| point.0 == tasks);
        point.map_or_else(|| "-".to_owned(), |point| format!("{:.2}", point.1))
    };
    let row = |&tasks: &f64| {
        let values = lines.iter().map(|line| value(line, tasks));
        std::iter::once(format!("{tasks}")).chain(values).collect()
    };
    Table { title, head, rows: numbers.iter().map(row).collect() }
}

/// Makes the table of speedups from one processor to the most, by test: the geometric mean over two tasks and more.
fn scaling(results: &Results, all: &[Curves]) -> Option<Table> {
    let most = all.iter().map(|curves| curves.cpus).max().filter(|&most| most > 1)?;
    let mut head = vec!["test".to_owned(), results.against.clone()];
    let others = || results.drawn().skip(1);
    head.extend(others().flat_map(|system| [system.to_owned(), "ratio".to_owned()]));
    let of = |test: &str, cpus: u32, side: &str| -> Option<&Vec<(f64, f64)>> {
        let curves = all.iter().find(|curves| curves.test == test && curves.cpus == cpus)?;
        curves.sides.iter().find(|(name, _)| name == side).map(|(_, points)| points)
    };
    let gain = |test: &str, side: &str| mean_gain(of(test, 1, side)?, of(test, most, side)?);
    let said = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |it| format!("{it:.2}"));
    let rows = all.iter().filter(|curves| curves.cpus == most).map(|curves| {
        let theirs = gain(&curves.test, &results.against);
        let mut cells = vec![curves.test.clone(), said(theirs)];
        for system in others() {
            let ours = gain(&curves.test, system);
            cells.extend([said(ours), said(ours.zip(theirs).map(|(ours, theirs)| ours / theirs))]);
        }
        cells
    });
    let title = format!("How much sooner tasks are done on {most} processors than on 1");
    Some(Table { title, head, rows: rows.collect() })
}

fn mean_gain(one: &[(f64, f64)], more: &[(f64, f64)]) -> Option<f64> {
    let several = one.iter().filter(|point| point.0 > 1.0);
    let logs: Vec<f64> = several
        .filter_map(|point| {
            let other = more.iter().find(|other| other.0 == point.0)?;
            Some((point.1 / other.1).ln())
        })
        .collect();
    (!logs.is_empty()).then(|| (logs.iter().sum::<f64>() / logs.len() as f64).exp())
}

const WIDTH: f64 = 330.0;
const HEIGHT: f64 = 200.0;
const TOP: f64 = 30.0;

/// Returns the curves of `results` as drawings; nothing if there are none.
pub fn html(results: &Results) -> String {
    let mut text = String::new();
    for curves in &curves(results) {
        let _ = writeln!(text, "<h3>{}, {} processors</h3>", curves.test, curves.cpus);
        for metric in [Metric::Time, Metric::Throughput] {
            text += &panel(results, curves, metric).svg();
        }
    }
    text
}

fn panel(results: &Results, curves: &Curves, metric: Metric) -> Drawing {
    let lines: Vec<Vec<(f64, f64)>> =
        curves.sides.iter().map(|(_, points)| metric.of(points)).collect();
    let points = || lines.iter().flatten();
    let most_tasks = points().map(|point| point.0).fold(1.0, f64::max);
    let most = points().map(|point| point.1 * metric.scale()).fold(1.0, f64::max);
    let bottom = TOP + HEIGHT;
    let upright = Axis::even(most, (bottom, TOP));
    let numbers: Vec<String> = upright.ticks.iter().map(|&tick| plain(tick)).collect();
    let left = 12.0 + drawing::widest(numbers.iter().map(String::as_str));
    let flat = Axis::even(most_tasks, (left, left + WIDTH));
    let mut drawing = Drawing::default();
    drawing.label((left, 14.0), Anchor::Start, metric.title(), "dim");
    upright.draw_upright(&mut drawing, (left, left + WIDTH), plain);
    flat.draw_flat(&mut drawing, (bottom, TOP), plain);
    drawing.label((left + WIDTH / 2.0, bottom + 28.0), Anchor::Middle, "tasks", "dim");
    let place =
        |&(tasks, value): &(f64, f64)| (flat.place(tasks), upright.place(value * metric.scale()));
    let number = |side: &str| rows::number(results, side);
    for (line, (side, _)) in lines.iter().zip(&curves.sides) {
        let points: Vec<Point> = line.iter().map(place).collect();
        drawing.line(&points, &format!("l{}", number(side) % 4));
        points.iter().for_each(|&at| drawing.sign(number(side), at));
    }
    let sides = curves.sides.iter().map(|(side, _)| (number(side), side.as_str()));
    rows::legend(&mut drawing, sides, (left, bottom + 44.0));
    drawing
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{measure::probes::Measured, values::unit::Unit};

    fn results() -> Results {
        let mut results = Results {
            against: "linux".to_owned(),
            systems: vec!["default".to_owned()],
            ..Results::default()
        };
        for (cpus, tasks, linux, ours) in
            [(1, 1.0, 10.0, 10.0), (1, 4.0, 40.0, 40.0), (2, 1.0, 10.0, 10.0), (2, 4.0, 20.0, 25.0)]
        {
            let mut row = Row::new("mach", &format!("disk I/O by {tasks}"), Unit::Clock, cpus);
            for (side, cost) in [("linux", linux), ("default", ours)] {
                let points = (1..=5).map(|x| (f64::from(x), cost * f64::from(x))).collect();
                row.add(side, &Measured { points, ..Measured::default() });
            }
            results.rows.push(row);
        }
        results
    }

    #[test]
    fn throughput_is_of_one_task_and_a_second_processor_shows() {
        let tables = tables(&results());
        assert_eq!(tables[1].rows[1], ["4", "2.00", "1.60"]);
        assert_eq!(tables[2].rows, [["disk I/O", "2.00", "1.60", "0.80"]]);
    }

    #[test]
    fn each_test_is_drawn_with_a_line_a_side() {
        let results = results();
        let page = html(&results);
        let lines = [0, 1].map(|side| page.matches(&format!("class=\"l{side}\"")).count());
        assert_eq!(lines, [4, 4]);
        assert!(page.contains(">tasks<") && page.contains(">0.5<"), "{page}");
        for curves in curves(&results) {
            for metric in [Metric::Time, Metric::Throughput] {
                let found = panel(&results, &curves, metric).collisions();
                assert_eq!(found, Vec::<String>::new());
            }
        }
    }
}

//! Recorded runs: the versions of docs/performance.md that the repository holds (`./x bench --record`).
use super::{
    chapters::title,
    comparison::{Results, Row},
};
use harness::shell::git;
use std::collections::BTreeMap;

const PAGE: &str = "docs/performance.md";

/// A run recorded in the repository.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Run {
    /// Date of its commit.
    pub date: String,
    /// Short hash of its commit.
    pub commit: String,
    /// Its rows, by chapter and name.
    pub rows: BTreeMap<(String, String), Recorded>,
}

/// A row of a recorded run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recorded {
    /// Costs, by side.
    pub costs: BTreeMap<String, f64>,
    /// Ratios, by system.
    pub ratios: BTreeMap<String, f64>,
}

/// The ratios of a row in all runs; the last is the one on the page. `None` for a run without such a row.
pub type Past = Vec<Option<f64>>;

/// Returns the runs in the repository, the oldest first; none without a repository.
pub fn recorded() -> Vec<Run> {
    let log = git(&["log", "--reverse", "--format=%h %as", "--", PAGE]).unwrap_or_default();
    let mut runs: Vec<Run> = Vec::new();
    for (commit, date) in log.lines().filter_map(|line| line.split_once(' ')) {
        let Some(page) = git(&["show", &format!("{commit}:{PAGE}")]) else { continue };
        let rows = parsed(&page);
        // A commit that changed only the causes on the page is not a run.
        if !rows.is_empty() && runs.last().is_none_or(|last| last.rows != rows) {
            runs.push(Run { date: date.to_owned(), commit: commit.to_owned(), rows });
        }
    }
    runs
}

/// Parses the rows of a page of the documentation.
pub fn parsed(page: &str) -> BTreeMap<(String, String), Recorded> {
    let mut rows = BTreeMap::new();
    let (mut chapter, mut head) = (String::new(), Vec::new());
    for line in page.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            (chapter, head) = (title.to_owned(), Vec::new());
        } else if let Some(cells) = line.strip_prefix("| ") {
            let cells: Vec<&str> = cells.trim_end_matches('|').split('|').map(str::trim).collect();
            match (head.first(), cells.first()) {
                (None, _) => head = cells,
                (Some(&"row"), Some(name)) => {
                    rows.insert((chapter.clone(), (*name).to_owned()), row(&head, &cells));
                }
                _ => {}
            }
        }
    }
    rows
}

/// Parses a row. A system's cost is in the column of its name, its ratio in the next.
fn row(head: &[&str], cells: &[&str]) -> Recorded {
    let mut found = Recorded::default();
    let columns = || head.iter().zip(cells).skip(1);
    for ((&side, &cost), (&next, &ratio)) in columns().zip(columns().skip(1)) {
        if ["ratio", "from..to", "at most", "R2", "outliers"].contains(&side) {
            continue;
        }
        found.costs.extend(cost_of(cost).map(|cost| (side.to_owned(), cost)));
        let ratio = ratio.split(' ').next().and_then(|ratio| ratio.parse().ok());
        let ratio = ratio.filter(|_| next == "ratio");
        found.ratios.extend(ratio.map(|ratio| (side.to_owned(), ratio)));
    }
    found
}

/// Parses a figure as tables print it.
fn cost_of(text: &str) -> Option<f64> {
    let (number, unit) = text.split_once(' ').unwrap_or((text, ""));
    let times = match unit {
        "" => 1.0,
        "M" => 1e6,
        "G" => 1e9,
        _ => return None,
    };
    Some(number.parse::<f64>().ok()? * times)
}

/// Ratios of `row` on `system` in `runs`, and now.
pub fn past(runs: &[Run], results: &Results, row: &Row, system: &str) -> Past {
    let key = (title(row), row.name.clone());
    let before = runs.iter().map(|run| run.rows.get(&key)?.ratios.get(system).copied());
    let now = row.ratio(system, &results.against).map(|ratio| ratio.value);
    before.chain([now]).collect()
}

/// Returns the first and the last ratio.
pub fn ends(past: &Past) -> Option<(f64, f64)> {
    let mut known = past.iter().flatten();
    let first = known.next()?;
    Some((*first, *known.next_back()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORD: &str = "# Performance\n\n## micro: nanoseconds, 1 processors\n\n\
        | row | linux | default | ratio | from..to | at most | R2 | outliers |\n|---|---:|---:|---:|---:|---:|---:|---:|\n\
        | stat | 1.24 M | 100 | 0.250 ~ | 0.2..0.3 | 1.020 | 0.9 | 2 |\n\n## A paper's\n\n| | KSOS |\n|---|---:|\n| prime | 178 |\n";

    #[test]
    fn a_record_is_read_back() {
        let rows = parsed(RECORD);
        let key = ("micro: nanoseconds, 1 processors".to_owned(), "stat".to_owned());
        assert_eq!(rows.len(), 1, "{rows:?}");
        assert_eq!(rows[&key].ratios, [("default".to_owned(), 0.25)].into());
        let costs = [("default".to_owned(), 100.0), ("linux".to_owned(), 1.24e6)];
        assert_eq!(rows[&key].costs, costs.into());
    }
}

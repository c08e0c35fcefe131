//! The parts of receiving a datagram of 1 KB, beside those of 386BSD (A. McRae, "Hardware Profiling of Kernels", "Network
//! Performance"): a checksum of 1 KB took 843 us there, and sums and copies were 30.8 % and 33.6 % of all that the processor did.
use super::table::Table;
use crate::{
    results::comparison::{Results, Row},
    values::{text::figure, unit::Unit},
};

const SUITE: &str = "net";
/// The row of all parts: the packet's way from a tunnel through the stack to the program.
const WHOLE: &str = "UDP 1 KB from a tunnel";
/// The rows of the parts, with the paper's microseconds and percentage.
const PARTS: [(&str, &str, &str); 2] =
    [("UDP 1 KB: its checksum", "843", "30.8"), ("UDP 1 KB: its copy", "-", "33.6")];
/// The paper's percentage of both parts.
const BOTH: &str = "64.4";

/// Returns the table; `None` if the rows were not measured.
pub fn table(results: &Results) -> Option<Table> {
    let sides: Vec<&String> = std::iter::once(&results.against).chain(&results.systems).collect();
    let units = [(Unit::Instructions, "instructions"), (Unit::Clock, "ns")];
    let measured = units.into_iter().filter(|(unit, _)| find(results, WHOLE, *unit).is_some());
    let measured: Vec<(Unit, &str)> = measured.collect();
    if measured.is_empty() {
        return None;
    }
    let mut head: Vec<String> = ["", "386BSD, us", "386BSD, %"].map(str::to_owned).to_vec();
    for (_, unit) in &measured {
        head.extend(sides.iter().flat_map(|side| [format!("{side}, {unit}"), "%".to_owned()]));
    }
    let line = |title: &str, us: &str, share: &str, parts: &[&str]| {
        let mut cells = [title, us, share].map(str::to_owned).to_vec();
        for (unit, _) in &measured {
            cells.extend(sides.iter().flat_map(|side| figures(results, parts, *unit, side)));
        }
        cells
    };
    let [(sum, sum_us, sum_share), (copy, copy_us, copy_share)] = PARTS;
    let rows = vec![
        line("checksum", sum_us, sum_share, &[sum]),
        line("copy to the program", copy_us, copy_share, &[copy]),
        line("both", "-", BOTH, &[sum, copy]),
        line("all", "-", "100", &[WHOLE]),
    ];
    let title = "386BSD: the parts of receiving a datagram of 1 KB".to_owned();
    Some(Table { title, head, rows })
}

/// Returns the cost of parts on a side, and its percentage of the whole.
fn figures(results: &Results, parts: &[&str], unit: Unit, side: &str) -> [String; 2] {
    let cost = |name: &str| find(results, name, unit)?.cost(side);
    let cost_of_parts: Option<f64> = parts.iter().map(|part| cost(part)).sum();
    let share = cost_of_parts.zip(cost(WHOLE)).map(|(part, whole)| 100.0 * part / whole);
    [
        cost_of_parts.map_or_else(|| "-".to_owned(), figure),
        share.map_or_else(|| "-".to_owned(), |share| format!("{share:.1}")),
    ]
}

fn find<'r>(results: &'r Results, name: &str, unit: Unit) -> Option<&'r Row> {
    results.rows.iter().find(|row| row.suite == SUITE && row.name == name && row.unit == unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_have_their_shares_of_the_whole() {
        let row = |name: &str, cost: f64| {
            let mut row = Row::new(SUITE, name, Unit::Instructions, 1);
            row.note("linux", cost);
            row
        };
        let [(sum, ..), (copy, ..)] = PARTS;
        let mut results = Results {
            against: "linux".to_owned(),
            rows: vec![row(WHOLE, 2000.0), row(sum, 500.0), row(copy, 100.0)],
            ..Results::default()
        };
        let rows = table(&results).unwrap().rows;
        assert_eq!(rows[0], ["checksum", "843", "30.8", "500", "25.0"]);
        assert_eq!(rows[2][3..], ["600", "30.0"]);
        results.rows.clear();
        assert!(table(&results).is_none());
    }
}

//! The table of functions, in the columns of the paper's Figure 3: max, average and min are of the net of a call, % real is
//! of all instructions, % net of the kernel's.
use super::calls::{Node, Profile, USER};
use std::{cmp::Reverse, collections::BTreeMap, fmt::Write};

/// The paper's finding on 386BSD on a 40 MHz 386.
const PAPER_MASKING: &str = "9 % of its time in spl*";
const PAPER_TICK: &str = "94 us";

/// A function's row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Row {
    /// Instructions with those of its callees; counted once if it called itself.
    elapsed: u64,
    net: u64,
    calls: u64,
    bounds: Option<(u64, u64)>,
}

/// Returns `part` of `whole` in percent.
pub fn share(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

/// Returns the rows by name.
fn rows(profile: &Profile) -> BTreeMap<&str, Row> {
    let mut elapsed: Vec<u64> = profile.nodes.iter().map(|node| node.net).collect();
    // This goes backwards, because callers come before the functions they call.
    for (index, node) in profile.nodes.iter().enumerate().rev() {
        if let Some(parent) = node.parent {
            elapsed[parent] += elapsed[index];
        }
    }
    let mut rows: BTreeMap<&str, Row> = BTreeMap::new();
    for (node, elapsed) in profile.nodes.iter().zip(elapsed) {
        let is_outermost = profile.callers(node).all(|caller| caller.name != node.name);
        add(rows.entry(&node.name).or_default(), node, if is_outermost { elapsed } else { 0 });
    }
    rows.retain(|_, row| row.net > 0 || row.calls > 0);
    rows
}

fn add(row: &mut Row, node: &Node, elapsed: u64) {
    row.elapsed += elapsed;
    row.net += node.net;
    row.calls += node.calls;
    row.bounds = match (row.bounds, node.bounds) {
        (Some((most, least)), Some((more, less))) => Some((most.max(more), least.min(less))),
        (one, other) => one.or(other),
    };
}

/// Formats the table's first `count` rows by net, and the costs of masking interrupts and of a clock tick.
pub fn text(profile: &Profile, count: usize) -> String {
    let Profile { kernel, user, masking, ticks: [ticks, spent, longest], .. } = *profile;
    let all = kernel + user;
    let mut text = format!(
        "executed instructions: {kernel} in the kernel ({:.2} %), {user} in user mode\n\
         {:>10}{:>11}{:>9}  {:<24}{:>8}{:>8}  name\n",
        share(kernel, all),
        "Elapsed",
        "Net",
        "# calls",
        "(max/avg/min)",
        "% real",
        "% net",
    );
    let rows = rows(profile);
    let mut sorted: Vec<_> = rows.iter().filter(|(name, _)| **name != USER).collect();
    sorted.sort_by_key(|(_, row)| Reverse(row.net));
    for (name, Row { elapsed, net, calls, bounds }) in sorted.into_iter().take(count) {
        let bounds = match (bounds, net.checked_div(*calls)) {
            (Some((most, least)), Some(average)) => format!("({most}/{average}/{least})"),
            _ => "-".to_owned(),
        };
        let _ = writeln!(
            text,
            "{elapsed:>10}{net:>11}{calls:>9}  {bounds:<24}{:>7.2}%{:>7.2}%  {name}",
            share(*net, all),
            share(*net, kernel),
        );
    }
    let _ = writeln!(
        text,
        "masking and unmasking interrupts: {masking} instructions, {:.2} % of all, {:.2} % of the kernel's (386BSD: {PAPER_MASKING})",
        share(masking, all),
        share(masking, kernel),
    );
    let average = spent.checked_div(ticks).unwrap_or(0);
    let _ = writeln!(
        text,
        "a clock tick: {average} instructions, at most {longest}, of {ticks} (386BSD: {PAPER_TICK})"
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(parent: Option<usize>, name: &str, calls: u64, net: u64, bounds: (u64, u64)) -> Node {
        Node { parent, name: name.to_owned(), calls, net, bounds: Some(bounds) }
    }

    fn profile() -> Profile {
        let nodes = vec![
            node(None, "run", 1, 10, (10, 10)),
            node(Some(0), "fork", 2, 40, (30, 10)),
            node(Some(1), "copy", 4, 20, (7, 3)),
            node(Some(2), "fork", 1, 5, (5, 5)),
            node(None, USER, 3, 25, (20, 1)),
        ];
        Profile {
            nodes,
            kernel: 75,
            user: 25,
            masking: 15,
            ticks: [2, 10, 6],
            ..Profile::default()
        }
    }

    #[test]
    fn functions_are_summed_over_their_callers() {
        let profile = profile();
        let rows = rows(&profile);
        let row = |elapsed, net, calls, bounds| Row { elapsed, net, calls, bounds: Some(bounds) };
        assert_eq!(rows["run"], row(75, 10, 1, (10, 10)));
        assert_eq!(rows["copy"], row(25, 20, 4, (7, 3)));
        assert_eq!(rows["fork"], row(65, 45, 3, (30, 5)), "its own call is elapsed once");
    }

    #[test]
    fn the_table_is_by_net_and_ends_with_masking_and_ticks() {
        let text = text(&profile(), 2);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].contains("75 in the kernel (75.00 %), 25 in user mode"));
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words(lines[2]), ["65", "45", "3", "(30/15/5)", "45.00%", "60.00%", "fork"]);
        assert!(lines[3].ends_with("copy") && lines.len() == 6);
        assert!(lines[4].contains("15 instructions, 15.00 % of all, 20.00 %"));
        assert!(lines[5].contains("5 instructions, at most 6, of 2"));
    }
}

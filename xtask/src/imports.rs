//! `./x imports`: draws which parts of a folder's crates import which, names the cycles, and the imports of higher floors.
//!
//! A part is a folder or a file directly below `src`. The drawing is a matrix: a row imports the columns that it marks, by the
//! number of its files that do. Parts stand from the bottom up, so that a mark right of the diagonal is an import upwards.
use crate::check::{
    self, floors,
    modules::{Graph, part},
};
use anyhow::{Result, ensure};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    path::PathBuf,
};

/// Names that a cycle's line shows.
const NAMES_SHOWN: usize = 8;

/// The drawing's subject.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Folder of the crates
    #[arg(default_value = "components/posix")]
    folder: PathBuf,
}

/// Prints the drawing.
///
/// # Errors
/// Fails for a folder without crates, and for a file that cannot be parsed.
pub fn run(options: &Options) -> Result<u8> {
    let mut crates = check::crates()?;
    crates.retain(|one| one.folder.starts_with(&options.folder));
    ensure!(
        !crates.is_empty(),
        "no crate in {}: name a folder as components/ext4",
        options.folder.display()
    );
    let names: Vec<_> = crates.iter().map(|one| one.name.clone()).collect();
    println!("crates");
    for one in &crates {
        let below: Vec<_> =
            one.dependencies.iter().filter(|name| names.contains(name)).cloned().collect();
        println!(
            "  {} imports {}",
            one.name,
            if below.is_empty() { "none".into() } else { below.join(", ") }
        );
    }
    for one in &crates {
        let files = Graph::read(one)?;
        println!("\n{}", drawing(&one.name, &files));
        let mut faults = Vec::new();
        floors::check_floors(one, &files, &mut faults);
        faults.iter().for_each(|fault| println!("{fault}"));
    }
    Ok(0)
}

/// The matrix of a crate's parts, and the cycles of its files.
fn drawing(name: &str, files: &Graph) -> String {
    let parts = parts(files);
    let order = order(&parts);
    let mut text = format!(
        "{name}: {} files in {} parts, from the bottom up\n",
        files.names.len(),
        order.len()
    );
    let width = order.iter().map(|part| part.len()).max().unwrap_or(0);
    let _ = write!(text, "{:>1$}", "", width + 6);
    (1..=order.len()).for_each(|number| write!(text, "{number:>4}").unwrap_or_default());
    text.push('\n');
    for (row, from) in order.iter().enumerate() {
        let _ = write!(text, "{:>4}  {from:<width$}", row + 1);
        for (column, to) in order.iter().enumerate() {
            let count = parts[*from].get(*to).copied().unwrap_or(0);
            let _ = match count {
                _ if row == column => write!(text, "   \\"),
                0 => write!(text, "   ."),
                count => write!(text, "{count:>4}"),
            };
        }
        text.push('\n');
    }
    for cycle in files.cycles() {
        let shown: Vec<_> =
            cycle.iter().take(NAMES_SHOWN).map(|&file| files.names[file].as_str()).collect();
        let rest = if cycle.len() > NAMES_SHOWN { ", ..." } else { "" };
        let _ = writeln!(text, "a cycle of {} files: {}{rest}", cycle.len(), shown.join(", "));
    }
    text
}

/// For each part, the number of its files that import each other part.
type Parts<'g> = BTreeMap<&'g str, BTreeMap<&'g str, usize>>;

fn parts(files: &Graph) -> Parts<'_> {
    let mut parts = Parts::new();
    for (name, imports) in files.names.iter().zip(&files.imports) {
        let own = parts.entry(part(name)).or_default();
        let others: BTreeSet<_> = imports.iter().map(|&to| part(&files.names[to])).collect();
        for other in others.into_iter().filter(|other| *other != part(name)) {
            *own.entry(other).or_default() += 1;
        }
    }
    parts
}

/// Returns the parts from the bottom up: the next one is always that with the fewest imports of parts not yet listed.
fn order<'g>(parts: &Parts<'g>) -> Vec<&'g str> {
    let mut left: BTreeSet<&str> = parts.keys().copied().collect();
    let mut order = Vec::new();
    let upwards = |part: &str, left: &BTreeSet<&str>| {
        parts[part]
            .iter()
            .filter(|(to, _)| left.contains(*to))
            .map(|(_, count)| count)
            .sum::<usize>()
    };
    while let Some(&next) = left.iter().min_by_key(|part| upwards(part, &left)) {
        left.remove(next);
        order.push(next);
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::modules::tests::graph;

    #[test]
    fn a_mark_right_of_the_diagonal_is_an_import_upwards() {
        let graph = graph(&[("low", &[]), ("mid::a", &["low"]), ("top", &["mid::a", "low"])]);
        assert_eq!(order(&parts(&graph)), ["low", "mid", "top"]);
        let text = drawing("it", &graph);
        assert!(text.contains("   1  low   \\   .   .\n"), "{text}");
        assert!(text.contains("   3  top   1   1   \\\n"), "{text}");
    }
}

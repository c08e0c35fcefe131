//! The floors of a crate, and its cycles.
//!
//! A crate's README may declare floors, in one line:
//!
//! ```text
//! Floors, from the bottom up: `store`, `layout`, `names`.
//! ```
//! A floor is a folder, or a file, directly below `src`. Its modules import from it and from the floors before it in the list. The
//! root of the crate lies above all floors, and every other module lies in one.
//!
//! A crate that declares floors, and a component's crate in any case, has no large cycle of imports.
use super::Crate;
use super::modules::{Graph, ROOT, part};
use anyhow::Result;
use harness::shell;
use std::{fs, path::Path};

/// The words before the floors.
const DECLARATION: &str = "Floors, from the bottom up: ";
/// The folder whose crates have no large cycles, whether they declare floors or not.
pub const COMPONENTS: &str = "components";
/// The greatest number of files in one cycle of imports.
const CYCLE_FILES: usize = 8;

/// Adds a fault for each import that points to a higher floor, and for each cycle of imports that is too large.
///
/// # Errors
/// A file that cannot be read or parsed.
pub fn check(crates: &[Crate], faults: &mut Vec<String>) -> Result<()> {
    for one in crates {
        let graph = Graph::read(one)?;
        check_crate(one, &readme(one), &graph, faults);
    }
    Ok(())
}

fn check_crate(one: &Crate, readme: &str, graph: &Graph, faults: &mut Vec<String>) {
    let has_floors = check_readme(one, readme, graph, faults);
    if has_floors || one.folder.starts_with(COMPONENTS) {
        check_cycles(one, graph, faults);
    }
}

/// Adds a fault for each import of a crate that points to a higher floor, if its README declares floors.
pub fn check_floors(one: &Crate, graph: &Graph, faults: &mut Vec<String>) {
    check_readme(one, &readme(one), graph, faults);
}

/// The text of a crate's README; empty if it has none.
fn readme(one: &Crate) -> String {
    fs::read_to_string(shell::root().join(&one.folder).join("README.md")).unwrap_or_default()
}

/// Adds a fault for each import that points to a higher floor. Returns whether `readme` declares floors.
fn check_readme(one: &Crate, readme: &str, graph: &Graph, faults: &mut Vec<String>) -> bool {
    match declared(readme, DECLARATION) {
        Ok(Some(floors)) => {
            check_imports(&one.folder, &floors, graph, faults);
            true
        }
        Ok(None) => false,
        Err(fault) => {
            faults.push(format!("{}/README.md: {fault}", one.folder.display()));
            false
        }
    }
}

/// The names that a README lists, from the bottom up, in a line that begins with `declaration`.
///
/// # Errors
/// A line that begins with the first word of `declaration` and is not such a list, or a second one.
pub fn declared<'t>(readme: &'t str, declaration: &str) -> Result<Option<Vec<&'t str>>, String> {
    let subject = declaration.split_inclusive(',').next().unwrap_or(declaration);
    let mut lines = readme.lines().filter(|line| line.starts_with(subject));
    let Some(line) = lines.next() else { return Ok(None) };
    let list = line.strip_prefix(declaration).and_then(|rest| rest.strip_suffix('.'));
    let names: Option<Vec<&str>> = list.and_then(|list| list.split(", ").map(name).collect());
    match names {
        Some(names) if lines.next().is_none() => Ok(Some(names)),
        _ => Err(format!("declares its order in one line: {declaration}`first`, `second`.")),
    }
}

/// A name between backquotes.
fn name(text: &str) -> Option<&str> {
    let name = text.strip_prefix('`')?.strip_suffix('`')?;
    let is_name = |name: &str| name.chars().all(|one| one.is_ascii_lowercase() || one == '_');
    Some(name).filter(|name| !name.is_empty() && is_name(name))
}

fn check_imports(folder: &Path, floors: &[&str], graph: &Graph, faults: &mut Vec<String>) {
    let folder = folder.display();
    let height = |part: &str| floors.iter().position(|floor| *floor == part);
    for floor in floors {
        if !graph.names.iter().any(|module| part(module) == *floor) {
            faults.push(format!("{folder}: the floor `{floor}` has no module"));
        }
    }
    for (from, imports) in graph.names.iter().zip(&graph.imports).filter(|(from, _)| *from != ROOT)
    {
        let Some(own) = height(part(from)) else {
            faults
                .push(format!("{folder}: `{from}` is in none of the floors that README.md lists"));
            continue;
        };
        for to in imports.iter().map(|to| &graph.names[*to]) {
            // A part that is no floor has a fault of its own, but for the root.
            let is_above = match height(part(to)) {
                Some(height) => height > own,
                None => to == ROOT,
            };
            if is_above {
                faults.push(format!("{folder}: `{from}` may not import `{to}`, of a higher floor"));
            }
        }
    }
}

fn check_cycles(one: &Crate, graph: &Graph, faults: &mut Vec<String>) {
    for cycle in graph.cycles().iter().filter(|cycle| cycle.len() > CYCLE_FILES) {
        faults.push(format!(
            "{}: a cycle of {} files, at most {CYCLE_FILES} (`./x imports {0}` draws it)",
            one.folder.display(),
            cycle.len()
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::modules::tests::graph;

    const README: &str = "# it\n\nFloors, from the bottom up: `low`, `mid`, `top_most`.\n";

    fn faults(edges: &[(&str, &[&str])]) -> Vec<String> {
        let mut faults = Vec::new();
        check_imports(Path::new("it"), &["low", "mid", "top"], &graph(edges), &mut faults);
        faults
    }

    #[test]
    fn a_readme_declares_floors_in_one_line_or_not_at_all() {
        assert_eq!(declared(README, DECLARATION), Ok(Some(vec!["low", "mid", "top_most"])));
        assert_eq!(declared("# it\n\nIt has floors.\n", DECLARATION), Ok(None));
        for wrong in [
            "Floors, downwards: `low`.",
            "Floors, from the bottom up: `low`, `mid`",
            "Floors, from the bottom up: low, mid.",
            "Floors, from the bottom up: `low`,`mid`.",
            "Floors, from the bottom up: ``.",
            "Floors, from the bottom up: `low`.\nFloors, from the bottom up: `low`.",
        ] {
            assert!(declared(wrong, DECLARATION).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_floor_imports_itself_and_lower_floors() {
        let edges: [(&str, &[&str]); 5] = [
            ("lib", &["top", "low::a"]),
            ("low::a", &["low::b"]),
            ("low::b", &["low::a"]),
            ("mid", &["low::a"]),
            ("top", &["mid", "low::b"]),
        ];
        assert!(faults(&edges).is_empty());
    }

    #[test]
    fn an_import_of_a_higher_floor_or_the_root_is_refused() {
        let edges: [(&str, &[&str]); 4] =
            [("lib", &[]), ("low::a", &["top", "mid"]), ("mid", &["lib"]), ("top", &[])];
        let found = faults(&edges);
        assert_eq!(found.len(), 3, "{found:?}");
        assert_eq!(found[0], "it: `low::a` may not import `mid`, of a higher floor");
    }

    #[test]
    fn every_module_is_on_a_floor_and_every_floor_has_modules() {
        let found = faults(&[("lib", &[]), ("low", &["astray"]), ("mid", &[]), ("astray", &[])]);
        let expected = [
            "it: the floor `top` has no module",
            "it: `astray` is in none of the floors that README.md lists",
        ];
        assert_eq!(found, expected);
    }

    /// A graph of `files` files of the folder `low` that import each other in a ring.
    fn ring(files: usize) -> Graph {
        let names: Vec<String> = (0..files).map(|file| format!("low::f{file:02}")).collect();
        let next: Vec<[&str; 1]> =
            (0..files).map(|file| [names[(file + 1) % files].as_str()]).collect();
        let edges: Vec<(&str, &[&str])> =
            names.iter().zip(&next).map(|(from, to)| (from.as_str(), &to[..])).collect();
        graph(&edges)
    }

    /// The faults of a crate with that ring.
    fn of_ring(folder: &str, readme: &str, files: usize) -> Vec<String> {
        let one = Crate { name: "it".into(), folder: folder.into(), ..Crate::default() };
        let mut faults = Vec::new();
        check_crate(&one, readme, &ring(files), &mut faults);
        faults
    }

    #[test]
    fn a_cycle_has_at_most_so_many_files() {
        assert!(of_ring("components/it", "", CYCLE_FILES).is_empty());
        let expected =
            ["components/it: a cycle of 9 files, at most 8 (`./x imports components/it` draws it)"];
        assert_eq!(of_ring("components/it", "", CYCLE_FILES + 1), expected);
    }

    #[test]
    fn cycles_are_bounded_in_any_crate_that_declares_floors() {
        let readme = "Floors, from the bottom up: `low`.\n";
        assert!(of_ring("xtask/it", "", CYCLE_FILES + 1).is_empty());
        assert!(of_ring("xtask/it", readme, CYCLE_FILES).is_empty());
        assert_eq!(of_ring("xtask/it", readme, CYCLE_FILES + 1).len(), 1);
    }
}

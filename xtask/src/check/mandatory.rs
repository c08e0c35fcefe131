//! Checks that `docs/mls.md` has a row for each system call, each operation of a file and each type of object: whoever adds one
//! must say which check of multilevel security it passes, or why it needs none.
//!
//! A row's first cell has the names, each as a code span.
use super::{Crate, is_test_file, type_names::is_test};
use anyhow::{Context, Result};
use harness::shell;
use std::{collections::BTreeSet, fs};
use syn::{Item, TraitItem, Type};

const PAGE: &str = "docs/mls.md";
/// The page of system calls, generated from their table.
const CALLS: &str = "docs/syscalls.md";
/// The traits whose functions are operations of files.
const OPERATIONS: [&str; 2] = ["File", "Node"];
/// Folder of the crates that have objects.
const PERSONALITY: &str = "components/posix";

/// Adds a fault for each name without a row, and for each row of a name that is not there.
///
/// # Errors
/// A file that cannot be read or parsed.
pub fn check(crates: &[Crate], faults: &mut Vec<String>) -> Result<()> {
    let read = |page: &str| fs::read_to_string(shell::root().join(page));
    let page = read(PAGE).with_context(|| format!("reading {PAGE}"))?;
    let found = Found::of(crates)?;
    for (section, wanted) in [
        ("System calls", calls(&read(CALLS)?)),
        ("Operations of files", found.operations),
        ("Objects", found.objects),
    ] {
        faults.extend(differences(section, &rows(&page, section), &wanted));
    }
    Ok(())
}

/// Returns the faults of a section that has the names `listed` instead of `wanted`.
fn differences(section: &str, listed: &BTreeSet<String>, wanted: &BTreeSet<String>) -> Vec<String> {
    let missing = wanted.difference(listed).map(|name| {
        format!("{PAGE}, {section}: no row has `{name}`; say which check it passes, or why it needs none")
    });
    let stale =
        listed.difference(wanted).map(|name| format!("{PAGE}, {section}: there is no `{name}`"));
    missing.chain(stale).collect()
}

/// Returns the code spans in the first cells of the tables of a section.
fn rows(page: &str, section: &str) -> BTreeSet<String> {
    let heading = format!("## {section}");
    let lines = page.lines().skip_while(|line| *line != heading).skip(1);
    let lines = lines.take_while(|line| !line.starts_with("## "));
    let cells = lines.filter_map(|line| line.strip_prefix("| `")?.split(" | ").next());
    cells
        .flat_map(|cell| cell.split('`').step_by(2))
        .filter(|name| is_name(name))
        .map(String::from)
        .collect()
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Returns the calls of the generated page that are whole or partial.
fn calls(page: &str) -> BTreeSet<String> {
    let rows = page.lines().filter(|line| line.starts_with("| ") && !line.ends_with("| absent |"));
    rows.filter_map(|line| line.split('`').nth(1)).map(String::from).collect()
}

/// The names in the code.
#[derive(Default)]
struct Found {
    operations: BTreeSet<String>,
    objects: BTreeSet<String>,
}

impl Found {
    fn of(crates: &[Crate]) -> Result<Found> {
        let mut found = Found::default();
        let crates = crates.iter().filter(|one| one.folder.starts_with(PERSONALITY));
        for path in crates.flat_map(|one| &one.files).filter(|path| !is_test_file(path)) {
            let file = syn::parse_file(&fs::read_to_string(path)?)
                .with_context(|| format!("parsing {}", path.display()))?;
            found.add(&file.items);
        }
        Ok(found)
    }
    fn add(&mut self, items: &[Item]) {
        for item in items {
            match item {
                Item::Trait(it) if OPERATIONS.contains(&it.ident.to_string().as_str()) => {
                    self.operations.extend(it.items.iter().filter_map(|item| match item {
                        TraitItem::Fn(function) => Some(function.sig.ident.to_string()),
                        _ => None,
                    }));
                }
                Item::Impl(it) => {
                    let of = it.trait_.as_ref().and_then(|(_, path, _)| path.segments.last());
                    if of.is_some_and(|last| last.ident == "File")
                        && let Type::Path(kind) = &*it.self_ty
                        && let Some(last) = kind.path.segments.last()
                    {
                        self.objects.insert(last.ident.to_string());
                    }
                }
                Item::Mod(it) if !is_test(&it.attrs) => {
                    self.add(it.content.as_ref().map_or(&[][..], |(_, items)| items));
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_without_a_row_and_a_row_without_a_name_are_faults() {
        let page = "## Objects\n| name | label |\n| --- | --- |\n| `Pipe`, `Fifo` | `Vnode::label` |\n\n## Other\n| `X` | |\n";
        let wanted = ["Pipe", "Socket"].map(String::from).into();
        let faults = differences("Objects", &rows(page, "Objects"), &wanted);
        assert_eq!(faults.len(), 2);
        assert!(faults[0].contains("no row has `Socket`"), "{}", faults[0]);
        assert!(faults[1].contains("there is no `Fifo`"), "{}", faults[1]);
    }

    #[test]
    fn calls_operations_and_objects_are_found_in_their_places() {
        let page = "| number | name | here |\n| 0 | `read` | whole |\n| 9 | `mmap` | partial: x |\n| 7 | `y` | absent |\n";
        assert_eq!(calls(page), ["mmap", "read"].map(String::from).into());
        let code = "trait File { fn read(&self); } trait Other { fn no(&self); } impl File for Pipe {}
            mod inner { impl vfs::file::File for Socket<'_> {} } #[cfg(test)] mod tests { impl File for T {} }";
        let mut found = Found::default();
        found.add(&syn::parse_file(code).unwrap().items);
        assert_eq!(found.operations, ["read"].map(String::from).into());
        assert_eq!(found.objects, ["Pipe", "Socket"].map(String::from).into());
    }
}

//! `./x imports`: draws which parts of a folder's crates import which, and names the cycles.
//!
//! A part is a folder or a file directly below `src`. The drawing is a matrix: a row imports the columns that it marks, by the
//! number of its files that do. Parts stand from the bottom up, so that a mark right of the diagonal is an import upwards.
use crate::{
    check::{self, Crate, is_test_file},
    shell,
};
use anyhow::{Context, Result, ensure};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    fs,
    path::{Path, PathBuf},
};
use syn::visit::{self, Visit};

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
/// A folder without crates, a file that cannot be parsed.
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
        println!("\n{}", drawing(&one.name, &graph(one)?));
    }
    Ok(0)
}

/// Modules, and the modules that each imports.
#[derive(Debug, Default)]
struct Graph {
    names: Vec<String>,
    imports: Vec<BTreeSet<usize>>,
}

impl Graph {
    fn of(edges: &BTreeMap<String, BTreeSet<String>>) -> Graph {
        let names: Vec<String> = edges.keys().cloned().collect();
        let place = |name: &String| names.binary_search(name).ok();
        let imports = edges.values().map(|to| to.iter().filter_map(place).collect()).collect();
        Graph { names, imports }
    }

    /// Groups of modules each of which reaches all others of its group, the largest first (Tarjan 1972).
    fn cycles(&self) -> Vec<Vec<usize>> {
        let mut search = Search::new(self);
        for node in 0..self.names.len() {
            if search.index[node].is_none() {
                search.visit(node);
            }
        }
        let mut cycles = search.found;
        cycles.retain(|cycle| cycle.len() > 1);
        cycles.sort_by_key(|cycle| std::cmp::Reverse(cycle.len()));
        cycles
    }
}

/// A depth-first search for cycles.
struct Search<'g> {
    graph: &'g Graph,
    index: Vec<Option<usize>>,
    lowest: Vec<usize>,
    stack: Vec<usize>,
    is_on_stack: Vec<bool>,
    found: Vec<Vec<usize>>,
    next: usize,
}

impl<'g> Search<'g> {
    fn new(graph: &'g Graph) -> Search<'g> {
        let nodes = graph.names.len();
        Search {
            graph,
            index: vec![None; nodes],
            lowest: vec![0; nodes],
            stack: Vec::new(),
            is_on_stack: vec![false; nodes],
            found: Vec::new(),
            next: 0,
        }
    }

    fn visit(&mut self, node: usize) {
        let own = self.next;
        self.next += 1;
        (self.index[node], self.lowest[node]) = (Some(own), own);
        self.stack.push(node);
        self.is_on_stack[node] = true;
        for &to in &self.graph.imports[node] {
            match self.index[to] {
                None => {
                    self.visit(to);
                    self.lowest[node] = self.lowest[node].min(self.lowest[to]);
                }
                Some(index) if self.is_on_stack[to] => {
                    self.lowest[node] = self.lowest[node].min(index)
                }
                Some(_) => {}
            }
        }
        if self.lowest[node] == own {
            let from = self.stack.iter().rposition(|&one| one == node).unwrap_or(0);
            let cycle = self.stack.split_off(from);
            cycle.iter().for_each(|&one| self.is_on_stack[one] = false);
            self.found.push(cycle);
        }
    }
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

/// By part, how many of its files import each other part.
type Parts<'g> = BTreeMap<&'g str, BTreeMap<&'g str, usize>>;

fn part(module: &str) -> &str {
    module.split("::").next().unwrap_or(module)
}

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

/// The parts from the bottom up: next comes the one with the fewest imports of parts that are not yet there.
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

/// The modules of a crate, tests left out, and what each imports.
fn graph(one: &Crate) -> Result<Graph> {
    let source = shell::root().join(&one.folder).join("src");
    let files = one.files.iter().filter(|path| path.starts_with(&source) && !is_test_file(path));
    let modules: BTreeMap<String, &PathBuf> =
        files.filter_map(|path| Some((module(path.strip_prefix(&source).ok()?), path))).collect();
    let known: BTreeSet<&str> = modules.keys().map(String::as_str).collect();
    let mut edges = BTreeMap::new();
    for (name, path) in &modules {
        let text = fs::read_to_string(path)?;
        let file = syn::parse_file(&text).with_context(|| format!("parsing {}", path.display()))?;
        let mut finder = Finder { known: &known, module: segments(name), paths: BTreeSet::new() };
        finder.visit_file(&file);
        let imports = finder.paths.iter().filter_map(|path| nearest(path, &known));
        edges.insert(name.clone(), imports.filter(|to| to != name).collect());
    }
    Ok(Graph::of(&edges))
}

/// The name of the crate's root.
const ROOT: &str = "lib";

/// The module that a file below `src` is.
fn module(path: &Path) -> String {
    let mut parts: Vec<_> =
        path.with_extension("").iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if parts.last().is_some_and(|last| last == "mod") {
        parts.pop();
    }
    match parts.as_slice() {
        [one] if one == "lib" || one == "main" => ROOT.to_owned(),
        parts => parts.join("::"),
    }
}

fn segments(module: &str) -> Vec<String> {
    if module == ROOT { Vec::new() } else { module.split("::").map(str::to_owned).collect() }
}

/// The innermost module that a path leads through.
fn nearest(path: &[String], known: &BTreeSet<&str>) -> Option<String> {
    let found = (1..=path.len()).rev().map(|length| path[..length].join("::"));
    found.into_iter().find(|name| known.contains(name.as_str())).or_else(|| Some(ROOT.to_owned()))
}

/// Collects the paths in a file that begin at the crate, near the file or at a module below it.
struct Finder<'k> {
    known: &'k BTreeSet<&'k str>,
    module: Vec<String>,
    paths: BTreeSet<Vec<String>>,
}

impl Finder<'_> {
    fn note(&mut self, path: &[String]) {
        let (mut base, mut rest) = match path.first().map(String::as_str) {
            Some("crate") => (Vec::new(), &path[1..]),
            Some("self") => (self.module.clone(), &path[1..]),
            Some("super") => (self.module.clone(), path),
            Some(child) if self.is_child(child) => (self.module.clone(), path),
            _ => return,
        };
        while rest.first().is_some_and(|segment| segment == "super") {
            base.pop();
            rest = &rest[1..];
        }
        base.extend(rest.iter().filter(|segment| *segment != "self" && *segment != "*").cloned());
        self.paths.insert(base);
    }

    fn is_child(&self, name: &str) -> bool {
        let child: Vec<_> = self.module.iter().map(String::as_str).chain([name]).collect();
        self.known.contains(child.join("::").as_str())
    }

    fn note_tree(&mut self, tree: &syn::UseTree, path: &mut Vec<String>) {
        match tree {
            syn::UseTree::Path(step) => {
                path.push(step.ident.to_string());
                self.note_tree(&step.tree, path);
                path.pop();
            }
            syn::UseTree::Group(group) => {
                group.items.iter().for_each(|item| self.note_tree(item, path))
            }
            syn::UseTree::Glob(_) => self.note(path),
            syn::UseTree::Name(syn::UseName { ident })
            | syn::UseTree::Rename(syn::UseRename { ident, .. }) => {
                path.push(ident.to_string());
                self.note(path);
                path.pop();
            }
        }
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.note_tree(&item.tree, &mut Vec::new());
    }
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        // Tests are no part of the drawing; a module in the file is its own level for `super`.
        let is_test = item.attrs.iter().any(|attribute| attribute.path().is_ident("cfg"));
        if !is_test && item.content.is_some() {
            self.module.push(item.ident.to_string());
            visit::visit_item_mod(self, item);
            self.module.pop();
        }
    }
    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<_> =
            path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.note(&segments);
        visit::visit_path(self, path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(module: &str, text: &str) -> Vec<String> {
        let known = BTreeSet::from(["own::file::child"]);
        let mut finder = Finder { known: &known, module: segments(module), paths: BTreeSet::new() };
        finder.visit_file(&syn::parse_file(text).expect("Rust"));
        finder.paths.iter().map(|path| path.join("::")).collect()
    }

    #[test]
    fn paths_are_found_from_the_root_on() {
        let text = "use crate::{a::{self, B}, c::*}; use super::d; fn f() { crate::e::g(); self::h() } \
            #[cfg(test)] mod tests { use crate::only_in_tests; } mod inner { use super::i; } \
            pub use child::J; use alloc::K;";
        let expected = [
            "a",
            "a::B",
            "c",
            "e::g",
            "own::d",
            "own::file::child::J",
            "own::file::h",
            "own::file::i",
        ];
        assert_eq!(paths("own::file", text), expected);
    }

    #[test]
    fn files_are_modules() {
        let names = ["lib.rs", "a/mod.rs", "a/b.rs", "c.rs"].map(|path| module(Path::new(path)));
        assert_eq!(names, ["lib", "a", "a::b", "c"]);
        let known = BTreeSet::from(["lib", "a", "a::b"]);
        let nearest = |path: &str| nearest(&segments(path), &known).expect("a module");
        assert_eq!([nearest("a::b::C"), nearest("a::D"), nearest("E")], ["a::b", "a", "lib"]);
    }

    fn graph(edges: &[(&str, &[&str])]) -> Graph {
        let set = |to: &[&str]| to.iter().map(|&name| name.to_owned()).collect();
        Graph::of(&edges.iter().map(|&(from, to)| (from.to_owned(), set(to))).collect())
    }

    #[test]
    fn cycles_are_found() {
        let graph =
            graph(&[("a", &["b"]), ("b", &["c"]), ("c", &["a", "d"]), ("d", &["e"]), ("e", &[])]);
        let names: Vec<Vec<&str>> = graph
            .cycles()
            .iter()
            .map(|cycle| cycle.iter().map(|&file| graph.names[file].as_str()).collect())
            .collect();
        assert_eq!(names, [["a", "b", "c"]]);
    }

    #[test]
    fn a_mark_right_of_the_diagonal_is_an_import_upwards() {
        let graph = graph(&[("low", &[]), ("mid::a", &["low"]), ("top", &["mid::a", "low"])]);
        assert_eq!(order(&parts(&graph)), ["low", "mid", "top"]);
        let text = drawing("it", &graph);
        assert!(text.contains("   1  low   \\   .   .\n"), "{text}");
        assert!(text.contains("   3  top   1   1   \\\n"), "{text}");
    }
}

//! The modules of a crate, and which of them import which, read from its source.
//!
//! A module is a file: one declared within a file belongs to that. Tests are left out. Of the arguments of macros, which are not
//! parsed, only the paths that begin at the crate are seen.
use crate::check::{Crate, is_test_file};
use anyhow::{Context, Result};
use harness::shell;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs, iter,
    path::{Path, PathBuf},
};
use syn::visit::{self, Visit};

/// The name of the crate's root.
pub const ROOT: &str = "lib";

/// Modules, and the modules that each imports.
#[derive(Debug, Default)]
pub struct Graph {
    /// Names, in order.
    pub names: Vec<String>,
    /// By module, the places of those that it imports.
    pub imports: Vec<BTreeSet<usize>>,
}

impl Graph {
    /// The modules of a crate.
    ///
    /// # Errors
    /// A file that cannot be read or parsed.
    pub fn read(one: &Crate) -> Result<Graph> {
        let source = shell::root().join(&one.folder).join("src");
        let files =
            one.files.iter().filter(|path| path.starts_with(&source) && !is_test_file(path));
        let modules: BTreeMap<String, &PathBuf> = files
            .filter_map(|path| Some((module(path.strip_prefix(&source).ok()?), path)))
            .collect();
        let known: BTreeSet<&str> = modules.keys().map(String::as_str).collect();
        let mut edges = BTreeMap::new();
        for (name, path) in &modules {
            let text = fs::read_to_string(path)?;
            let file =
                syn::parse_file(&text).with_context(|| format!("parsing {}", path.display()))?;
            let mut finder =
                Finder { known: &known, module: segments(name), paths: BTreeSet::new() };
            finder.visit_file(&file);
            let imports = finder.paths.iter().map(|path| nearest(path, &known));
            edges.insert(name.clone(), imports.filter(|to| to != name).collect());
        }
        Ok(Graph::of(&edges))
    }

    /// From the names of the modules, and of those that each imports.
    pub fn of(edges: &BTreeMap<String, BTreeSet<String>>) -> Graph {
        let names: Vec<String> = edges.keys().cloned().collect();
        let place = |name: &String| names.binary_search(name).ok();
        let imports = edges.values().map(|to| to.iter().filter_map(place).collect()).collect();
        Graph { names, imports }
    }

    /// Groups of modules each of which reaches all others of its group, the largest first (Tarjan 1972).
    pub fn cycles(&self) -> Vec<Vec<usize>> {
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

/// The part of its crate that a module belongs to: the folder or the file directly below `src`.
pub fn part(module: &str) -> &str {
    module.split("::").next().unwrap_or(module)
}

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
fn nearest(path: &[String], known: &BTreeSet<&str>) -> String {
    let mut found = (1..=path.len()).rev().map(|length| path[..length].join("::"));
    found.find(|name| known.contains(name.as_str())).unwrap_or_else(|| ROOT.to_owned())
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
    // `pub(crate)` and its like import nothing.
    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}
    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<_> =
            path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        // A path of one segment is a local name, perhaps of a variable that is called as a module.
        if segments.len() > 1 {
            self.note(&segments);
        }
        visit::visit_path(self, path);
    }
    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        let text = item.tokens.to_string();
        for rest in text.split("crate ::").skip(1) {
            let path = rest.split(ends_path).next().unwrap_or_default();
            let names = path.split("::").filter_map(|part| part.split_whitespace().next());
            let path: Vec<_> = iter::once("crate").chain(names).map(str::to_owned).collect();
            self.note(&path);
        }
        visit::visit_macro(self, item);
    }
}

/// The character cannot be in a path, as tokens are printed.
fn ends_path(character: char) -> bool {
    !character.is_alphanumeric() && !matches!(character, '_' | ':' | ' ')
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A graph of modules, each with those that it imports.
    pub fn graph(edges: &[(&str, &[&str])]) -> Graph {
        let set = |to: &[&str]| to.iter().map(|&name| name.to_owned()).collect();
        Graph::of(&edges.iter().map(|&(from, to)| (from.to_owned(), set(to))).collect())
    }

    fn paths(module: &str, text: &str) -> Vec<String> {
        let known = BTreeSet::from(["own::file::child"]);
        let mut finder = Finder { known: &known, module: segments(module), paths: BTreeSet::new() };
        finder.visit_file(&syn::parse_file(text).expect("Rust"));
        finder.paths.iter().map(|path| path.join("::")).collect()
    }

    #[test]
    fn paths_are_found_from_the_root_on() {
        let text = "use crate::{a::{self, B}, c::*}; use super::d; fn f() { crate::e::g(); self::h(); child } \
            #[cfg(test)] mod tests { use crate::only_in_tests; } mod inner { use super::i; } \
            pub use child::J; use alloc::K; pub(crate) struct L; pub(in crate::m) struct N;";
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
    fn paths_in_the_arguments_of_macros_are_found() {
        let text = "fn f() { log::info!(\"{}\", crate::a::b(x)); vec![crate::c::D, e::f()]; }";
        assert_eq!(paths("own::file", text), ["a::b", "c::D"]);
    }

    #[test]
    fn files_are_modules() {
        let names = ["lib.rs", "a/mod.rs", "a/b.rs", "c.rs"].map(|path| module(Path::new(path)));
        assert_eq!(names, ["lib", "a", "a::b", "c"]);
        let known = BTreeSet::from(["lib", "a", "a::b"]);
        let nearest = |path: &str| nearest(&segments(path), &known);
        assert_eq!([nearest("a::b::C"), nearest("a::D"), nearest("E")], ["a::b", "a", "lib"]);
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
}

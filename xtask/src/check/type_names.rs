//! Checks the names of types: a name that many types share says nothing about any of them.
//!
//! A definition is a struct, an enum, a union, a trait or an alias, public or not, in any crate of the product. Associated types
//! do not count: their trait gives them their name. Neither do tests, nor the tools that do not run in Skerry.
use super::{Crate, is_test_file};
use anyhow::{Context, Result};
use harness::shell;
use std::{collections::BTreeMap, fs};
use syn::{
    Attribute, Ident,
    visit::{self, Visit},
};

/// The greatest number of types of one name.
const SAME_NAME: usize = 3;
/// Folders of crates that are no part of the product.
const TOOLS: [&str; 3] = ["bench", "tests", "xtask"];

/// The definitions of each name: the files, with lines.
type Definitions = BTreeMap<String, Vec<String>>;

/// Adds a fault for each name that too many types have.
///
/// # Errors
/// A file that cannot be read or parsed.
pub fn check(crates: &[Crate], faults: &mut Vec<String>) -> Result<()> {
    let is_product = |one: &&Crate| !TOOLS.iter().any(|folder| one.folder.starts_with(folder));
    let mut definitions = Definitions::new();
    for path in crates.iter().filter(is_product).flat_map(|one| &one.files) {
        if !is_test_file(path) {
            let file = syn::parse_file(&fs::read_to_string(path)?)
                .with_context(|| format!("parsing {}", path.display()))?;
            collect(&shell::name(path), &file, &mut definitions);
        }
    }
    refuse(&definitions, faults);
    Ok(())
}

/// Adds the definitions of a file.
fn collect(path: &str, file: &syn::File, definitions: &mut Definitions) {
    Finder { path, definitions }.visit_file(file);
}

fn refuse(definitions: &Definitions, faults: &mut Vec<String>) {
    for (name, places) in definitions.iter().filter(|(_, places)| places.len() > SAME_NAME) {
        faults.push(format!(
            "{} types have the name `{name}`, at most {SAME_NAME}: name each for its thing: {}",
            places.len(),
            places.join(", ")
        ));
    }
}

/// Finds the definitions of types in a file.
struct Finder<'f> {
    path: &'f str,
    definitions: &'f mut Definitions,
}

impl Finder<'_> {
    fn add(&mut self, name: &Ident) {
        let place = format!("{}:{}", self.path, name.span().start().line);
        self.definitions.entry(name.to_string()).or_default().push(place);
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.add(&item.ident);
    }
    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.add(&item.ident);
    }
    fn visit_item_union(&mut self, item: &'ast syn::ItemUnion) {
        self.add(&item.ident);
    }
    fn visit_item_type(&mut self, item: &'ast syn::ItemType) {
        self.add(&item.ident);
    }
    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.add(&item.ident);
        visit::visit_item_trait(self, item);
    }
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }
    /// Finds the types in the input of a macro such as `bitflags!`, which is not parsed.
    fn visit_item_macro(&mut self, item: &'ast syn::ItemMacro) {
        if item.ident.is_none() {
            let mut is_after_struct = false;
            for token in item.mac.tokens.clone() {
                let proc_macro2::TokenTree::Ident(word) = token else {
                    is_after_struct = false;
                    continue;
                };
                if is_after_struct {
                    self.add(&word);
                }
                is_after_struct = word == "struct";
            }
        }
    }
}

/// Returns whether an item is compiled for tests only.
pub fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.meta.require_list().is_ok_and(|list| list.tokens.to_string() == "test")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definitions(texts: &[&str]) -> Definitions {
        let mut all = Definitions::new();
        for (index, text) in texts.iter().enumerate() {
            let file = syn::parse_file(text).unwrap();
            collect(&format!("{index}.rs"), &file, &mut all);
        }
        all
    }

    fn names(text: &str) -> Vec<String> {
        definitions(&[text]).into_keys().collect()
    }

    #[test]
    fn every_kind_of_type_counts_wherever_it_stands() {
        let text = "pub struct A; enum B {} union C { a: u8 } trait D {} type E = u8; \
            mod inner { struct F<T>(T); } fn f() { struct G; } \
            bitflags! { /// Flags.\n pub struct H: u8 { const ONE = 1; } }";
        assert_eq!(names(text), ["A", "B", "C", "D", "E", "F", "G", "H"]);
    }

    #[test]
    fn associated_types_and_tests_do_not_count() {
        let text = "trait A { type Item; } impl A for u8 { type Item = u8; } \
            #[cfg(test)] mod tests { struct B; } macro_rules! m { () => { struct C; } } use x::D; \
            #[cfg(not(test))] mod real { struct E; }";
        assert_eq!(names(text), ["A", "E"]);
    }

    #[test]
    fn a_fourth_type_of_a_name_is_refused() {
        let faults = |texts: &[&str]| {
            let mut faults = Vec::new();
            refuse(&definitions(texts), &mut faults);
            faults
        };
        let three = ["struct State;", "enum State {}\nstruct Other;", "trait State {}"];
        assert!(faults(&three).is_empty());
        let four = [&three[..], &["\ntype State = u8;"]].concat();
        let expected = "4 types have the name `State`, at most 3: name each for its thing: \
            0.rs:1, 1.rs:1, 2.rs:1, 3.rs:2";
        assert_eq!(faults(&four), [expected]);
    }
}

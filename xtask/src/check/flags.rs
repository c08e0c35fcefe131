//! Checks the parameters of functions: a `bool` beside other arguments says nothing where the function is called.
//!
//! `open(path, None, false)` is not understood without the function's text; an enum of two values, two functions, or a struct
//! whose fields have names is. A function whose only argument is a `bool` may have it (`set_open(true)`): its name tells the
//! meaning. Implementations of traits, tests, and programs that measure are not looked at.
use super::{Crate, is_test_file, type_names::is_test};
use anyhow::{Context, Result};
use harness::shell;
use std::fs;
use syn::{
    FnArg, Signature, Type,
    visit::{self, Visit},
};

/// Folders of crates that are no part of the product.
const TOOLS: [&str; 2] = ["bench", "tests"];

/// Adds a fault for each such parameter.
///
/// # Errors
/// A file that cannot be read or parsed.
pub fn check(crates: &[Crate], faults: &mut Vec<String>) -> Result<()> {
    let is_product = |one: &&Crate| !TOOLS.iter().any(|folder| one.folder.starts_with(folder));
    for path in crates.iter().filter(is_product).flat_map(|one| &one.files) {
        if !is_test_file(path) {
            let file = syn::parse_file(&fs::read_to_string(path)?)
                .with_context(|| format!("parsing {}", path.display()))?;
            Finder { path: &shell::name(path), faults }.visit_file(&file);
        }
    }
    Ok(())
}

struct Finder<'f> {
    path: &'f str,
    faults: &'f mut Vec<String>,
}

impl Finder<'_> {
    fn judge(&mut self, function: &Signature) {
        let typed = || function.inputs.iter().filter_map(typed);
        if typed().count() > 1 && typed().any(is_bool) {
            self.faults.push(format!(
                "{}:{}: `{}` has a `bool` beside other arguments: make it an enum, or two functions",
                self.path,
                function.ident.span().start().line,
                function.ident
            ));
        }
    }
}

fn typed(argument: &FnArg) -> Option<&Type> {
    match argument {
        FnArg::Typed(argument) => Some(&argument.ty),
        FnArg::Receiver(_) => None,
    }
}

fn is_bool(argument: &Type) -> bool {
    matches!(argument, Type::Path(path) if path.path.is_ident("bool"))
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !is_test(&item.attrs) {
            self.judge(&item.sig);
            visit::visit_item_fn(self, item);
        }
    }
    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.judge(&item.sig);
        visit::visit_impl_item_fn(self, item);
    }
    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        self.judge(&item.sig);
        visit::visit_trait_item_fn(self, item);
    }
    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if item.trait_.is_none() && !is_test(&item.attrs) {
            visit::visit_item_impl(self, item);
        }
    }
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(text: &str) -> usize {
        let mut faults = Vec::new();
        Finder { path: "a.rs", faults: &mut faults }.visit_file(&syn::parse_file(text).unwrap());
        faults.len()
    }

    #[test]
    fn a_flag_beside_other_arguments_is_a_fault() {
        assert_eq!(faults("fn f(a: u32, b: bool) {}"), 1);
        assert_eq!(faults("impl A { fn f(&self, a: u32, b: bool) {} }"), 1);
        assert_eq!(faults("trait A { fn f(&self, a: bool, b: bool); }"), 1);
    }

    #[test]
    fn a_flag_alone_and_those_of_traits_and_tests_are_none() {
        assert_eq!(faults("fn set_open(is_open: bool) {}"), 0);
        assert_eq!(faults("impl A { fn set_open(&self, is_open: bool) {} }"), 0);
        assert_eq!(faults("impl B for A { fn f(&self, a: u32, b: bool) {} }"), 0);
        assert_eq!(faults("#[cfg(test)] mod tests { fn f(a: u32, b: bool) {} }"), 0);
        assert_eq!(faults("fn f(a: u32, b: impl Fn(bool)) {}"), 0);
    }
}

//! Counts lines of code and of unsafe. Code is every line that is neither blank nor a comment;
//! tests are counted apart.
use super::Crate;
use anyhow::{Context, Result};
use std::path::Path;
use syn::{spanned::Spanned, visit::Visit};

/// The counts of one crate.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Lines of code outside tests.
    pub code: usize,
    /// Lines of code in tests.
    pub tests: usize,
    /// `unsafe` blocks, functions, impls and attributes.
    pub unsafe_blocks: usize,
    /// Of `code`, the lines in `src/kernel` (rt's kernel back end).
    pub kernel_code: usize,
    /// Of `unsafe_blocks`, those in `src/kernel`.
    pub kernel_unsafe: usize,
}

impl Counts {
    /// Adds the counts of another crate.
    pub fn add(&mut self, other: &Counts) {
        self.code += other.code;
        self.tests += other.tests;
        self.unsafe_blocks += other.unsafe_blocks;
    }
}

/// Counts a crate's files.
///
/// # Errors
/// Fails if a file cannot be read or parsed.
pub fn crate_counts(one: &Crate) -> Result<Counts> {
    let mut counts = Counts::default();
    for path in &one.files {
        let text = std::fs::read_to_string(path)?;
        let file = syn::parse_file(&text).with_context(|| format!("parsing {}", path.display()))?;
        let mut finder = Finder::default();
        finder.visit_file(&file);
        let all = code_lines(&text).count();
        let tests = if is_test_file(path) { all } else { finder.test_lines(&text) };
        counts.code += all - tests;
        counts.tests += tests;
        counts.unsafe_blocks += finder.unsafe_blocks;
        if path.components().any(|part| part.as_os_str() == "kernel") {
            counts.kernel_code += all - tests;
            counts.kernel_unsafe += finder.unsafe_blocks;
        }
    }
    Ok(counts)
}

/// Returns the lines that are neither blank nor comment, numbered from 1.
pub fn code_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .enumerate()
        .map(|(at, line)| (at + 1, line.trim()))
        .filter(|(_, line)| !line.is_empty() && !line.starts_with("//"))
}

/// Returns whether a file holds only tests.
pub fn is_test_file(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == "tests")
        || path
            .file_stem()
            .and_then(|stem| stem.to_str())
            .is_some_and(|stem| stem == "tests" || stem.ends_with("_tests"))
}

#[derive(Default)]
struct Finder {
    unsafe_blocks: usize,
    test_spans: Vec<(usize, usize)>,
}

impl Finder {
    fn test_lines(&self, text: &str) -> usize {
        code_lines(text)
            .filter(|(line, _)| {
                self.test_spans.iter().any(|(from, to)| (from..=to).contains(&line))
            })
            .count()
    }
}

impl<'ast> Visit<'ast> for Finder {
    fn visit_expr_unsafe(&mut self, block: &'ast syn::ExprUnsafe) {
        self.unsafe_blocks += 1;
        syn::visit::visit_expr_unsafe(self, block);
    }
    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        self.unsafe_blocks += usize::from(item.unsafety.is_some());
        syn::visit::visit_item_impl(self, item);
    }
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        let is_test = item.attrs.iter().any(|attribute| {
            attribute.path().is_ident("cfg")
                && attribute
                    .meta
                    .require_list()
                    .is_ok_and(|list| list.tokens.to_string().contains("test"))
        });
        if is_test && item.content.is_some() {
            let span = item.span();
            self.test_spans.push((span.start().line, span.end().line));
        }
        syn::visit::visit_item_mod(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_blanks_are_not_code() {
        assert_eq!(code_lines("//! a\n\nfn f() {\n    // b\n}\n").count(), 2);
    }
}

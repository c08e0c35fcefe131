//! The names that the repository has: paths of files, declarations of Rust, and words of all sources.
use anyhow::{Context, Result};
use harness::shell;
use std::{collections::HashSet, fs};
use syn::visit::Visit;

/// The kind of name that a code span is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A file or folder.
    Path,
    /// `a::b::C`.
    RustPath,
    /// A name in CamelCase, a name in snake_case with an underscore, a function with `()`, or names with dots between.
    Words,
}

/// Endings of file names by which a span without a slash is a path.
const ENDINGS: [&str; 6] = [".rs", ".md", ".toml", ".ld", ".sh", ".c"];
/// Folders that commands make; git does not list them.
const MADE: [&str; 2] = ["build", "target"];
/// Crates from outside, whose items are theirs.
const OUTSIDE: [&str; 5] = ["std", "core", "alloc", "clap", "syn"];
/// Endings of the files that are sources.
const SOURCES: [&str; 9] = ["rs", "toml", "c", "h", "S", "ld", "sh", "py", "json"];

/// The kind of a span's name, by its form; `None` for prose.
pub fn kind(span: &str) -> Option<Kind> {
    let is_made_of = |extra: &str| {
        span.chars().all(|one| one.is_ascii_alphanumeric() || one == '_' || extra.contains(one))
    };
    let begins_with_a_letter = span.starts_with(|one: char| one.is_ascii_alphabetic());
    if !begins_with_a_letter {
        return None;
    }
    if is_made_of("/.-") && (span.contains('/') || ENDINGS.iter().any(|end| span.ends_with(end))) {
        return Some(Kind::Path);
    }
    let name = span.strip_suffix("()").unwrap_or(span);
    if name.contains("::") {
        let is_path = name.split("::").all(|part| !part.is_empty()) && is_made_of(":()");
        return is_path.then_some(Kind::RustPath);
    }
    let has = |what: fn(&char) -> bool| name.chars().any(|one| what(&one));
    let is_type = name.starts_with(|one: char| one.is_ascii_uppercase());
    let is_name = is_type && has(char::is_ascii_lowercase)
        || !has(char::is_ascii_uppercase) && (name.contains(['_', '.']) || name != span);
    (is_name && is_made_of(".()") && !name.contains("..") && !name.contains('('))
        .then_some(Kind::Words)
}

/// All names.
#[derive(Default)]
pub struct Names {
    /// Paths of files and folders from the root.
    paths: HashSet<String>,
    /// Names that Rust sources declare or import.
    declared: HashSet<String>,
    /// Words of all sources outside comment lines.
    words: HashSet<String>,
}

impl Names {
    /// Reads the files of the repository, given from its root.
    ///
    /// # Errors
    /// Fails if a file cannot be read or parsed.
    pub fn read(files: &[&str]) -> Result<Names> {
        let mut names = Names::default();
        for file in files {
            names.add_path(file);
            let ending = file.rsplit('.').next().unwrap_or_default();
            if SOURCES.contains(&ending) || *file == "x" {
                let bytes = fs::read(shell::root().join(file))?;
                names.add_source(file, &String::from_utf8_lossy(&bytes))?;
            }
        }
        Ok(names)
    }

    /// The names of files with these texts.
    #[cfg(test)]
    pub fn of(files: &[(&str, &str)]) -> Names {
        let mut names = Names::default();
        for (file, text) in files {
            names.add_path(file);
            names.add_source(file, text).expect("it parses");
        }
        names
    }

    fn add_path(&mut self, file: &str) {
        let ends = file.match_indices('/').map(|(at, _)| at).chain([file.len()]);
        self.paths.extend(ends.map(|end| file[..end].to_owned()));
        // A crate or module goes by the name of its folder, and a test by that of its file.
        for part in file.split('/') {
            let stem = part.split('.').next().unwrap_or_default().replace('-', "_");
            self.declared.insert(stem.clone());
            self.words.insert(stem);
        }
    }

    fn add_source(&mut self, file: &str, text: &str) -> Result<()> {
        let is_rust = file.ends_with(".rs");
        let code = text.lines().filter(|line| !is_rust || !line.trim_start().starts_with("//"));
        for line in code {
            self.words.extend(words(line).map(str::to_owned));
        }
        if is_rust {
            let parsed = syn::parse_file(text).with_context(|| format!("parsing {file}"))?;
            Declarations(&mut self.declared).visit_file(&parsed);
        }
        Ok(())
    }

    /// Whether a path is one of the repository's, seen from the root or from any folder. A part in capitals stands
    /// for any name.
    pub fn has_path(&self, path: &str) -> bool {
        let parts: Vec<&str> = path.trim_end_matches('/').split('/').collect();
        let fits = |pattern: &str, name: &str| match pattern.split_once('.') {
            _ if pattern == name => true,
            Some((stem, ending)) => is_placeholder(stem) && name.ends_with(&format!(".{ending}")),
            None => is_placeholder(pattern),
        };
        let is_it = |known: &String| {
            let known: Vec<&str> = known.rsplit('/').collect();
            known.len() >= parts.len()
                && parts.iter().rev().zip(&known).all(|(pattern, name)| fits(pattern, name))
        };
        MADE.contains(&parts[0]) || self.paths.iter().any(is_it)
    }

    /// Whether each part of a path of Rust is declared somewhere.
    pub fn has_rust_path(&self, path: &str) -> bool {
        let parts: Vec<&str> = path.trim_end_matches("()").split("::").collect();
        OUTSIDE.contains(&parts[0])
            || parts.iter().all(|part| *part == "crate" || self.is_declared(part))
    }

    fn is_declared(&self, name: &str) -> bool {
        self.declared.contains(name)
    }

    /// Whether the sources have each word of a span.
    pub fn has_words(&self, span: &str) -> bool {
        words(span).all(|word| self.words.contains(word))
    }
}

fn is_placeholder(part: &str) -> bool {
    !part.is_empty() && part.chars().all(|one| one.is_ascii_uppercase())
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|one: char| !one.is_ascii_alphanumeric() && one != '_')
        .filter(|word| !word.is_empty())
}

/// Collects the names that a file declares or imports, and those in macros, which may declare them.
struct Declarations<'a>(&'a mut HashSet<String>);

impl<'ast> Visit<'ast> for Declarations<'_> {
    fn visit_ident(&mut self, name: &'ast proc_macro2::Ident) {
        self.0.insert(name.to_string());
    }
    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.0.extend(words(&call.tokens.to_string()).map(str::to_owned));
    }
    // An expression only uses names.
    fn visit_expr(&mut self, _: &'ast syn::Expr) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_judged_by_its_form() {
        for (span, expected) in [
            ("libs/pci/", Some(Kind::Path)),
            ("lib.rs", Some(Kind::Path)),
            ("/proc/self", None),
            ("a::B", Some(Kind::RustPath)),
            ("PciAddress", Some(Kind::Words)),
            ("find_all", Some(Kind::Words)),
            ("find()", Some(Kind::Words)),
            ("find", None),
            ("EINVAL", None),
            ("a sentence", None),
            ("vm.swappiness", Some(Kind::Words)),
            ("0.25", None),
            ("Who?", None),
        ] {
            assert_eq!(kind(span), expected, "{span}");
        }
    }
}

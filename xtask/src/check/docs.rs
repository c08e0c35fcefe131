//! Names in the pages that the code no longer has: files, items of Rust, commands and options of `./x`.
//!
//! A page is a Markdown file of the repository. The check reads its code spans, its code blocks and its links. It judges a
//! span by its form: a path, a path of Rust, a type's name, a function's name, a command. A span of another form is prose.
mod commands;
mod markdown;
mod names;

use anyhow::Result;
use commands::Commands;
use harness::shell;
use markdown::{Form, Place};
use names::Names;
use std::{fs, path::Path};

/// Names that pages use and the code has no place for, each with the reason.
const ALLOWED: [(&str, &str); 12] = [
    ("task/TID/children", "a file under /proc/PID"),
    ("hvm_start_info", "a structure of Xen's boot protocol"),
    ("ext4_has_free_clusters", "a function of Linux"),
    ("rw_verify_area", "a function of Linux"),
    ("cred_guard_mutex", "a lock of Linux"),
    ("exec_update_lock", "a lock of Linux"),
    ("clear_refs", "a file of /proc that is not there"),
    ("n_tty", "a line discipline of Linux"),
    ("NAMEClient", "generated: NAME is an interface's"),
    ("NAMEServer", "generated: NAME is an interface's"),
    ("NAMEHandle", "generated: NAME is an interface's"),
    ("vm.memfd_noexec", "a setting of Linux that is not there"),
];
/// The page whose call names a host test compares with the call table. Most of them have no code.
const TABLE_OF_CALLS: &str = "docs/syscalls.md";

/// Adds a fault for each name in a page that nothing has.
///
/// # Errors
/// Fails if a file cannot be read or parsed.
pub fn check(faults: &mut Vec<String>) -> Result<()> {
    let listed = shell::git(&["ls-files", "--cached", "--others", "--exclude-standard"]);
    let files: Vec<&str> = listed.iter().flat_map(|text| text.lines()).collect();
    let files: Vec<&str> =
        files.into_iter().filter(|file| shell::root().join(file).exists()).collect();
    let judge = Judge { names: Names::read(&files)?, commands: Commands::of_x() };
    for page in files.iter().filter(|file| file.ends_with(".md")) {
        let text = fs::read_to_string(shell::root().join(page))?;
        judge.page(page, &text, faults);
    }
    Ok(())
}

/// Everything that a page may name.
struct Judge {
    names: Names,
    commands: Commands,
}

impl Judge {
    fn page(&self, page: &str, text: &str, faults: &mut Vec<String>) {
        for Place { line, text, form } in markdown::places(text) {
            let stale = match form {
                Form::Span => self.span(page, &text),
                Form::Block => self.commands.fault(&text),
                Form::Link => self.link(page, &text),
            };
            faults.extend(stale.map(|what| format!("{page}:{line}: {what}")));
        }
    }

    /// The fault of a code span, if any.
    fn span(&self, page: &str, span: &str) -> Option<String> {
        if ALLOWED.iter().any(|(name, _)| *name == span) {
            return None;
        }
        if span.starts_with("./x ") {
            return self.commands.fault(span);
        }
        if span
            .strip_prefix("--")
            .is_some_and(|it| it.starts_with(|one: char| one.is_ascii_lowercase()))
        {
            return self.commands.option_fault(span);
        }
        let is_known = match names::kind(span)? {
            names::Kind::Path => self.names.has_path(span),
            names::Kind::RustPath => self.names.has_rust_path(span),
            names::Kind::Words if page == TABLE_OF_CALLS => true,
            names::Kind::Words => self.names.has_words(span),
        };
        (!is_known).then(|| format!("`{span}` is nowhere in the code"))
    }

    /// The fault of a link's target, if any.
    fn link(&self, page: &str, target: &str) -> Option<String> {
        let target = target.split('#').next().unwrap_or_default();
        if target.is_empty() || target.contains("://") {
            return None;
        }
        let folder = Path::new(page).parent().unwrap_or(Path::new(""));
        (!shell::root().join(folder).join(target).exists())
            .then(|| format!("the link to `{target}` leads nowhere"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(text: &str) -> Vec<String> {
        let names = Names::of(&[
            ("libs/pci/src/lib.rs", "pub struct PciAddress(pub u16);\nfn find_all() {}"),
            ("systems/default.toml", "can_use_dma = true"),
            ("docs/user.md", ""),
        ]);
        let judge = Judge { names, commands: Commands::of_x() };
        let mut faults = Vec::new();
        judge.page("docs/a.md", text, &mut faults);
        faults
    }

    #[test]
    fn names_that_are_there_are_no_faults() {
        let good = "`libs/pci/`, `pci/src/lib.rs`, `systems/NAME.toml`, `PciAddress`, `find_all()`, \
            `can_use_dma`, `pci::PciAddress`, `std::fs::File`, `/proc/self/no_such_file`, `build/x.log`, \
            `./x test FILTER --suite host,abi`, `--snapshot`, `a word`, `read`";
        assert_eq!(faults(good), Vec::<String>::new());
    }

    #[test]
    fn each_kind_of_stale_name_is_found() {
        for stale in [
            "`libs/pcie/`",
            "`pci/src/main.rs`",
            "`gone.md`",
            "`PciFunction`",
            "`find_none()`",
            "`can_use_irq`",
            "`address.can_use_irq`",
            "`pci::find_none`",
            "`./x tset`",
            "`./x test --quick`",
            "`./x test --suite hots`",
            "`./x campaign forks|lops`",
            "`--no-snapshot`",
            "```\n./x booot\n```",
            "[a page](gone.md)",
            "{{#include ../gone.md}}",
        ] {
            assert_eq!(faults(&format!("One line.\n\n{stale}")).len(), 1, "{stale}");
        }
    }

    #[test]
    fn a_fault_names_page_and_line() {
        assert!(faults("One.\nAnd `gone.rs`.")[0].starts_with("docs/a.md:2: `gone.rs`"));
    }
}

//! The tables of operations in the docs, and their comparison with the rows of the tests.
use crate::{Row, rule::LEFT_OUT};
use std::collections::BTreeSet;

const PAGES: [(&str, &str); 5] = [
    ("mls.md", include_str!("../../../../docs/mls.md")),
    ("mls-processes.md", include_str!("../../../../docs/mls-processes.md")),
    ("mls-network.md", include_str!("../../../../docs/mls-network.md")),
    ("mls-interfaces.md", include_str!("../../../../docs/mls-interfaces.md")),
    ("mls-trusted-path.md", include_str!("../../../../docs/mls-trusted-path.md")),
];

/// A row of a table of operations.
struct Documented {
    operation: String,
    access: String,
    error: String,
}

/// Returns the rows of all tables whose first column is `operation`.
fn documented() -> Vec<Documented> {
    let mut found = Vec::new();
    for (page, text) in PAGES {
        let before = found.len();
        let mut is_within = false;
        for line in text.lines() {
            let cells = line.strip_prefix('|').and_then(|line| line.strip_suffix('|'));
            let cells = cells.map(|line| line.split('|').map(str::trim).collect());
            let cells: Vec<&str> = cells.unwrap_or_default();
            match cells[..] {
                ["operation", ..] => is_within = true,
                [first, ..] if first.starts_with("---") => {}
                [operation, access, _, error] if is_within => found.push(Documented {
                    operation: operation.into(),
                    access: access.to_lowercase(),
                    error: error.into(),
                }),
                [] => is_within = is_within && line.starts_with('|'),
                _ => assert!(!is_within, "{page}: {line}"),
            }
        }
        let has_table = page != "mls-trusted-path.md";
        assert_eq!(found.len() > before, has_table, "{page}: the rows of operations");
    }
    found
}

fn error_name(error: i32) -> &'static str {
    match error {
        libc::EACCES => "EACCES",
        libc::EPERM => "EPERM",
        libc::ENOENT => "ENOENT",
        libc::ESRCH => "ESRCH",
        libc::EINVAL => "EINVAL",
        libc::EBUSY => "EBUSY",
        libc::ECONNREFUSED => "ECONNREFUSED",
        other => panic!("error {other} has no name here"),
    }
}

/// The words of the docs for a refusal without an error.
const LEFT_OUT_WORDS: [&str; 8] = [
    "left out",
    "not seen",
    "as if",
    "another object is made",
    "is free",
    "empty",
    "see below",
    "`/dev/null`",
];

fn tells(errors: &str, error: i32) -> bool {
    match error {
        LEFT_OUT => LEFT_OUT_WORDS.iter().any(|word| errors.contains(word)),
        error => errors.contains(error_name(error)),
    }
}

/// Compares the tables with rows of tests.
///
/// # Panics
/// Panics if an operation has no row, a row no operation, or rule or errors are not those of the docs.
pub fn compare(rows: Vec<Row>) {
    let documented = documented();
    let operations: BTreeSet<&str> = documented.iter().map(|one| one.operation.as_str()).collect();
    assert_eq!(operations.len(), documented.len(), "an operation has two rows");
    let tested: BTreeSet<&str> = rows.iter().map(|row| row.doc).collect();
    let mut faults: Vec<String> = Vec::new();
    faults
        .extend(operations.difference(&tested).map(|name| format!("no test has the row `{name}`")));
    faults
        .extend(tested.difference(&operations).map(|name| format!("no page has the row `{name}`")));
    for row in &rows {
        let Some(found) = documented.iter().find(|one| one.operation == row.doc) else { continue };
        let (access, name) = (&found.access, format!("{} ({})", row.doc, row.name));
        for words in row.rule.words() {
            if !words.iter().any(|word| access.contains(word)) {
                faults.push(format!("{name}: `{access}` has none of {words:?}"));
            }
        }
        for error in row.errors.list() {
            if !tells(&format!("{access} {}", found.error), error) {
                faults.push(format!("{name}: `{}` does not tell {error}", found.error));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

//! Checks doc comments: finds those that open with a clause that only their author can parse, and prints a sample of all
//! for reading.
//!
//! A comment that begins with "What" or "Where" and is not a question has no subject at its start: its reader learns only
//! at the end of the sentence which thing it describes.
use super::Crate;
use anyhow::Result;
use harness::{random::Random, shell};
use std::fs;

/// First words of a clause without a subject.
const HEADLESS: [&str; 6] = ["Who", "What", "Whose", "Where", "That", "How"];

/// A doc comment and the line on which it begins.
#[derive(Debug, PartialEq, Eq)]
struct Comment<'t> {
    line: usize,
    lines: Vec<&'t str>,
}

impl Comment<'_> {
    /// Returns whether its first sentence opens with a headless clause.
    fn is_headless(&self) -> bool {
        let text = self.lines.join(" ");
        let sentence = text.split_inclusive(['.', '?', ':', ';']).next().unwrap_or_default();
        let first = text.split_whitespace().next().unwrap_or_default();
        HEADLESS.contains(&first) && !sentence.ends_with('?')
    }
}

/// Returns the doc comments of a file, in order.
fn comments(text: &str) -> Vec<Comment<'_>> {
    let mut all: Vec<Comment<'_>> = Vec::new();
    let mut is_inside = false;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim_start();
        let told = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
        match (told, all.last_mut().filter(|_| is_inside)) {
            (Some(told), Some(comment)) => comment.lines.push(told.trim()),
            (Some(told), None) => all.push(Comment { line: index + 1, lines: vec![told.trim()] }),
            (None, _) => {}
        }
        is_inside = told.is_some();
    }
    all
}

/// Adds a fault for each doc comment of a file that opens with a headless clause.
pub fn check(name: &str, text: &str, faults: &mut Vec<String>) {
    for comment in comments(text).iter().filter(|comment| comment.is_headless()) {
        faults.push(format!(
            "{name}:{}: open `{}` with its subject, or ask a question",
            comment.line, comment.lines[0]
        ));
    }
}

/// Prints `count` doc comments of the workspace, drawn at random from `seed`.
///
/// # Errors
/// A file that cannot be read.
pub fn sample(crates: &[Crate], count: usize, seed: u64) -> Result<()> {
    let files = crates.iter().flat_map(|one| &one.files);
    let texts: Vec<_> =
        files.map(|path| Ok((path, fs::read_to_string(path)?))).collect::<Result<_>>()?;
    let all: Vec<_> = texts
        .iter()
        .flat_map(|(path, text)| comments(text).into_iter().map(move |comment| (path, comment)))
        .collect();
    for index in drawn(all.len(), count, seed) {
        let (path, comment) = &all[index];
        println!("{}:{}\n    {}\n", shell::name(path), comment.line, comment.lines.join("\n    "));
    }
    Ok(())
}

/// Returns `count` different numbers below `length`, or all.
fn drawn(length: usize, count: usize, seed: u64) -> Vec<usize> {
    let mut left: Vec<usize> = (0..length).collect();
    let mut random = Random::new(seed);
    (0..count.min(length)).map(|_| left.swap_remove(random.below(left.len()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_headless(text: &str) -> bool {
        comments(text).iter().any(Comment::is_headless)
    }

    #[test]
    fn a_clause_without_a_subject_is_found() {
        assert!(is_headless("/// What the device has.\nstruct A;"));
        assert!(is_headless("fn f() {}\n    /// Where it stands: here.\n    fn g() {}"));
        assert!(is_headless("//! How it ends."));
        assert!(!is_headless("/// Bytes of the device.\n/// What follows is more.\nstruct A;"));
        assert!(!is_headless("/// What does it cost? Little."));
        assert!(!is_headless("// What is no doc comment.\nlet whatever = 1;"));
    }

    #[test]
    fn comments_begin_where_they_are() {
        let text = "//! One.\n//! More.\n\n/// Two.\nstruct A;\n/// Three.\nstruct B;";
        let lines: Vec<_> = comments(text).iter().map(|one| (one.line, one.lines.len())).collect();
        assert_eq!(lines, [(1, 2), (4, 1), (6, 1)]);
    }

    #[test]
    fn a_sample_is_drawn_again_from_its_seed() {
        let one = drawn(1000, 50, 7);
        assert_eq!((one.len(), &one), (50, &drawn(1000, 50, 7)));
        assert_ne!(one, drawn(1000, 50, 8));
        let mut sorted = drawn(20, 50, 7);
        sorted.sort_unstable();
        assert_eq!(sorted, (0..20).collect::<Vec<_>>(), "each once");
    }
}

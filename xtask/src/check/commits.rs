//! Titles and bodies of commits: a title is read in lists, a body says why a change of some size was made.
use harness::shell;

/// Commits before this one are not held to the rules.
const SINCE: &str = "2026-11-25T21:00:00Z";
/// Greatest length of a title.
const TITLE_CHARACTERS: usize = 72;
/// Changed lines from which on a commit has a body.
const CHANGED_LINES: usize = 50;
/// Bytes by which git separates commits and their fields in the output.
const COMMIT: char = '\u{1}';
const FIELD: char = '\u{2}';

/// Adds a fault for each commit that breaks a rule. Without a repository there are no commits.
pub fn check(faults: &mut Vec<String>) {
    let format = format!("--format={COMMIT}%h{FIELD}%s{FIELD}%b{FIELD}");
    let log = shell::git(&["log", "--numstat", "--no-merges", "--since", SINCE, &format]);
    faults.extend(log.unwrap_or_default().split(COMMIT).filter_map(fault));
}

/// Returns the rule that a commit breaks, if any. Its fields are its hash, its title, its body, and its changes
/// by file.
fn fault(commit: &str) -> Option<String> {
    let mut fields = commit.split(FIELD);
    let (hash, title, body, files) =
        (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
    let characters = title.chars().count();
    if characters > TITLE_CHARACTERS {
        return Some(format!(
            "commit {hash}: its title has {characters} characters, at most {TITLE_CHARACTERS}"
        ));
    }
    let changed: usize =
        files.split_whitespace().filter_map(|word| word.parse::<usize>().ok()).sum();
    let has_body = !body.trim().is_empty();
    (changed > CHANGED_LINES && !has_body)
        .then(|| format!("commit {hash}: it changes {changed} lines, so its body says why"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commit(title: &str, body: &str, files: &str) -> Option<String> {
        fault(&format!("1234567{FIELD}{title}{FIELD}{body}{FIELD}\n\n{files}\n"))
    }

    #[test]
    fn a_long_title_and_an_absent_body_are_faults() {
        assert_eq!(commit("area: do it", "", "30\t20\tsrc/a.rs"), None);
        assert_eq!(commit("area: do it", "Because.", "300\t20\tsrc/a.rs\n-\t-\tb.png"), None);
        assert!(commit("area: do it", "\n", "30\t20\tsrc/a.rs\n1\t0\tb.rs").is_some());
        assert!(commit(&"x".repeat(73), "Because.", "1\t0\tb.rs").is_some());
        assert_eq!(commit(&"x".repeat(72), "Because.", "1\t0\tb.rs"), None);
    }
}

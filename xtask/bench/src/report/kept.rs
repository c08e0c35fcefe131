//! The parts of the recorded page that a bench of some suites leaves as they are.
use std::fmt::Write;

/// Titles of the tables that are no chapter, and the suites that they belong to.
const TABLES: [(&str, &str); 5] = [
    ("KSOS-32", "ksos"),
    ("Mach/4.3BSD", "mach"),
    ("How much sooner", "mach"),
    ("Locks missed", "mach"),
    ("386BSD", "net"),
];
/// Titles of the sections that hold lines of all suites.
const OF_ISOLATION: &str = "What isolation costs";
const OF_LOSERS: &str = "Rows above";

/// A section: its title, and the lines below it.
type Section = (String, String);

/// Returns the page `new` of a bench of some suites with what `old` says of the others.
pub fn with_kept(new: &str, old: &str) -> String {
    let (head, new) = sections(new);
    let suites: Vec<&str> = new.iter().filter_map(|(title, _)| suite(title)).collect();
    let is_measured = |title: &str| suite(title).is_some_and(|suite| suites.contains(&suite));
    let mut merged: Vec<Section> = Vec::new();
    for (title, body) in sections(old).1 {
        let fresh = new.iter().find(|(other, _)| *other == title);
        match fresh {
            Some((_, fresh)) if title.starts_with(OF_ISOLATION) => {
                merged.push((title, with_rows(fresh, &body, is_measured)));
            }
            Some((_, fresh)) if title.starts_with(OF_LOSERS) => {
                merged.push((title, with_losers(fresh, &body, is_measured)));
            }
            Some((_, fresh)) => merged.push((title, fresh.clone())),
            None if is_measured(&title) => {}
            None => merged.push((title, body)),
        }
    }
    for (at, (title, body)) in new.iter().enumerate() {
        if merged.iter().all(|(other, _)| other != title) {
            // Behind the section that stands before it on the new page.
            let before = at.checked_sub(1).and_then(|before| new.get(before));
            let place =
                before.and_then(|(before, _)| merged.iter().position(|one| one.0 == *before));
            merged.insert(place.map_or(0, |place| place + 1), (title.clone(), body.clone()));
        }
    }
    merged.iter().fold(head, |mut text, (title, body)| {
        let _ = write!(text, "## {title}\n{body}");
        text
    })
}

/// Returns what stands before the first section, and the sections.
fn sections(page: &str) -> (String, Vec<Section>) {
    let (mut head, mut sections) = (String::new(), Vec::<Section>::new());
    for line in page.split_inclusive('\n') {
        match (line.strip_prefix("## "), sections.last_mut()) {
            (Some(title), _) => sections.push((title.trim_end().to_owned(), String::new())),
            (None, Some((_, body))) => body.push_str(line),
            (None, None) => head.push_str(line),
        }
    }
    // Sections have one empty line between them, wherever they come to stand.
    for (_, body) in &mut sections {
        body.truncate(body.trim_end().len());
        body.push_str("\n\n");
    }
    if let Some((_, body)) = sections.last_mut() {
        body.pop();
    }
    (head, sections)
}

/// Returns the suite of a section, or of what a list says of a row: `micro: executed instructions, 1 processors`.
fn suite(title: &str) -> Option<&str> {
    let of_table = TABLES.iter().find(|(start, _)| title.starts_with(start));
    of_table.map(|(_, suite)| *suite).or_else(|| Some(title.split_once(": ")?.0))
}

/// Returns a table with the rows of `old` that were not measured, behind those of `new`.
fn with_rows(new: &str, old: &str, is_measured: impl Fn(&str) -> bool) -> String {
    let kept = old.lines().filter(|line| {
        let row = line.strip_prefix("| ").and_then(|row| row.split(" | ").next());
        row.is_some_and(|row| row.contains(": ") && !is_measured(row))
    });
    let kept: String = kept.map(|line| format!("{line}\n")).collect();
    format!("{}\n{kept}\n", new.trim_end())
}

/// Returns the lists of lost rows with those of `old` that were not measured. Rows of one cause stand together.
fn with_losers(new: &str, old: &str, is_measured: impl Fn(&str) -> bool) -> String {
    let mut causes: Vec<(String, Vec<String>)> = groups(new);
    for (cause, rows) in groups(old) {
        let is_kept = |row: &String| {
            let of = row.split_once("** (").map_or("", |(_, of)| of);
            let of = if of.starts_with("misses of a lock") { "Locks missed" } else { of };
            !is_measured(of)
        };
        let kept: Vec<String> = rows.into_iter().filter(is_kept).collect();
        match causes.iter_mut().find(|(other, _)| *other == cause) {
            Some((_, rows)) => rows.extend(kept),
            None if kept.is_empty() => {}
            None => causes.push((cause, kept)),
        }
    }
    let mut text = String::from(if causes.is_empty() { "\nNone.\n" } else { "" });
    for (cause, rows) in causes {
        let _ = writeln!(text, "\n{cause}\n\n{}", rows.join("\n"));
    }
    text
}

/// Returns the paragraphs of a section, each with the list below it.
fn groups(body: &str) -> Vec<(String, Vec<String>)> {
    let mut groups: Vec<(String, Vec<String>)> = Vec::new();
    for line in body.lines().filter(|line| !line.is_empty() && *line != "None.") {
        match (line.starts_with("- "), groups.last_mut()) {
            (true, Some((_, rows))) => rows.push(line.to_owned()),
            _ => groups.push((line.to_owned(), Vec::new())),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "# Page\n\nOld.\n
## ksos: ns, 1 processors

| prime | 1 |

## mach: ns, 1 processors

| users by 1 | 1 |

## KSOS-32, Table 1

| a |

## Mach/4.3BSD, users

| b |

## What isolation costs: default, of monolith

| suite | most |
|---|---:|
| ksos: ns, 1 processors | 1 |
| mach: ns, 1 processors | 2 |

## Rows above what they are to be

Slow.

- **prime** (ksos: ns, 1 processors): 2
- **users by 1** (mach: ns, 1 processors): 2

Slower.

- **a.lock** (misses of a lock): 5
";

    const NEW: &str = "# Page\n\nNew.\n
## net: ns, 1 processors

| TCP | 1 |

## mach: ns, 1 processors

| users by 1 | 7 |

## What isolation costs: default, of monolith

| suite | most |
|---|---:|
| net: ns, 1 processors | 3 |

## Rows above what they are to be

Slow.

- **TCP** (net: ns, 1 processors): 3
";

    const BOTH: &str = "# Page\n\nNew.\n
## net: ns, 1 processors

| TCP | 1 |

## ksos: ns, 1 processors

| prime | 1 |

## mach: ns, 1 processors

| users by 1 | 7 |

## KSOS-32, Table 1

| a |

## What isolation costs: default, of monolith

| suite | most |
|---|---:|
| net: ns, 1 processors | 3 |
| ksos: ns, 1 processors | 1 |

## Rows above what they are to be

Slow.

- **TCP** (net: ns, 1 processors): 3
- **prime** (ksos: ns, 1 processors): 2
";

    #[test]
    fn a_bench_of_some_suites_keeps_the_others() {
        assert_eq!(with_kept(NEW, OLD), BOTH);
        assert_eq!(with_kept(BOTH, OLD), BOTH);
        assert_eq!(with_kept(NEW, ""), NEW);
    }
}

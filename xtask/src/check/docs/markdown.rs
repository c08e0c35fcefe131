//! The places of a Markdown page that hold names: code spans, lines of code blocks, targets of links.

/// The form of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Text between backticks.
    Span,
    /// A line of a code block.
    Block,
    /// The target of a link, or the file that mdBook includes.
    Link,
}

/// A place and the line on which it begins, from 1.
#[derive(Debug, PartialEq, Eq)]
pub struct Place {
    pub line: usize,
    pub text: String,
    pub form: Form,
}

/// The places of a page.
pub fn places(text: &str) -> Vec<Place> {
    let mut found = Vec::new();
    let (mut paragraph, mut starts_at, mut is_block) = (String::new(), 1, false);
    for (index, line) in text.lines().enumerate() {
        let is_fence = line.trim_start().starts_with("```");
        if is_fence || is_block || line.trim().is_empty() {
            prose(&paragraph, starts_at, &mut found);
            paragraph.clear();
            starts_at = index + 2;
            if is_block && !is_fence {
                found.push(Place { line: index + 1, text: line.trim().into(), form: Form::Block });
            }
            is_block ^= is_fence;
        } else {
            paragraph.push_str(line);
            paragraph.push('\n');
        }
    }
    prose(&paragraph, starts_at, &mut found);
    found
}

/// The spans and links of a paragraph that starts on a line.
fn prose(text: &str, starts_at: usize, found: &mut Vec<Place>) {
    let mut place = |at: usize, inner: &str, form| {
        let line = starts_at + text[..at].matches('\n').count();
        let inner = inner.replace('\n', " ").replace("\\|", "|");
        found.push(Place { line, text: inner.trim().to_owned(), form });
    };
    let mut at = 0;
    while let Some(next) = text[at..].find(['`', ']', '{']) {
        at += next;
        let rest = &text[at..];
        let ticks = rest.len() - rest.trim_start_matches('`').len();
        if ticks > 0 {
            let inner = &rest[ticks..];
            match inner.find(&rest[..ticks]) {
                Some(end) => {
                    place(at, &inner[..end], Form::Span);
                    at += 2 * ticks + end;
                }
                None => at += ticks,
            }
            continue;
        }
        if let Some((target, _)) = rest.strip_prefix("](").and_then(|inner| inner.split_once(')')) {
            place(at, target, Form::Link);
        }
        if let Some((target, _)) =
            rest.strip_prefix("{{#include ").and_then(|it| it.split_once("}}"))
        {
            place(at, target, Form::Link);
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_blocks_and_links_are_found_where_they_begin() {
        let text = "A `b` and\n`c\nd`, [e](f.md#g).\n\n```sh\n./x run\n```\n| `h\\|i` |";
        let found = places(text);
        let seen: Vec<_> = found.iter().map(|it| (it.line, it.text.as_str(), it.form)).collect();
        assert_eq!(
            seen,
            [
                (1, "b", Form::Span),
                (2, "c d", Form::Span),
                (3, "f.md#g", Form::Link),
                (6, "./x run", Form::Block),
                (8, "h|i", Form::Span),
            ]
        );
    }
}

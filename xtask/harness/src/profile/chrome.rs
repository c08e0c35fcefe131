//! Entries and exits as a trace for Perfetto and chrome://tracing: a row a stack, an instruction a microsecond.
//! Source: Google's "Trace Event Format".
use super::calls::{Event, USER};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
};

/// Formats the trace as JSON.
pub fn text(events: &[Event]) -> String {
    let mut lines = Vec::new();
    let is_user = |event: &&Event| event.entered.as_deref() == Some(USER);
    let user: BTreeSet<u32> = events.iter().filter(is_user).map(|event| event.stack).collect();
    let stacks: BTreeSet<u32> = events.iter().map(|event| event.stack).collect();
    for stack in stacks {
        let name = if user.contains(&stack) { "processor in user mode" } else { "kernel stack" };
        lines.push(format!(
            r#"{{"ph":"M","pid":1,"tid":{stack},"name":"thread_name","args":{{"name":"{name}"}}}}"#
        ));
    }
    let mut depths: BTreeMap<u32, u32> = BTreeMap::new();
    for Event { stack, clock, entered, .. } in events {
        let depth = depths.entry(*stack).or_default();
        match entered {
            Some(name) => {
                *depth += 1;
                let name = escaped(name);
                lines.push(format!(
                    r#"{{"ph":"B","pid":1,"tid":{stack},"ts":{clock},"name":"{name}"}}"#
                ));
            }
            // A function that was entered before the list began.
            None if *depth == 0 => {}
            None => {
                *depth -= 1;
                lines.push(format!(r#"{{"ph":"E","pid":1,"tid":{stack},"ts":{clock}}}"#));
            }
        }
    }
    format!("{{\"traceEvents\":[\n{}\n]}}\n", lines.join(",\n"))
}

/// Escapes text for a string in JSON.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for character in text.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            character if character < ' ' => {
                let _ = write!(out, "\\u{:04x}", u32::from(character));
            }
            character => out.push(character),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_entered_is_left() {
        let event = |clock, entered: Option<&str>| Event {
            stack: 7,
            clock,
            own: 0,
            entered: entered.map(str::to_owned),
        };
        let text = text(&[event(1, None), event(2, Some("<a \"b\">")), event(5, None)]);
        assert_eq!(text.matches(r#""ph":"E""#).count(), 1);
        assert!(text.contains(r#"{"ph":"B","pid":1,"tid":7,"ts":2,"name":"<a \"b\">"}"#));
        assert!(text.contains(r#""name":"kernel stack""#) && text.ends_with("\n]}\n"));
    }
}

//! The path of calls: each entry with its caller and its time, in instructions.
use super::calls::Event;
use std::{collections::BTreeMap, fmt::Write};

/// A call in the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call<'a> {
    /// Number of the stack.
    pub stack: u32,
    /// Listed calls that led to it.
    pub depth: usize,
    /// Name of the function.
    pub name: &'a str,
    /// Instructions of its processor until it was entered.
    pub entered: u64,
    /// Instruction at which it was left, if it was.
    pub left: Option<u64>,
    /// Instructions of the stack in the meantime: its own and those of the functions that it called.
    pub elapsed: u64,
    /// Its own instructions alone.
    pub net: u64,
}

/// Returns the calls in the list, in the order of their entries. Calls that were entered before the list began are left out.
pub fn calls(events: &[Event]) -> Vec<Call<'_>> {
    let mut calls: Vec<Call<'_>> = Vec::new();
    // By stack, the calls under way, each with the stack's instructions at its entry.
    let mut open: BTreeMap<u32, Vec<(usize, u64)>> = BTreeMap::new();
    for event in events {
        let under_way = open.entry(event.stack).or_default();
        match &event.entered {
            Some(name) => {
                let Event { stack, clock: entered, own, .. } = *event;
                under_way.push((calls.len(), own));
                let depth = under_way.len() - 1;
                calls.push(Call { stack, depth, name, entered, left: None, elapsed: 0, net: 0 });
            }
            None => {
                if let Some((index, since)) = under_way.pop() {
                    let elapsed = event.own - since;
                    let call = &mut calls[index];
                    call.left = Some(event.clock);
                    call.elapsed = elapsed;
                    // The instructions of its callees were subtracted already.
                    call.net = call.net.wrapping_add(elapsed);
                    if let Some((caller, _)) = under_way.last() {
                        calls[*caller].net = calls[*caller].net.wrapping_sub(elapsed);
                    }
                }
            }
        }
    }
    // A call that is still under way has no net number.
    calls.iter_mut().filter(|call| call.left.is_none()).for_each(|call| call.net = 0);
    calls
}

/// Returns the first call in the list, with all calls that it led to.
pub fn first(events: &[Event]) -> Vec<Call<'_>> {
    let calls = calls(events);
    let Some(stack) = calls.first().map(|call| call.stack) else { return calls };
    let mut calls: Vec<_> = calls.into_iter().filter(|call| call.stack == stack).collect();
    let next = calls.iter().skip(1).position(|call| call.depth == 0);
    calls.truncate(next.map_or(calls.len(), |position| position + 1));
    calls
}

/// Formats a line for each call: instructions at entry and exit from the first entry on, elapsed, net, stack, and the name
/// indented under its caller's.
pub fn text(calls: &[Call<'_>]) -> String {
    let mut text = format!(
        "{:>10}{:>11}{:>10}{:>10}{:>6}  path\n",
        "entered", "left", "elapsed", "net", "stack"
    );
    let start = calls.first().map_or(0, |call| call.entered);
    for Call { stack, depth, name, entered, left, elapsed, net } in calls {
        let entered = entered.wrapping_sub(start).cast_signed();
        let [left, elapsed, net] = match left {
            Some(left) => {
                [left.wrapping_sub(start), *elapsed, *net].map(|number| number.to_string())
            }
            None => ["-"; 3].map(str::to_owned),
        };
        let indent = "  ".repeat(*depth);
        let _ = writeln!(
            text,
            "{entered:>10}{left:>11}{elapsed:>10}{net:>10}{stack:>6}  {indent}{name}"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(stack: u32, clock: u64, own: u64, entered: &str) -> Event {
        let entered = (!entered.is_empty()).then(|| entered.to_owned());
        Event { stack, clock, own, entered }
    }

    /// Events of a call of `read`, which calls `copy` and sleeps in `wait` while another thread runs.
    fn events() -> Vec<Event> {
        vec![
            event(1, 95, 0, ""),
            event(1, 100, 5, "read"),
            event(1, 110, 15, "copy"),
            event(1, 130, 35, ""),
            event(1, 135, 40, "wait"),
            event(2, 140, 900, "other"),
            event(1, 190, 45, ""),
            event(1, 200, 55, ""),
            event(1, 210, 65, "read"),
        ]
    }

    #[test]
    fn calls_nest_by_stack_and_net_is_without_callees() {
        let events = events();
        let calls = calls(&events);
        let seen: Vec<_> = calls.iter().map(|c| (c.name, c.depth, c.elapsed, c.net)).collect();
        let read = ("read", 0, 50, 25);
        let others =
            [("copy", 1, 20, 20), ("wait", 1, 5, 5), ("other", 0, 0, 0), ("read", 0, 0, 0)];
        assert_eq!(seen[0], read);
        assert_eq!(seen[1..], others);
        assert_eq!((calls[0].entered, calls[0].left, calls[4].left), (100, Some(200), None));
    }

    #[test]
    fn the_first_call_is_shown_indented() {
        let events = events();
        let text = text(&first(&events));
        let lines: Vec<&str> = text.lines().skip(1).collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert!(lines[0].ends_with("     1  read") && lines[1].ends_with("     1    copy"));
        let words: Vec<&str> = lines[2].split_whitespace().collect();
        assert_eq!(words, ["35", "90", "5", "5", "1", "wait"]);
    }
}

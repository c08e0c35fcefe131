//! Runs a machine under the plugin that follows calls (`bench/plugin/calls.c`) and reads its output.
use super::{names::Names, path};
use crate::{
    guest::{self, Outcome},
    plugin,
    qemu::{self, Config},
    session::Streams,
};
use anyhow::{Context, Result, ensure};
use std::{collections::BTreeMap, fs, path::Path};

/// The timer's vector: `TIMER_VECTOR` of `nucleus/src/arch/x86_64/apic.rs`.
const TIMER: u32 = 0xef;
/// Functions that execute the session's first program, and that clean up after its end.
const SESSION: [&str; 2] = ["process::exec::replace::execute", "process::init::kill_all"];
const STUBS: &str = "skerry_stubs";
/// Instructions of programs and isolated components.
pub const USER: &str = "user mode";

/// The span of a run that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// From the start of the session's first program to the end of the last.
    Session,
    /// Between the marks of a program in the guest.
    Marks,
    /// Between the Nth pair of marks, from 1.
    Part(u32),
}

/// The request for a run.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The span in which calls count.
    pub span: Span,
    /// The functions whose calls are listed; empty for all.
    pub trace: Vec<u64>,
    /// The greatest number of entries and exits that are listed.
    pub events: u64,
    /// The latest end of the run.
    pub limit_seconds: Option<u64>,
}

/// A node of the call tree: a path of calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Index of the caller's path; `None` for the outermost.
    pub parent: Option<usize>,
    /// The last function of the path.
    pub name: String,
    /// Number of calls by this path.
    pub calls: u64,
    /// Instructions of the last function itself.
    pub net: u64,
    /// The greatest and the least number of instructions of a call, if one was seen whole.
    pub bounds: Option<(u64, u64)>,
}

/// A function was entered, or left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Number of the stack.
    pub stack: u32,
    /// Instructions that its processor had executed.
    pub clock: u64,
    /// Instructions of the stack in the kernel at that time.
    pub own: u64,
    /// The function that was entered; `None`: the last entered of the stack was left.
    pub entered: Option<String>,
}

/// The instructions that a run executed.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    /// The nodes; callers come before the functions they call.
    pub nodes: Vec<Node>,
    /// The first entries and exits.
    pub events: Vec<Event>,
    /// Instructions executed in the kernel.
    pub kernel: u64,
    /// Instructions executed in user mode.
    pub user: u64,
    /// Instructions in the kernel that disable or enable interrupts, or save or load the flags.
    pub masking: u64,
    /// Clock ticks: their number, their instructions, and those of the longest.
    pub ticks: [u64; 3],
}

/// Runs `command` as the session of `config`.
///
/// # Errors
/// Fails if the plugin or QEMU does not start, or nothing was counted.
pub fn follow(
    config: &Config,
    command: &str,
    streams: Streams,
    wanted: &Wanted,
) -> Result<(Outcome, Profile)> {
    let names = Names::of(&config.kernel)?;
    let out = path("calls.txt")?;
    let _ = fs::remove_file(&out);
    let mut config = config.clone();
    config.extra.extend(["-plugin".to_owned(), arguments(&names, wanted, &out)?]);
    let outcome = guest::execute(&config, command, streams, wanted.limit_seconds)?;
    let text = fs::read_to_string(&out).with_context(|| format!("reading {}", out.display()))?;
    let profile = Profile::of(&text, &names).with_context(|| format!("in {}", out.display()))?;
    let nothing = "nothing was counted: the command did not start, or made no marks";
    ensure!(profile.kernel + profile.user > 0, "{nothing} ({outcome})");
    Ok((outcome, profile))
}

/// Returns the value of QEMU's `-plugin`.
fn arguments(names: &Names, wanted: &Wanted, out: &Path) -> Result<String> {
    let list = path("functions.txt")?;
    let addresses: String = names.addresses().map(|address| format!("{address:x}\n")).collect();
    fs::write(&list, addresses)?;
    let mut text = qemu::escaped(&plugin::build("calls")?);
    for (name, file) in [("out", out), ("functions", &list)] {
        text += &format!(",{name}={}", qemu::escaped(file));
    }
    text += &format!(",stubs={:x},timer={TIMER}", names.address(STUBS)?);
    text += &format!(",events={}", wanted.events);
    match wanted.span {
        Span::Session => {
            let [begin, end] = SESSION.map(|name| names.address(name));
            text += &format!(",begin={:x},end={:x}", begin?, end?);
        }
        Span::Marks => {}
        Span::Part(number) => text += &format!(",part={number}"),
    }
    let traced = wanted.trace.iter().map(|address| format!(",trace={address:x}"));
    Ok(text + &traced.collect::<String>())
}

impl Profile {
    /// Parses the plugin's lines.
    fn of(text: &str, names: &Names) -> Result<Profile> {
        let mut profile = Profile::default();
        let mut indices = BTreeMap::new();
        for line in text.lines() {
            profile
                .take(line, names, &mut indices)
                .with_context(|| format!("what is {line:?}?"))?;
        }
        Ok(profile)
    }

    fn take(
        &mut self,
        line: &str,
        names: &Names,
        indices: &mut BTreeMap<u64, usize>,
    ) -> Option<()> {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| words.get(at)?.parse::<u64>().ok();
        match *words.first()? {
            sign @ ("+" | "-") => self.events.push(Event {
                stack: u32::try_from(number(1)?).ok()?,
                clock: number(2)?,
                own: number(3)?,
                entered: if sign == "+" { Some(name(words.get(4)?, names)?) } else { None },
            }),
            "total" => {
                [self.kernel, self.user, self.masking] = [number(1)?, number(2)?, number(3)?]
            }
            "ticks" => self.ticks = [number(1)?, number(2)?, number(3)?],
            "node" => {
                indices.insert(number(1)?, self.nodes.len());
                let returns = number(5)?;
                self.nodes.push(Node {
                    parent: indices.get(&number(2)?).copied(),
                    name: name(words.get(3)?, names)?,
                    calls: number(4)?,
                    net: number(6)?,
                    bounds: if returns > 0 { Some((number(7)?, number(8)?)) } else { None },
                });
            }
            _ => return None,
        }
        Some(())
    }

    /// Returns the number of calls of the functions named `name`.
    pub fn calls_of(&self, name: &str) -> u64 {
        self.nodes.iter().filter(|node| node.name == name).map(|node| node.calls).sum()
    }

    /// Visits the paths that have instructions of their own: names from the outermost, instructions.
    pub fn paths(&self, mut visit: impl FnMut(&[&str], u64)) {
        for node in self.nodes.iter().filter(|node| node.net > 0) {
            let mut names: Vec<&str> = self.callers(node).map(|node| &*node.name).collect();
            names.reverse();
            names.push(&node.name);
            visit(&names, node.net);
        }
    }

    /// Iterates over the paths that lead to `node`, innermost first.
    pub fn callers<'a>(&'a self, node: &'a Node) -> impl Iterator<Item = &'a Node> {
        let up = |node: &&Node| node.parent.map(|index| &self.nodes[index]);
        std::iter::successors(up(&node), up)
    }
}

/// Converts the plugin's word for a function to a name.
fn name(word: &str, names: &Names) -> Option<String> {
    if let Some(vector) = word.strip_prefix("interrupt-") {
        return Some(match vector.parse::<u32>().ok()? {
            TIMER => "interrupt: timer".to_owned(),
            14 => "exception: page fault".to_owned(),
            vector @ 0..32 => format!("exception {vector}"),
            vector => format!("interrupt {vector:#x}"),
        });
    }
    match word {
        "user" => Some(USER.to_owned()),
        "unknown" => Some("unknown".to_owned()),
        _ => {
            let address = u64::from_str_radix(word, 16).ok()?;
            Some(names.at(address).map_or_else(|| word.to_owned(), str::to_owned))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "+ 3 10 5 10\n- 3 12 7\ntotal 9 1 2\nticks 1 4 4\n\
        node 1 0 10 2 1 5 3 3\nnode 2 1 interrupt-239 1 0 4 0 0\nnode 3 0 user 1 1 1 1 1\n";

    #[test]
    fn what_the_plugin_wrote_is_read_with_names() {
        let names = Names::named([(0x10, "read")]);
        let profile = Profile::of(TEXT, &names).unwrap();
        assert_eq!((profile.kernel, profile.user, profile.masking), (9, 1, 2));
        assert_eq!(profile.events[0].entered.as_deref(), Some("read"));
        assert_eq!((profile.events[1].clock, profile.events[1].own), (12, 7));
        let mut paths = Vec::new();
        profile.paths(|names, net| paths.push((names.join(";"), net)));
        let expected = [("read", 5), ("read;interrupt: timer", 4), (USER, 1)];
        assert_eq!(paths, expected.map(|(names, net)| (names.to_owned(), net)));
        assert_eq!((profile.calls_of("read"), profile.nodes[1].bounds), (2, None));
        for bad in ["node 1 0 10 2", "what", "+ 3 x 5 10", "total 1 2"] {
            assert!(Profile::of(bad, &names).is_err(), "{bad}");
        }
    }
}

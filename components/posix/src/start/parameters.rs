//! The kernel parameters of the start. Unknown parameters are logged and, as on Linux, are passed as arguments and
//! environment to the program that `init=` names, as is all that follows the word `--`. Source: Linux `init/main.c`,
//! `unknown_bootoption`; `lib/cmdline.c`, `next_arg`.
use alloc::{string::String, vec::Vec};

/// Parameters of the personality, of the network stack, of the nucleus and of the runtime. A loader may add `BOOT_IMAGE`.
const KNOWN: [&str; 22] = [
    "BOOT_IMAGE",
    "audit.medium",
    "inet.netisrs",
    "init",
    "monitor.attention",
    "monitor.defcontext",
    "ro",
    "root",
    "rw",
    "skerry.columns",
    "skerry.console",
    "skerry.cpus",
    "skerry.exec",
    "skerry.exit_port",
    "skerry.log",
    "skerry.ports",
    "skerry.restarts",
    "skerry.rows",
    "skerry.shell",
    "skerry.term",
    "skerry.watchdog",
    "virtio_mmio.device",
];

/// Word after which all words belong to the first program.
const END: &str = "--";

/// Returns the words of `line`. Blanks between double quotes do not separate words, and the quotes are removed.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut is_quoted = false;
    for character in line.chars() {
        match character {
            '"' => is_quoted = !is_quoted,
            ' ' | '\t' | '\n' if !is_quoted => {
                if !word.is_empty() {
                    words.push(core::mem::take(&mut word));
                }
            }
            other => word.push(other),
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

fn name(word: &str) -> &str {
    word.split_once('=').map_or(word, |(name, _)| name)
}

fn is_known(word: &str) -> bool {
    KNOWN.contains(&name(word))
}

/// The words of the command line for the first program.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ForProgram {
    /// The program's arguments, without its name.
    pub arguments: Vec<String>,
    /// Additions to the program's environment, `NAME=VALUE`.
    pub environment: Vec<String>,
}

impl ForProgram {
    /// Parses `line`.
    pub fn of(line: &str) -> ForProgram {
        let mut given = ForProgram::default();
        let mut is_behind = false;
        for word in words(line) {
            // QEMU's microvm adds its transports at the end, even after other words.
            let is_transport = name(&word) == "virtio_mmio.device";
            let is_of_kernel = is_known(&word) || name(&word).contains('.');
            if is_behind && !is_transport {
                given.arguments.push(word);
            } else if word == END {
                is_behind = true;
            } else if is_transport || is_of_kernel {
                continue;
            } else if word.contains('=') {
                given.environment.push(word);
            } else {
                given.arguments.push(word);
            }
        }
        given
    }
}

/// Returns the words of `line` that are not a parameter of this kernel, without those after `--`.
fn unknown(line: &str) -> Vec<String> {
    let words = words(line).into_iter().take_while(|word| word != END);
    words.filter(|word| !is_known(word)).collect()
}

/// Logs unknown parameters.
pub fn report_unknown() {
    let unknown = unknown(rt::system::command_line());
    if !unknown.is_empty() {
        log::warn!("unknown kernel parameters: {}", unknown.join(" "));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    fn texts(words: &[&str]) -> Vec<String> {
        words.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn words_are_parted_by_blanks_outside_quotes() {
        assert_eq!(words("  a \"b c\"  d=\"e f\"g\n"), texts(&["a", "b c", "d=e fg"]));
        assert!(words(" \t").is_empty());
    }

    #[test]
    fn the_program_gets_what_nobody_knows_and_what_follows_the_dashes() {
        let line = "root=/dev/vda init=/sbin/init single A=1 x.y=2 skerry.rows=3 -- -c \"echo hi\" ro virtio_mmio.device=5";
        let given = ForProgram::of(line);
        assert_eq!(given.arguments, texts(&["single", "-c", "echo hi", "ro"]));
        assert_eq!(given.environment, texts(&["A=1"]));
    }

    #[test]
    fn a_wrong_name_is_unknown_and_what_follows_the_dashes_is_not_looked_at() {
        let line = "skerry.row=3 root=/dev/vda rw initt=/x quiet -- more";
        assert_eq!(unknown(line), texts(&["skerry.row=3", "initt=/x", "quiet"]));
    }
}

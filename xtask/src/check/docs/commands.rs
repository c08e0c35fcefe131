//! Commands and options of `./x`, as clap knows them.
use clap::{Arg, Command, CommandFactory};

/// The commands.
pub struct Commands(Command);

impl Commands {
    /// Those of `./x`.
    pub fn of_x() -> Commands {
        let mut command = crate::Arguments::command();
        command.build();
        Commands(command)
    }

    /// The fault of a line that calls `./x`, if any.
    pub fn fault(&self, line: &str) -> Option<String> {
        let mut words = unquoted(line.strip_prefix("./x ")?).into_iter().peekable();
        let mut command = &self.0;
        while let Some(word) = words.peek() {
            let next = command.find_subcommand(word);
            let has_commands = command.has_subcommands();
            match next {
                Some(next) => command = next,
                None if has_commands && !is_placeholder(word) && !word.starts_with('-') => {
                    return Some(format!("`./x` has no command `{word}`"));
                }
                None => break,
            }
            words.next();
        }
        let name = command.get_name();
        let mut positionals = command.get_positionals();
        while let Some(word) = words.next().filter(|word| word != "--" && !ends_command(word)) {
            let (argument, value) = if word.starts_with('-') {
                let (option, value) = split_option(&word);
                let Some(argument) = find_option(command, option) else {
                    return Some(format!("`./x {name}` has no option `{option}`"));
                };
                let takes_value = argument.get_action().takes_values() && value.is_none();
                (argument, if takes_value { words.next() } else { value })
            } else {
                let Some(argument) = positionals.next() else { continue };
                (argument, Some(word))
            };
            if let Some(bad) = value.and_then(|value| bad_value(argument, &value)) {
                return Some(format!("`./x {name}` does not know `{bad}`"));
            }
        }
        None
    }

    /// The fault of a span that begins with an option, if any: some command has it.
    pub fn option_fault(&self, span: &str) -> Option<String> {
        let words = unquoted(span);
        let option = split_option(words.first()?).0;
        let is_known = self.0.get_subcommands().any(|one| find_option(one, option).is_some());
        (!is_known && option != "--").then(|| format!("no command of `./x` has `{option}`"))
    }
}

/// Names in capitals, and dots, stand for something.
fn is_placeholder(word: &str) -> bool {
    !word.contains(|one: char| one.is_ascii_lowercase())
}

/// A shell's operators and comments, after which something else stands.
fn ends_command(word: &str) -> bool {
    matches!(word, "|" | "&&" | ";" | ">" | "2>&1" | "#")
}

fn split_option(word: &str) -> (&str, Option<String>) {
    let (option, value) = word
        .split_once('=')
        .map_or((word, None), |(option, value)| (option, Some(value.to_owned())));
    (option.trim_end_matches(['[', ']']), value)
}

fn find_option<'a>(command: &'a Command, option: &str) -> Option<&'a Arg> {
    let long = option.strip_prefix("--");
    let short = option.strip_prefix('-').and_then(|rest| rest.chars().next());
    command.get_arguments().find(|argument| match long {
        Some(long) => argument.get_long() == Some(long),
        None => argument.get_short() == short && short.is_some(),
    })
}

/// A value that an argument does not take. Commas and bars separate values.
fn bad_value(argument: &Arg, value: &str) -> Option<String> {
    let possible = argument.get_possible_values();
    let is_good = |value: &&str| {
        possible.is_empty()
            || is_placeholder(value)
            || possible.iter().any(|one| one.matches(value, false))
    };
    value.split([',', '|']).find(|value| !is_good(value)).map(str::to_owned)
}

/// The words of a line; text in quotes is a part of its word, with its blanks.
fn unquoted(line: &str) -> Vec<String> {
    let (mut words, mut quote) = (vec![String::new()], None);
    for one in line.chars() {
        match (one, quote) {
            ('\'' | '"', None) => quote = Some(one),
            (one, Some(open)) if one == open => quote = None,
            (' ', None) => words.push(String::new()),
            (one, _) => words.last_mut().expect("there is a word").push(one),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

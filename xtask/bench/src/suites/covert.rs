//! `./x bench covert`: the bandwidth of covert channels from a high level to a low one. `bench/covert` has the channels. Printed as
//! a table, drawn in `build/bench-covert.svg`, described in `docs/mls-channels.md`.
use crate::{
    draw::dots::{self, Dots},
    measure::{
        probes,
        side::{LINUX, SELINUX, Side},
    },
    values::{
        information::{self, Sent, Worth},
        text::{figure, plain},
    },
};
use anyhow::{Context, Result, bail};
use harness::{
    build::Features,
    linux, packages,
    qemu::{Clock, Config},
    selinux, shell,
};
use std::{fmt::Write, fs};

/// The system whose channels are bounded.
const LEVELS: &str = "mls";
const DEFAULT: &str = "default";
/// The greatest number of channels of that system that carry more than [`WIDE`].
const WIDE_MAX: usize = 3;
/// Bits per second.
const WIDE: f64 = 1.0;
/// The least rate that is drawn.
const LEAST: f64 = 0.1;
/// Lengths of slots in microseconds, each with a number of bits.
const SLOTS: [&str; 5] = ["100000,100", "20000,400", "5000,1000", "1000,2000", "250,2000"];
const QUICK_SLOTS: [&str; 2] = ["20000,128", "1000,256"];

/// The wishes of the user, which `mls` has too.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Only channels whose name holds this.
    pub filter: Option<String>,
    /// The sides; none is all.
    pub sides: Vec<String>,
    /// Fewer bits.
    pub is_quick: bool,
}

/// A channel on one side.
#[derive(Clone, Debug, Default, PartialEq)]
struct Channel {
    name: String,
    /// The bits and values, with slots of each length.
    sent: Vec<Sent>,
}

impl Channel {
    /// Returns the worth at the length of slots at which it is greatest. Where nothing is carried, that is the longest time.
    fn best(&self) -> Option<Worth> {
        let all: Vec<Worth> = self.sent.iter().filter_map(information::measure).collect();
        let best = all.iter().max_by(|a, b| a.rate.total_cmp(&b.rate))?;
        if best.rate > 0.0 {
            Some(*best)
        } else {
            all.into_iter().min_by(|a, b| a.most.total_cmp(&b.most))
        }
    }

    /// Returns the error that the sender or the receiver got in all slots.
    fn refused(&self) -> Option<String> {
        let first = self.sent.first()?;
        let values = &first.values;
        let is_refused = values.iter().all(|&value| value < 0 && Some(&value) == values.first());
        let receiver =
            values.first().filter(|_| is_refused).map(|&value| format!("errno {}", -value));
        receiver.or_else(|| first.refused.clone())
    }

    /// Returns its cell of the table.
    fn cell(&self) -> String {
        let Some(worth) = self.best() else { return "not ended".to_owned() };
        let why = self.refused().map_or_else(String::new, |error| format!(" {error}"));
        match worth.rate {
            0.0 => format!("< {}{why}", plain(worth.most)),
            rate => format!("{} ({:.0} %)", figure(rate), 100.0 * worth.wrong),
        }
    }

    fn rate(&self) -> f64 {
        self.best().map_or(0.0, |worth| worth.rate)
    }
}

/// The channels of one side.
#[derive(Debug)]
struct Measured {
    name: String,
    channels: Vec<Channel>,
}

/// Measures, prints and draws. The status is 1 if more channels of `mls` are wide than may be.
///
/// # Errors
/// Fails if something does not build, start or end as it should.
pub fn run(wanted: &Wanted) -> Result<u8> {
    packages::ensure(packages::Need::Test)?;
    linux::prepare()?;
    selinux::prepare()?;
    let image = probes::image()?;
    let names = match wanted.sides.as_slice() {
        [] => [LINUX, SELINUX, DEFAULT, LEVELS].map(str::to_owned).to_vec(),
        asked => asked.to_vec(),
    };
    let mut sides = Vec::new();
    for name in names {
        let side = Side::new(&name, &image, &Features::default())?;
        let channels = measure(&side, wanted)?;
        sides.push(Measured { name, channels });
    }
    print(&sides);
    let path = shell::build_path("bench-covert.svg")?;
    fs::write(&path, draw(&sides))?;
    println!("drawn in {}; all values in build/bench-covert-SIDE.txt", path.display());
    let wide = |side: &&Measured| side.name == LEVELS;
    let count = sides.iter().find(wide).map_or(0, |side| wide_channels(side).len());
    Ok(u8::from(count > WIDE_MAX))
}

/// Boots a side and sends bits through all its channels: through those that use a disk by the host's clock, and through the others
/// by the clock of instructions, which no other work of the host disturbs.
fn measure(side: &Side, wanted: &Wanted) -> Result<Vec<Channel>> {
    let bar = shell::progress(&format!("covert channels: {}", side.name));
    let filter = wanted.filter.as_deref().unwrap_or("-").replace(' ', "~");
    let slots = if wanted.is_quick { QUICK_SLOTS.join("+") } else { SLOTS.join("+") };
    let (mut channels, mut all) = (Vec::new(), String::new());
    for (name, clock) in [("virtual", Clock::Instructions), ("real", Clock::Host)] {
        let config = Config { clock, ..side.machine(1)? };
        let parameter = format!("skerry.covert={name}+{filter}+{slots}");
        let lines = side.run(config, probes::COVERT_RUNNER, &parameter)?;
        let lines: Vec<&str> = lines.iter().map(|(_, line)| line.as_str()).collect();
        let text = lines.join("\n");
        if side.name == SELINUX && !text.contains("levels enforced 1 mls 1") {
            bail!("SELinux does not enforce its policy of levels:\n{text}");
        }
        let found = parse(&text);
        all += &text;
        fs::write(shell::build_path(&format!("bench-covert-{}.txt", side.name))?, &all)?;
        channels.extend(found.with_context(|| format!("{}: the channels did not end", side.name))?);
    }
    bar.finish_and_clear();
    Ok(channels)
}

/// Parses the output of `covert run`; `None` without its end.
fn parse(text: &str) -> Option<Vec<Channel>> {
    let mut channels: Vec<Channel> = Vec::new();
    let mut is_whole = false;
    for line in text.lines() {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let channel = channels.last_mut();
        match (word, channel) {
            ("channel", _) => channels.push(Channel { name: rest.to_owned(), sent: Vec::new() }),
            ("slot", Some(channel)) => {
                let slot = rest.parse::<f64>().ok()? / 1e9;
                channel.sent.push(Sent { slot, ..Sent::default() });
            }
            ("bits", Some(channel)) => {
                let bits = rest.chars().map(|bit| bit == '1').collect();
                channel.sent.last_mut()?.bits = bits;
            }
            ("values", Some(channel)) => {
                let values = rest.split_whitespace().map(|word| word.parse().ok());
                channel.sent.last_mut()?.values = values.collect::<Option<_>>()?;
            }
            ("refused", Some(channel)) => channel.sent.last_mut()?.refused = Some(rest.to_owned()),
            ("done", _) => is_whole = true,
            _ => {}
        }
    }
    is_whole.then_some(channels)
}

fn wide_channels(side: &Measured) -> Vec<&Channel> {
    side.channels.iter().filter(|channel| channel.rate() > WIDE).collect()
}

/// Returns the channel of that name on a side.
fn of<'a>(side: &'a Measured, name: &str) -> Option<&'a Channel> {
    side.channels.iter().find(|channel| channel.name == name)
}

fn names(sides: &[Measured]) -> Vec<&str> {
    sides.first().into_iter().flat_map(|side| &side.channels).map(|it| it.name.as_str()).collect()
}

fn print(sides: &[Measured]) {
    println!("bits per second (bits received wrong); `<`: none, and with 95 % less than this\n");
    print!("{:<34}", "");
    sides.iter().for_each(|side| print!("{:>22}", side.name));
    println!();
    for name in names(sides) {
        print!("{name:<34}");
        for side in sides {
            print!("{:>22}", of(side, name).map_or_else(|| "-".to_owned(), Channel::cell));
        }
        println!();
    }
    println!();
    for side in sides {
        let (wide, all) = (wide_channels(side), side.channels.len());
        let mut line =
            format!("{}: {} of {all} channels carry more than 1 bit/s", side.name, wide.len());
        if side.name == LEVELS {
            let names: Vec<&str> = wide.iter().map(|channel| channel.name.as_str()).collect();
            let _ = write!(line, " (at most {WIDE_MAX}): {}", names.join(", "));
        }
        println!("{line}");
    }
}

/// Draws a line for each channel, with a sign for each side on which it carries something.
fn draw(sides: &[Measured]) -> String {
    let row = |name: &str| {
        let rates = sides.iter().map(|side| of(side, name).map(Channel::rate));
        (name.to_owned(), rates.map(|rate| rate.filter(|rate| *rate > 0.0)).collect())
    };
    let rows: Vec<dots::Row> = names(sides).into_iter().map(row).collect();
    let sides: Vec<String> = sides.iter().map(|side| side.name.clone()).collect();
    let title = "Covert channels, bits per second";
    dots::draw(&Dots { title, sides: &sides, rows: &rows, mark: WIDE, least: Some(LEAST) }).file()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "levels enforced 1\nchannel a b\nslot 20000000\nbits 0110\nvalues 1 5 5 1\nchannel c\nslot 1000000\n\
                        bits 01\nvalues -13 -13\nrefused EACCES\ndone";

    #[test]
    fn what_channels_say_is_understood() {
        let channels = parse(SAID).unwrap();
        let [first, second] = channels.as_slice() else { panic!("two channels") };
        assert_eq!((first.name.as_str(), first.sent[0].slot), ("a b", 0.02));
        assert_eq!(first.sent[0].bits, [false, true, true, false]);
        assert_eq!(first.sent[0].values, [1, 5, 5, 1]);
        assert_eq!(second.refused().as_deref(), Some("errno 13"));
        assert_eq!(second.sent[0].refused.as_deref(), Some("EACCES"));
        assert_eq!(parse("channel a"), None, "without an end");
    }

    #[test]
    fn channels_that_carry_something_are_wide_and_drawn() {
        let channel = |name: &str, every: usize| {
            let bits: Vec<bool> = (0..400).map(|at| at % 3 == 0 || at % 7 == 1).collect();
            let values = bits.iter().enumerate();
            let values = values.map(|(at, &bit)| i64::from(bit && at % every == 0)).collect();
            let sent = Sent { slot: 0.01, values, bits: bits.clone(), refused: None };
            Channel { name: name.to_owned(), sent: vec![sent] }
        };
        let side = |name: &str| Measured {
            name: name.to_owned(),
            channels: vec![channel("open", 1), channel("closed", 999)],
        };
        let sides = [DEFAULT, LEVELS].map(side);
        let wide: Vec<&str> = wide_channels(&sides[1]).iter().map(|it| it.name.as_str()).collect();
        assert_eq!(wide, ["open"]);
        let drawn = draw(&sides);
        // Two in the legend, two of the open channel.
        assert_eq!(drawn.matches("<circle").count() + drawn.matches("class=\"s1\"").count(), 4);
    }
}

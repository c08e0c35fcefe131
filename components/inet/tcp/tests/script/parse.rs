//! The syntax of packet scripts; `docs/packet-scripts.md` describes it.
use tcp::{FastOpenCookie, SackBlocks, SegmentOptions, TcpFlags, TcpSegment, Timestamps};

/// A line of a script.
#[derive(Debug)]
pub struct Line {
    pub number: usize,
    /// Time after the line before, in nanoseconds.
    pub after_ns: u64,
    pub action: Action,
}

/// The action of a line.
#[derive(Debug)]
pub enum Action {
    /// A segment arrives.
    Arrive(Wire),
    /// A segment must leave.
    Leave(Wire),
    /// A call or a check: its words.
    Call(Vec<String>),
}

/// A segment with relative numbers.
#[derive(Debug)]
pub struct Wire {
    pub segment: TcpSegment,
    /// Number of the peer.
    pub peer: u16,
    pub has_window: bool,
    pub has_options: bool,
    /// The echoed timestamp is given.
    pub has_echo: bool,
    pub has_value: bool,
    /// A Fast Open cookie of any content.
    pub any_cookie: bool,
    /// The Fast Open cookie that the server made for this peer.
    pub right_cookie: bool,
    /// Whether the packet is marked ECT(0), if the script tells.
    pub is_capable: Option<bool>,
    /// The time need not be exact: at most so many nanoseconds later.
    pub within_ns: u64,
}

pub fn parse(text: &str) -> Result<Vec<Line>, String> {
    let mut lines = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or("").trim();
        if !line.is_empty() {
            lines.push(
                parse_line(at + 1, line).map_err(|fault| format!("line {}: {fault}", at + 1))?,
            );
        }
    }
    Ok(lines)
}

pub fn seconds(text: &str) -> Result<u64, String> {
    let value: f64 = text.parse().map_err(|_| format!("`{text}` is no time"))?;
    Ok((value * 1e9).round() as u64)
}

fn parse_line(number: usize, line: &str) -> Result<Line, String> {
    let (after_ns, rest) = match line.strip_prefix('+') {
        Some(rest) => {
            let (time, rest) = rest.split_once(' ').ok_or("a time without an action")?;
            (seconds(time)?, rest.trim())
        }
        None => (0, line),
    };
    let action = if let Some(rest) = rest.strip_prefix("< ") {
        Action::Arrive(wire(rest)?)
    } else if let Some(rest) = rest.strip_prefix("> ") {
        Action::Leave(wire(rest)?)
    } else {
        Action::Call(rest.split_whitespace().map(str::to_owned).collect())
    };
    Ok(Line { number, after_ns, action })
}

fn flags(text: &str) -> Result<TcpFlags, String> {
    let mut all = TcpFlags::empty();
    for letter in text.chars() {
        all |= match letter {
            'F' => TcpFlags::FIN,
            'S' => TcpFlags::SYN,
            'R' => TcpFlags::RST,
            'P' => TcpFlags::PSH,
            '.' => TcpFlags::ACK,
            'U' => TcpFlags::URG,
            'E' => TcpFlags::ECE,
            'W' => TcpFlags::CWR,
            _ => return Err(format!("no flag `{letter}`")),
        };
    }
    Ok(all)
}

/// A sequence number; negative ones wrap.
pub fn number(text: &str) -> Result<u32, String> {
    let value: i64 = text.parse().map_err(|_| format!("`{text}` is no number"))?;
    Ok(value as u32)
}

fn wire(text: &str) -> Result<Wire, String> {
    let (head, options) = match text.split_once('<') {
        Some((head, rest)) => (head, Some(rest.strip_suffix('>').ok_or("options without `>`")?)),
        None => (text, None),
    };
    let mut words = head.split_whitespace();
    let mut segment =
        TcpSegment { flags: flags(words.next().ok_or("no flags")?)?, ..TcpSegment::default() };
    let mut wire = Wire {
        segment,
        peer: 1,
        has_window: false,
        has_options: options.is_some(),
        has_echo: false,
        has_value: false,
        any_cookie: false,
        right_cookie: false,
        is_capable: None,
        within_ns: 0,
    };
    let range = words.next().ok_or("no sequence numbers")?;
    let (start, rest) = range.split_once(':').ok_or("not START:END(LENGTH)")?;
    let (end, length) = rest.split_once('(').ok_or("not START:END(LENGTH)")?;
    segment.seq = number(start)?;
    segment.length = length.trim_end_matches(')').parse().map_err(|_| "bad length")?;
    if number(end)? != segment.seq.wrapping_add(segment.length) {
        return Err(format!("{range} contradicts itself"));
    }
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("`{word}` without a value"));
        match word {
            "ack" => segment.ack = number(value()?)?,
            "win" => {
                segment.window = value()?.parse().map_err(|_| "bad window")?;
                wire.has_window = true;
            }
            "urg" => segment.urgent = value()?.parse().map_err(|_| "bad urgent pointer")?,
            "peer" => wire.peer = value()?.parse().map_err(|_| "bad peer")?,
            "within" => wire.within_ns = seconds(value()?)?,
            "ce" => segment.is_marked = true,
            "ect" => wire.is_capable = Some(true),
            "noect" => wire.is_capable = Some(false),
            _ => return Err(format!("unknown word `{word}`")),
        }
    }
    wire.segment = segment;
    if let Some(options) = options {
        for option in options.split(',').map(str::trim).filter(|one| !one.is_empty()) {
            wire.option(option)?;
        }
    }
    Ok(wire)
}

impl Wire {
    fn option(&mut self, text: &str) -> Result<(), String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let options: &mut SegmentOptions = &mut self.segment.options;
        match words.as_slice() {
            ["mss", value] => options.mss = Some(value.parse().map_err(|_| "bad mss")?),
            ["wscale", value] => options.wscale = Some(value.parse().map_err(|_| "bad wscale")?),
            ["sackOK"] => options.sack_permitted = true,
            ["sack", blocks @ ..] => options.sack = sack(blocks)?,
            ["TS", rest @ ..] => {
                let mut clock = Timestamps::default();
                for pair in rest.chunks(2) {
                    match pair {
                        ["val", value] => (clock.value, self.has_value) = (number(value)?, true),
                        ["ecr", value] => (clock.echo, self.has_echo) = (number(value)?, true),
                        _ => return Err(format!("bad timestamps `{text}`")),
                    }
                }
                options.timestamps = Some(clock);
            }
            ["FO"] => options.fast_open = Some(FastOpenCookie::default()),
            ["FO", "right"] => self.right_cookie = true,
            ["FO", "any"] => self.any_cookie = true,
            ["FO", hex] => options.fast_open = Some(cookie(hex)?),
            _ => return Err(format!("unknown option `{text}`")),
        }
        Ok(())
    }
}

pub fn cookie(hex: &str) -> Result<FastOpenCookie, String> {
    let digit = |at| u8::from_str_radix(&hex[at..at + 2], 16).map_err(|_| "bad cookie");
    let bytes: Vec<u8> = (0..hex.len()).step_by(2).map(digit).collect::<Result<_, _>>()?;
    FastOpenCookie::new(&bytes).ok_or("cookie too long".to_owned())
}

fn sack(blocks: &[&str]) -> Result<SackBlocks, String> {
    let mut all = SackBlocks::default();
    for block in blocks {
        let (start, end) = block.split_once(':').ok_or("block is not START:END")?;
        all.push(number(start)?, number(end)?);
    }
    Ok(all)
}

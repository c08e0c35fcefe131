//! Parsers of fields whose values are written as text.

/// A scheduling policy: `fair`, `fair:N`, `fifo:N`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Priority {
    /// Nice value.
    Fair(i8),
    /// Fixed priority.
    Fifo(u8),
}

/// Parses a port range into first port and count.
pub(super) fn ports(range: &str) -> Option<(u16, u16)> {
    let (first, count) = range.split_once('+')?;
    let first = u16::from_str_radix(first.strip_prefix("0x")?, 16).ok()?;
    let count: u16 = count.parse().ok()?;
    (count > 0 && u32::from(first) + u32::from(count) <= 1 << 16).then_some((first, count))
}

/// Returns whether two ranges have a port in common.
pub(super) fn overlap(one: (u16, u16), other: (u16, u16)) -> bool {
    let end = |range: (u16, u16)| u32::from(range.0) + u32::from(range.1);
    u32::from(one.0) < end(other) && u32::from(other.0) < end(one)
}

/// Parses a device into its kind and, behind `#`, its number among the machine's devices of that kind.
pub(super) fn device(text: &str) -> Option<(&str, Option<u32>)> {
    match text.split_once('#') {
        None => Some((text, None)),
        Some((kind, number)) => Some((kind, Some(number.parse().ok()?))),
    }
}

/// Returns whether two devices may be the same.
pub(super) fn is_same_device(one: &str, other: &str) -> bool {
    let (Some(one), Some(other)) = (device(one), device(other)) else { return one == other };
    one.0 == other.0 && (one.1.is_none() || other.1.is_none() || one.1 == other.1)
}

/// Returns the variant of the personality's `SystemCalls` that a description's word names.
pub(super) fn system_calls(word: &str) -> Option<&'static str> {
    match word {
        "anywhere" => Some("Anywhere"),
        "master" => Some("Master"),
        _ => None,
    }
}

pub(super) fn priority(text: &str) -> Option<Priority> {
    match text.split_once(':') {
        None => (text == "fair").then_some(Priority::Fair(0)),
        Some(("fair", nice)) => {
            nice.parse().ok().filter(|nice| (-20..=19).contains(nice)).map(Priority::Fair)
        }
        Some(("fifo", number)) => {
            number.parse().ok().filter(|number| (1..=99).contains(number)).map(Priority::Fifo)
        }
        Some(_) => None,
    }
}

//! Kernel parameters: `name=value` words separated by blanks; the last one of a name wins.
use program::MmioDevice;

/// Returns the text at `bytes`: up to the first NUL, cut at the first byte that is not UTF-8.
pub fn text(bytes: &[u8]) -> &str {
    let bytes = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
    let valid = bytes.utf8_chunks().next();
    valid.map_or("", |chunk| chunk.valid())
}

/// Returns the value of the last `name=value` in `line`, or `""` for a bare `name`.
pub fn find<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    line.split_ascii_whitespace().rev().find_map(|word| match word.split_once('=') {
        Some((key, value)) if key == name => Some(value),
        None if word == name => Some(""),
        _ => None,
    })
}

/// Parses a decimal or `0x` hexadecimal number.
pub fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Returns the virtio-mmio transports that `line` names by `virtio_mmio.device=SIZE@BASE:LINE`, as on
/// Linux.
pub fn transports(line: &str) -> impl Iterator<Item = MmioDevice> {
    let words = line.split_ascii_whitespace();
    words.filter_map(|word| transport(word.strip_prefix("virtio_mmio.device=")?))
}

fn transport(text: &str) -> Option<MmioDevice> {
    let (size, rest) = text.split_once('@')?;
    let mut rest = rest.split(':');
    let (digits, unit) = match size.strip_suffix(['K', 'k']) {
        Some(digits) => (digits, 1 << 10),
        None => size.strip_suffix(['M', 'm']).map_or((size, 1), |digits| (digits, 1 << 20)),
    };
    Some(MmioDevice {
        base: number(rest.next()?)?,
        bytes: number(digits)?.checked_mul(unit)?,
        interrupt: u32::try_from(number(rest.next()?)?).ok()?,
    })
}

//! Options of a tmpfs in `/proc/mounts`: those that are not the default, in Linux's format.
use alloc::{format, string::String};
use rt::PAGE_BYTES;

/// Permissions of a root if the options do not give any.
const MODE: u16 = 0o1777;

/// Returns the options of a tmpfs that was mounted with `given` (and accepted it), each after a
/// comma.
pub fn of_tmpfs(given: &[u8]) -> String {
    let given = core::str::from_utf8(given).unwrap_or_default();
    // The last value of each option counts.
    let value = |wanted: &str| {
        let mut options = given.rsplit(',').filter_map(|option| option.split_once('='));
        options.find(|(name, _)| *name == wanted).map(|(_, value)| value)
    };
    let number = |name: &str| value(name).and_then(|text| text.parse::<u32>().ok());
    let mut text = String::new();
    if let Some(size) = value("size").and_then(bytes) {
        let pages = size.div_ceil(PAGE_BYTES as u64);
        text.push_str(&format!(",size={}k", pages.saturating_mul(PAGE_BYTES as u64 >> 10)));
    }
    if let Some(inodes) = value("nr_inodes").and_then(scaled) {
        text.push_str(&format!(",nr_inodes={inodes}"));
    }
    let mode = value("mode").and_then(|text| u16::from_str_radix(text, 8).ok());
    if let Some(mode) = mode.filter(|mode| *mode != MODE) {
        text.push_str(&format!(",mode={mode:03o}"));
    }
    for name in ["uid", "gid"] {
        if let Some(id) = number(name).filter(|id| *id != 0) {
            text.push_str(&format!(",{name}={id}"));
        }
    }
    text.push_str(",inode64");
    text
}

/// Parses a number of bytes, or a percentage of memory.
fn bytes(text: &str) -> Option<u64> {
    match text.strip_suffix('%') {
        Some(part) => {
            let all = rt::memory::statistics().total_frames.checked_mul(PAGE_BYTES as u64)?;
            (all / 100).checked_mul(part.parse().ok()?)
        }
        None => scaled(text),
    }
}

/// Parses a number with an optional unit of 2^10, 2^20 or 2^30.
fn scaled(text: &str) -> Option<u64> {
    let shift = match text.as_bytes().last()?.to_ascii_lowercase() {
        b'k' => 10,
        b'm' => 20,
        b'g' => 30,
        _ => 0,
    };
    let digits = if shift == 0 { text } else { text.get(..text.len() - 1)? };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::of_tmpfs;

    #[test]
    fn a_tmpfs_shows_what_is_not_the_default() {
        assert_eq!(of_tmpfs(b""), ",inode64");
        assert_eq!(of_tmpfs(b"mode=1777,uid=0"), ",inode64");
        assert_eq!(
            of_tmpfs(b"gid=2,uid=1,mode=0750,nr_inodes=1k,size=4097,size=5000"),
            ",size=8k,nr_inodes=1024,mode=750,uid=1,gid=2,inode64"
        );
    }
}

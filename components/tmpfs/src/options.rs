//! Mount options as text: `mode=OCTAL,size=BYTES[kmg%],nr_inodes=N[kmg],uid=N,gid=N` (tmpfs(5)).
use crate::Options;
use interfaces::file_system::FsError;

impl Options {
    /// Reads options separated by commas; empty ones are skipped.
    ///
    /// # Errors
    /// [`FsError::Invalid`] for an unknown or malformed option.
    pub fn parse(text: &[u8]) -> Result<Options, FsError> {
        let text = core::str::from_utf8(text).map_err(|_| FsError::Invalid)?;
        let mut options = Options::default();
        for option in text.split(',').filter(|option| !option.is_empty()) {
            options.set(option).ok_or(FsError::Invalid)?;
        }
        Ok(options)
    }

    fn set(&mut self, option: &str) -> Option<()> {
        if option == "inode64" {
            // Inode numbers always have 64 bits, with this option and without it.
            return Some(());
        }
        let (name, value) = option.split_once('=')?;
        match name {
            "mode" => {
                self.permissions =
                    u16::from_str_radix(value, 8).ok().filter(|mode| *mode <= 0o7777)?
            }
            "size" => self.size_bytes = Some(bytes(value)?),
            "nr_inodes" => self.inodes = Some(scaled(value)?),
            "uid" => self.user = value.parse().ok()?,
            "gid" => self.group = value.parse().ok()?,
            _ => return None,
        }
        Some(())
    }
}

/// Parses a number of bytes, or a percentage of memory.
fn bytes(text: &str) -> Option<u64> {
    match text.strip_suffix('%') {
        Some(part) => {
            let all = rt::memory::statistics().total_frames.checked_mul(rt::PAGE_BYTES as u64)?;
            (all / 100).checked_mul(part.parse().ok()?)
        }
        None => scaled(text),
    }
}

/// Parses a number with an optional unit of 2^10, 2^20 or 2^30.
fn scaled(text: &str) -> Option<u64> {
    let (digits, shift) = match text.as_bytes().last()? {
        b'k' | b'K' => (text.get(..text.len() - 1)?, 10),
        b'm' | b'M' => (text.get(..text.len() - 1)?, 20),
        b'g' | b'G' => (text.get(..text.len() - 1)?, 30),
        _ => (text, 0),
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_with_their_units() {
        let options =
            Options::parse(b"mode=755,size=2m,,inode64,nr_inodes=1k,uid=3,gid=4").expect("good");
        assert_eq!((options.permissions, options.user, options.group), (0o755, 3, 4));
        assert_eq!((options.size_bytes, options.inodes), (Some(2 << 20), Some(1 << 10)));
    }

    #[test]
    fn an_option_that_is_not_known_is_refused() {
        for text in [&b"colour=red"[..], b"mode=9", b"size", b"mode=77777", b"\xff"] {
            assert_eq!(Options::parse(text), Err(FsError::Invalid));
        }
    }
}

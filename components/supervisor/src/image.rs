//! An executable as it is loaded ([`Image`]). Its read-only part is copied once, at its first use, and mapped into every
//! domain that is made of it. Before each further use it is compared with the executable, because a device of a dead driver
//! may have written there. (Copying it afresh at each start costs more, `docs/isolation.md`.)
use alloc::{
    string::{String, ToString},
    vec::Vec,
};
use archive::{Executable, Segment};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use rt::{NoMemory, memory::Region};

/// A loaded executable.
pub(crate) struct Image<'f> {
    pub(crate) entry: u64,
    /// Each segment; for a read-only segment also its mapped copy.
    pub(crate) segments: Vec<(Segment<'f>, Option<Region>)>,
}

impl<'f> Image<'f> {
    /// Reads the executable `file`.
    ///
    /// # Errors
    /// A description for the log.
    pub(crate) fn read(file: &'f [u8]) -> Result<Image<'f>, String> {
        let executable = Executable::parse(file).map_err(|wrong| wrong.to_string())?;
        let copied = |segment: Segment<'f>| {
            let region = if segment.is_writable { None } else { Some(copy(&segment)?) };
            Ok((segment, region))
        };
        let segments = executable.segments().map(copied).collect::<Result<_, NoMemory>>();
        Ok(Image {
            entry: executable.entry(),
            segments: segments.map_err(|NoMemory| "memory was refused".to_string())?,
        })
    }
}

impl Image<'_> {
    /// Copies again the segments whose memory differs from the executable. Returns their number.
    ///
    /// # Errors
    /// A description for the log.
    pub(crate) fn renew_changed(&mut self) -> Result<usize, String> {
        let mut renewed = 0;
        for (segment, region) in &mut self.segments {
            if region.as_ref().is_some_and(|region| !is_copy(segment, region)) {
                *region = Some(copy(segment).map_err(|NoMemory| "memory was refused".to_string())?);
                renewed += 1;
            }
        }
        Ok(renewed)
    }
}

/// Returns whether `region` still holds the copy of the segment. All of it is compared, because that is cheaper than stopping
/// early.
fn is_copy(segment: &Segment<'_>, region: &Region) -> bool {
    let (words, tail) = segment.data.as_chunks::<{ size_of::<u64>() }>();
    let Some((here, behind)) = region.words().split_at_checked(words.len()) else { return false };
    let differs =
        |sum: u64, (word, expected): (&AtomicU64, u64)| sum | word.load(Relaxed) ^ expected;
    let expected = words.iter().map(|bytes| u64::from_le_bytes(*bytes));
    let ends = core::iter::once(padded(tail)).chain(core::iter::repeat(0));
    here.iter().zip(expected).fold(0, differs) | behind.iter().zip(ends).fold(0, differs) == 0
}

/// Returns `bytes`, at most a word, padded with zeroes.
fn padded(bytes: &[u8]) -> u64 {
    let mut value = [0; size_of::<u64>()];
    value.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    u64::from_le_bytes(value)
}

/// Copies the segment into a new region.
fn copy(segment: &Segment<'_>) -> Result<Region, NoMemory> {
    let region = Region::new(usize::try_from(segment.bytes).map_err(|_| NoMemory)?)?;
    for (word, bytes) in region.words().iter().zip(segment.data.chunks(size_of::<u64>())) {
        word.store(padded(bytes), Relaxed);
    }
    Ok(region)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_mapped_of_a_segment_is_its_data_and_zeroes() {
        let data: Vec<u8> = (1..=13).collect();
        let (is_writable, is_executable) = (false, true);
        let segment = Segment { address: 0, bytes: 4096, data: &data, is_writable, is_executable };
        let region = copy(&segment).unwrap();
        let words = region.words().iter();
        let bytes: Vec<u8> = words.flat_map(|word| word.load(Relaxed).to_le_bytes()).collect();
        assert_eq!((&bytes[..13], bytes.len()), (&data[..], 4096));
        assert!(bytes[13..].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn any_changed_word_of_what_is_mapped_is_found_and_undone() {
        let data: Vec<u8> = (1..=13).collect();
        let (is_writable, is_executable) = (false, true);
        let segment = Segment { address: 0, bytes: 4096, data: &data, is_writable, is_executable };
        let region = copy(&segment).unwrap();
        let mut image = Image { entry: 0, segments: vec![(segment, Some(region))] };
        assert_eq!(image.renew_changed(), Ok(0));
        for at in [0, 1, 2, 511] {
            for bit in [0, 39, 40, 63] {
                let before = image.segments[0].1.clone().unwrap();
                before.words()[at].fetch_xor(1 << bit, Relaxed);
                assert_eq!(image.renew_changed(), Ok(1));
                assert_eq!(image.renew_changed(), Ok(0));
                assert!(!is_copy(&image.segments[0].0, &before), "{at} {bit}");
            }
        }
    }
}

//! An executable as it is loaded ([`Image`]). What of it cannot be written is copied once, at its first use, and mapped
//! into every domain that is made of it.
use alloc::{
    string::{String, ToString},
    vec::Vec,
};
use archive::{Executable, Segment};
use core::sync::atomic::Ordering::Relaxed;
use rt::{NoMemory, memory::Region};

/// See the module's page.
pub(crate) struct Image<'f> {
    pub(crate) entry: u64,
    /// Each segment; where it cannot be written, what is mapped of it.
    pub(crate) segments: Vec<(Segment<'f>, Option<Region>)>,
}

impl<'f> Image<'f> {
    /// Of `file`.
    ///
    /// # Errors
    /// In words, for the log.
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

/// Its memory.
fn copy(segment: &Segment<'_>) -> Result<Region, NoMemory> {
    let region = Region::new(usize::try_from(segment.bytes).map_err(|_| NoMemory)?)?;
    for (word, bytes) in region.words().iter().zip(segment.data.chunks(size_of::<u64>())) {
        let mut value = [0; size_of::<u64>()];
        value.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        word.store(u64::from_le_bytes(value), Relaxed);
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
}

//! [`KeptArea`]: memory that outlives a stack, and images in it of which one is always whole.
//!
//! ```text
//! quarter   0 number of the image 64 | 8 bytes of the image 64 | 16 sum of all of it 64 | 24 the image
//! ```
//! Images are written into the first two quarters in turns. One that was being written when the stack died has a wrong sum; the
//! other has the image before. The sum is against accidents, not against forgery: only the stack has the memory.
use alloc::{vec, vec::Vec};
use hash::Seed;

/// Memory that outlives the stack. Whoever gives it to a stack gives it to no other one at the same time.
pub trait KeptArea: Send + Sync {
    /// Returns its length in bytes.
    fn length(&self) -> usize;
    /// Copies `bytes` to the place `at`. Bytes beyond the end are dropped.
    fn write(&self, at: usize, bytes: &[u8]);
    /// Copies to `out` from the place `at`. Bytes beyond the end are zeroes.
    fn read(&self, at: usize, out: &mut [u8]);
    /// Hears that an image of `bytes` bytes does not fit, after one that did: a successor would get an old one.
    fn refused(&self, bytes: usize);
}

/// Bytes before an image.
const HEADER: usize = 24;

/// An image does not fit a quarter of the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooLarge;

fn sum_of(number: u64, image: &[u8]) -> u64 {
    Seed::new([0xa5; 16]).hash(number, image)
}

fn place_of(area: &dyn KeptArea, number: u64) -> usize {
    if number.is_multiple_of(2) { 0 } else { area.length() / 4 }
}

/// Writes an image. Its number is that of the last one and one.
pub(super) fn write(area: &dyn KeptArea, number: u64, image: &[u8]) -> Result<(), TooLarge> {
    if image.len().saturating_add(HEADER) > area.length() / 4 {
        return Err(TooLarge);
    }
    let place = place_of(area, number);
    let words = [number, image.len() as u64, sum_of(number, image)];
    // The number comes last: until then the quarter has a sum that is wrong for the one that it has.
    area.write(place + HEADER, image);
    let [first, rest @ ..] = words.map(u64::to_le_bytes);
    area.write(place + 8, rest.as_flattened());
    area.write(place, &first);
    Ok(())
}

/// Returns the newest image that is whole, and its number; `None` if there is none.
pub(super) fn newest(area: &dyn KeptArea) -> Option<(u64, Vec<u8>)> {
    let images = [0, 1].map(|parity| whole(area, parity));
    images.into_iter().flatten().max_by_key(|(number, _)| *number)
}

fn whole(area: &dyn KeptArea, parity: u64) -> Option<(u64, Vec<u8>)> {
    let place = place_of(area, parity);
    let mut header = [[0; 8]; HEADER / 8];
    area.read(place, header.as_flattened_mut());
    let [number, length, sum] = header.map(u64::from_le_bytes);
    let length = usize::try_from(length).ok()?;
    if number % 2 != parity || number == 0 || length > (area.length() / 4).checked_sub(HEADER)? {
        return None;
    }
    let mut image = vec![0; length];
    area.read(place + HEADER, &mut image);
    (sum_of(number, &image) == sum).then_some((number, image))
}

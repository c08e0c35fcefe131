//! Sizes of the kernel heap's objects: classes up to 2 KiB, each in slabs of one, two or four frames.
//!
//! No class loses more than a third of what was asked for to rounding, from 32 bytes on.
use core::alloc::Layout;

/// Bytes of the objects of each class.
pub const SIZES: [u16; 15] =
    [16, 32, 48, 64, 80, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048];
/// Number of size classes.
pub const CLASSES: usize = SIZES.len();
/// Bytes of the header before a slab's objects, and so also their greatest alignment.
pub const HEADER_BYTES: usize = 64;
const LARGEST: usize = 2048;
const FRAME_BYTES: usize = 4096;

/// Size class of the sizes up to 16 * index.
const CLASS_OF: [u8; LARGEST / 16 + 1] = {
    let mut table = [0; LARGEST / 16 + 1];
    let (mut index, mut class) = (0, 0);
    while index < table.len() {
        if index * 16 > SIZES[class] as usize {
            class += 1;
        }
        table[index] = class as u8;
        index += 1;
    }
    table
};

/// Returns the number of frames of a slab of `class`.
pub const fn slab_frames(class: usize) -> usize {
    match SIZES[class] {
        0..=384 => 1,
        385..=1024 => 2,
        _ => 4,
    }
}

/// Returns the class of objects of `layout`; `None` if they are too large.
#[inline(always)]
pub fn class_of(layout: Layout) -> Option<usize> {
    if layout.size() > LARGEST || layout.align() > HEADER_BYTES {
        return None;
    }
    let mut class = usize::from(CLASS_OF[layout.size().div_ceil(16)]);
    while !usize::from(SIZES[class]).is_multiple_of(layout.align()) {
        class += 1;
    }
    Some(class)
}

/// Returns the number of objects in a slab of `class`.
pub const fn objects_of(class: usize) -> usize {
    (slab_frames(class) * FRAME_BYTES - HEADER_BYTES) / SIZES[class] as usize
}

/// Returns the number of frames of an object of `layout` that has no class. Frames are aligned to their number.
pub fn frames_of(layout: Layout) -> usize {
    layout.size().max(layout.align()).div_ceil(FRAME_BYTES)
}

/// Returns whether an object of layout `before` may stay where it is when it gets the layout `after`, which has the same
/// alignment.
pub fn has_room(before: Layout, after: Layout) -> bool {
    match (class_of(before), class_of(after)) {
        (None, None) => frames_of(before) == frames_of(after),
        (before, after) => before == after,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(size: usize, align: usize) -> Layout {
        Layout::from_size_align(size, align).unwrap()
    }

    #[test]
    fn a_class_is_the_smallest_that_holds_and_aligns() {
        for align in [1, 2, 4, 8, 16, 32, 64] {
            for size in 0..=LARGEST {
                let fits = |class: usize| {
                    let bytes = usize::from(SIZES[class]);
                    bytes >= size && bytes.is_multiple_of(align)
                };
                let smallest = (0..CLASSES).find(|&class| fits(class));
                assert_eq!(
                    class_of(layout(size, align)),
                    smallest,
                    "{size} bytes aligned to {align}"
                );
            }
        }
    }

    #[test]
    fn what_is_large_has_no_class() {
        assert_eq!(class_of(layout(LARGEST + 1, 1)), None);
        assert_eq!(class_of(layout(64, 128)), None);
    }

    #[test]
    fn a_slab_has_room_for_at_least_five() {
        for (class, &bytes) in SIZES.iter().enumerate() {
            let room = slab_frames(class) * FRAME_BYTES - HEADER_BYTES;
            let used = objects_of(class) * usize::from(bytes);
            assert!(objects_of(class) >= 5 && used <= room && room - used < usize::from(bytes));
        }
    }

    #[test]
    fn an_object_stays_within_its_class_or_its_frames() {
        let may_stay = |before, after| has_room(layout(before, 16), layout(after, 16));
        assert!(may_stay(33, 48) && !may_stay(48, 49) && !may_stay(49, 48));
        assert!(may_stay(4097, 8192) && !may_stay(8192, 8193) && !may_stay(LARGEST, 4096));
        assert_eq!((frames_of(layout(4097, 8)), frames_of(layout(8, 16384))), (2, 4));
    }
}

//! Readahead: decides how far to read beyond the requested pages, growing with sequential use.
//!
//! The window doubles with each sequential step up to [`WINDOW_MAX`]; the next window is requested
//! when less than half of the present one is left, so that reads overlap with use. A jump resets it to
//! the requested pages. Source: the scheme of Linux's on-demand readahead (Wu Fengguang, 2007).
use core::ops::Range;

const WINDOW_MIN: u64 = 8;
const WINDOW_MAX: u64 = 128;
/// A reader is sequential if it continues at most this many pages before its last position: one
/// request of the reader may arrive in parts.
const LOOK_BACK: u64 = 16;

/// The position of one reader of a file.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Readahead {
    next: u64,
    window: u64,
    ahead: u64,
}

/// The result of the reader's lookup in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hit {
    Yes,
    No,
}

impl Readahead {
    /// Records that the reader wants `wanted`. Returns the pages to read now, within a file of `limit`
    /// pages.
    pub(crate) fn plan(&mut self, wanted: Range<u64>, limit: u64, hit: Hit) -> Option<Range<u64>> {
        let is_next = wanted.start <= self.next && self.next - wanted.start <= LOOK_BACK;
        self.next = if is_next { self.next.max(wanted.end) } else { wanted.end };
        let range = if !is_next {
            self.window = 0;
            self.ahead = wanted.end;
            (hit == Hit::No).then_some(wanted)?
        } else if hit == Hit::No || self.ahead < wanted.end {
            self.grow();
            self.ahead = wanted.end.max(wanted.start.saturating_add(self.window));
            wanted.start..self.ahead
        } else if self.ahead - wanted.end <= self.window / 2 {
            self.grow();
            let start = self.ahead;
            self.ahead = start.saturating_add(self.window);
            start..self.ahead
        } else {
            return None;
        };
        let range = range.start..range.end.min(limit);
        (!range.is_empty()).then_some(range)
    }
    fn grow(&mut self) {
        self.window = (self.window * 2).clamp(WINDOW_MIN, WINDOW_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::{Hit, Readahead, WINDOW_MAX};

    #[test]
    fn a_sequential_reader_gets_growing_windows_before_it_needs_them() {
        let mut readahead = Readahead::default();
        let mut have = 0;
        let mut windows = Vec::new();
        for page in 0..2000 {
            let hit = if page < have { Hit::Yes } else { Hit::No };
            if let Some(range) = readahead.plan(page..page + 1, u64::MAX, hit) {
                assert!(range.start <= have, "a gap before {range:?}");
                windows.push(range.end - range.start);
                have = range.end;
            }
            assert!(page < have);
        }
        assert!(windows.is_sorted());
        assert_eq!(windows.last(), Some(&WINDOW_MAX));
    }
    #[test]
    fn a_wide_request_that_is_served_in_parts_is_still_sequential() {
        let mut readahead = Readahead::default();
        assert_eq!(readahead.plan(0..16, 1000, Hit::No), Some(0..16));
        for part in 1..16 {
            readahead.plan(part..part + 1, 1000, Hit::Yes);
        }
        assert_eq!(readahead.ahead, 32);
        assert_eq!(readahead.plan(16..32, 1000, Hit::Yes), Some(32..64));
    }
    #[test]
    fn a_jump_reads_only_what_was_asked_for() {
        let mut readahead = Readahead::default();
        assert_eq!(readahead.plan(500..502, 1000, Hit::No), Some(500..502));
        assert_eq!(readahead.plan(100..101, 1000, Hit::No), Some(100..101));
    }
    #[test]
    fn nothing_is_read_beyond_the_end() {
        let mut readahead = Readahead::default();
        assert_eq!(readahead.plan(0..1, 3, Hit::No), Some(0..3));
        assert_eq!(readahead.plan(1..3, 3, Hit::Yes), None);
    }
}

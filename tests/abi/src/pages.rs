//! Memory of many pages, each of which holds its own word, so that every page can be recognised
//! later.
use std::ffi::c_void;

/// Bytes of a page.
pub const PAGE: usize = 4096;
/// Number of pages: enough for several whole page tables, whatever the address.
pub const PAGES: usize = 2048;

/// [`PAGES`] pages from an address on.
#[derive(Clone, Copy, Debug)]
pub struct Pages(pub *mut u8);

// SAFETY: threads share it on purpose; words are accessed whole.
unsafe impl Send for Pages {}
// SAFETY: as above.
unsafe impl Sync for Pages {}

impl Pages {
    /// Writes into each page its number.
    pub fn number(self) -> Pages {
        (0..PAGES).for_each(|page| self.set(page, page));
        self
    }
    /// Returns the address of a page's word.
    pub fn at(self, page: usize) -> *mut usize {
        self.0.wrapping_add(page * PAGE).cast()
    }
    /// Returns the address of a page, in the type that calls use.
    pub fn area(self, page: usize) -> *mut c_void {
        self.at(page).cast()
    }
    /// Reads a page's word.
    pub fn get(self, page: usize) -> usize {
        // SAFETY: the test's own mapping, or the test means to fault.
        unsafe { self.at(page).read_volatile() }
    }
    /// Writes a page's word.
    pub fn set(self, page: usize, value: usize) {
        // SAFETY: as in `get`.
        unsafe { self.at(page).write_volatile(value) }
    }
    /// Checks that the pages of `changed` have `value`, and all others their number.
    ///
    /// # Panics
    /// Panics if a page has another value.
    pub fn check(self, changed: impl Fn(usize) -> bool, value: usize) {
        for page in 0..PAGES {
            let expected = if changed(page) { value } else { page };
            assert_eq!(self.get(page), expected, "page {page}");
        }
    }
}

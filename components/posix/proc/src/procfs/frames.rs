//! `/proc/kpageflags` and `/proc/kpagecount`: a word for each frame, by its number in `/proc/PID/pagemap`.
//!
//! The users of a frame are not recorded: all address spaces are searched for mappings of it. A frame that no program maps
//! has no flags and the count 0. Source: Linux `Documentation/admin-guide/mm/pagemap.rst`.
use alloc::{sync::Arc, vec, vec::Vec};
use memory::{AddressSpace, report::PresentPage};
use process::tree;
use rt::user::USER_END;
use vfs::{
    Errno,
    file::{File, IoFlags},
    io::Sink,
};
use zerocopy::IntoBytes;

const WORD_BYTES: u64 = size_of::<u64>() as u64;
/// Number of frames searched for in one pass.
const FRAMES_A_STEP: usize = 1 << 14;

const UPTODATE: u64 = 1 << 3;
const LISTED: u64 = 1 << 5;
const MAPPED: u64 = 1 << 11;
const ANONYMOUS: u64 = 1 << 12;
const SWAP_BACKED: u64 = 1 << 14;

/// The meaning of the words of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// Number of mappings of the frame.
    Mappings,
    /// Flags that tell the use of the frame.
    Use,
}

/// An open file of such words.
pub struct FrameWords(pub About);

impl FrameWords {
    fn note(&self, word: &mut u64, page: &PresentPage) {
        match self.0 {
            About::Mappings => *word += 1,
            About::Use => {
                let own = if page.is_of_object { 0 } else { ANONYMOUS | SWAP_BACKED };
                *word |= UPTODATE | LISTED | MAPPED | own;
            }
        }
    }
    /// Fills in the words of the frames from `first` on.
    fn fill(&self, first: u64, words: &mut [u64]) {
        words.fill(0);
        for memory in spaces() {
            memory.each_present(0, USER_END, |page| {
                let frame = u64::from(page.mapping.id.0);
                let index = frame.checked_sub(first).and_then(|at| usize::try_from(at).ok());
                if let Some(word) = index.and_then(|index| words.get_mut(index)) {
                    self.note(word, page);
                }
            });
        }
    }
}

/// Returns the number after that of the last frame that a program has: memory has holes, so it may be above the count of
/// frames.
fn frames_end() -> u64 {
    let mut end = 0;
    for memory in spaces() {
        memory.each_present(0, USER_END, |page| end = end.max(u64::from(page.mapping.id.0) + 1));
    }
    end
}

/// Returns every address space, once.
fn spaces() -> Vec<Arc<AddressSpace>> {
    let processes: Vec<_> = tree::read().processes().cloned().collect();
    let mut spaces: Vec<_> = processes.iter().filter_map(|process| process.try_memory()).collect();
    spaces.sort_unstable_by_key(|space| Arc::as_ptr(space).addr());
    spaces.dedup_by(|one, other| Arc::ptr_eq(one, other));
    spaces
}

impl File for FrameWords {
    fn is_seekable(&self) -> bool {
        true
    }
    /// # Errors
    /// `EINVAL` if offset or length are not multiples of a word.
    fn read(&self, offset: u64, sink: &mut dyn Sink, _: IoFlags) -> Result<usize, Errno> {
        let wanted = sink.remaining() as u64;
        if !offset.is_multiple_of(WORD_BYTES) || !wanted.is_multiple_of(WORD_BYTES) {
            return Err(Errno::EINVAL);
        }
        let (first, wanted) = (offset / WORD_BYTES, wanted / WORD_BYTES);
        let mut end = rt::memory::statistics().total_frames;
        if first.saturating_add(wanted) > end {
            end = end.max(frames_end());
        }
        let left = end.saturating_sub(first).min(wanted);
        let mut words = vec![0; FRAMES_A_STEP.min(left as usize)];
        if words.is_empty() {
            return Ok(0);
        }
        self.fill(first, &mut words);
        sink.put(words.as_bytes())
    }
    fn as_any(&self) -> &dyn core::any::Any {
        self
    }
}

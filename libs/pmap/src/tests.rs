//! Tests of spaces over frames in memory: each function by itself, and random steps of several spaces that fork from one
//! another against a map from pages to contents.
use super::*;
use core::sync::atomic::Ordering::Relaxed;
use program::{CloneMode, Protection};
use proptest::prelude::*;
use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    rc::Rc,
};

const FRAMES: usize = 20_000;
/// Number of frame runs for large pages.
const LARGE: usize = 4;
/// The greatest number of tables that a space may have.
const TABLES_MAX: usize = 300;
const FRAMES_OF_LARGE: usize = LARGE * ENTRIES;
const READ_WRITE: Protection = Protection::READ.union(Protection::WRITE);

/// Memory of spaces: for each frame a table and its word. The contents of a page are a version number.
struct Memory {
    tables: Vec<Table>,
    words: Vec<AtomicU32>,
    free: RefCell<Vec<u32>>,
    /// First frames of the runs for large pages. When a run is given back its frames are ordinary free frames.
    runs: RefCell<Vec<u32>>,
    contents: RefCell<Vec<u32>>,
}

impl Memory {
    fn new(frames: usize) -> Rc<Memory> {
        let end = frames + LARGE * ENTRIES;
        Rc::new(Memory {
            tables: (0..end).map(|_| Table::default()).collect(),
            words: (0..end).map(|_| AtomicU32::new(0)).collect(),
            free: RefCell::new((0..frames as u32).collect()),
            runs: RefCell::new((frames as u32..end as u32).step_by(ENTRIES).collect()),
            contents: RefCell::new(vec![0; end]),
        })
    }

    /// Returns the number of free frames of either sort.
    fn free(&self) -> usize {
        self.free.borrow().len() + self.runs.borrow().len() * ENTRIES
    }

    fn page(&self, contents: u32) -> Option<u32> {
        let frame = self.free.borrow_mut().pop()?;
        self.words[frame as usize].store(1, Relaxed);
        self.contents.borrow_mut()[frame as usize] = contents;
        Some(frame)
    }

    fn release(&self, frame: u32) {
        let before = self.words[frame as usize].fetch_sub(1, Relaxed);
        assert!((1..1000).contains(&before), "frame {frame} had {before} references");
        if before == 1 {
            self.free.borrow_mut().push(frame);
        }
    }
}

struct Space {
    memory: Rc<Memory>,
    root: u32,
    counts: Counts,
    large: Cell<isize>,
    forgotten: Cell<usize>,
}

impl Space {
    fn new(memory: &Rc<Memory>) -> Option<Space> {
        let root = memory.free.borrow_mut().pop()?;
        Some(Space {
            memory: memory.clone(),
            root,
            counts: Counts::new(TABLES_MAX),
            large: Cell::new(0),
            forgotten: Cell::new(0),
        })
    }

    fn fill(&self, page: u64, pages: usize, contents: u32) -> (usize, Result<(), NoMemory>) {
        let flags = Entry::allowing(READ_WRITE);
        fill(self, page * PAGE, pages, flags, |_| self.memory.page(contents))
    }

    /// Enters a large page whose pages hold `contents`. Returns whether it did.
    fn large(&self, page: u64, contents: u32) -> Result<bool, NoMemory> {
        let Some(&first) = self.memory.runs.borrow().last() else { return Ok(false) };
        if !enter_large(self, page * PAGE, first, Entry::allowing(READ_WRITE))? {
            return Ok(false);
        }
        self.memory.runs.borrow_mut().pop();
        for frame in (first as usize..).take(ENTRIES) {
            self.memory.words[frame].store(1, Relaxed);
            self.memory.contents.borrow_mut()[frame] = contents;
        }
        Ok(true)
    }

    /// Returns the number of tables, and of empty leaf tables among them, by walking the tables.
    fn tables(&self) -> (usize, usize) {
        self.tables_below(self.root, 3)
    }

    fn tables_below(&self, frame: u32, level: u32) -> (usize, usize) {
        let entries = || (0..ENTRIES).map(|slot| self.table(frame).get(slot));
        if level == 0 {
            return (1, usize::from(!entries().any(Entry::holds_frame)));
        }
        let present = || entries().filter(|entry| entry.contains(Entry::PRESENT));
        assert!(level == 3 || present().next().is_some(), "a table of level {level} is empty");
        let tables = present().filter(|entry| !entry.contains(Entry::LARGE));
        tables
            .map(|entry| self.tables_below(entry.frame(), level - 1))
            .fold((1, 0), |(tables, empty), (more, more_empty)| (tables + more, empty + more_empty))
    }

    /// Stores to a page, in the steps of the nucleus.
    fn store(&self, page: u64, contents: u32) -> Result<bool, NoMemory> {
        let (leaf, slot) = match page_to_change(self, page * PAGE, READ_WRITE)? {
            Place::Absent => return Ok(false),
            Place::Large => {
                let entry = leaf(self, page * PAGE).unwrap().get(index(page * PAGE, 0));
                self.memory.contents.borrow_mut()[entry.frame() as usize] = contents;
                return Ok(true);
            }
            Place::Table(leaf, slot) => (leaf, slot),
        };
        let mut frame = leaf.get(slot).frame();
        if self.word(frame).load(Relaxed) > 1 {
            let copy = self.memory.page(0).ok_or(NoMemory)?;
            self.memory.release(core::mem::replace(&mut frame, copy));
        }
        leaf.set(slot, Entry::new(frame, Entry::allowing(READ_WRITE)));
        self.memory.contents.borrow_mut()[frame as usize] = contents;
        Ok(true)
    }

    /// Returns whether the processor would let a program store there.
    fn can_store(&self, page: u64) -> bool {
        let leaf = leaf(self, page * PAGE);
        leaf.is_ok_and(|leaf| {
            !leaf.is_shared() && leaf.get(index(page * PAGE, 0)).contains(Entry::WRITE)
        })
    }

    fn is_alone(&self, page: u64) -> bool {
        let entry = leaf(self, page * PAGE).map(|leaf| leaf.get(index(page * PAGE, 0)));
        entry.is_ok_and(|entry| self.word(entry.frame()).load(Relaxed) == 1)
    }

    fn load(&self, page: u64) -> Option<u32> {
        let entry = leaf(self, page * PAGE).ok()?.get(index(page * PAGE, 0));
        entry.holds_frame().then(|| self.memory.contents.borrow()[entry.frame() as usize])
    }

    fn unmap(&self, page: u64, pages: u64) -> Result<usize, NoMemory> {
        let (mut at, end) = (page * PAGE, (page + pages) * PAGE);
        own_ends(self, at, end)?;
        let mut count = 0;
        while at < end {
            let mut gathered = Gathered::default();
            gather(self, &mut at, end, &mut gathered)?;
            count += gathered.pages();
            gathered.release(self);
        }
        Ok(count)
    }

    fn protect(&self, page: u64, pages: u64, protection: Protection) -> Result<bool, NoMemory> {
        let (mut at, end, mut has_lost) = (page * PAGE, (page + pages) * PAGE, false);
        own_all(self, &mut at, end, usize::MAX)?;
        at = page * PAGE;
        protect(self, &mut at, end, protection, usize::MAX, &mut has_lost)?;
        Ok(has_lost)
    }

    fn clone_to(&self, to: &Space, page: u64, pages: u64) -> Result<Cloned, NoMemory> {
        let (mut at, mut cloned) = (page * PAGE, Cloned::default());
        let end = (page + pages) * PAGE;
        clone((self, to), &mut at, end, CloneMode::Tables, usize::MAX, &mut cloned)?;
        Ok(cloned)
    }

    fn move_pages(&self, page: u64, pages: u64, to: u64) -> Result<usize, NoMemory> {
        let (mut at, end, mut moved) = (page * PAGE, (page + pages) * PAGE, 0);
        while at < end {
            let (distance, mut replaced) = ((to - page) * PAGE, Gathered::default());
            let outcome = move_pages(self, &mut at, end, distance, &mut replaced, &mut moved);
            replaced.release(self);
            outcome?;
        }
        Ok(moved)
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        let mut tops = [0; TOPS];
        let count = detach_tops(self, &mut tops);
        tops[..count].iter().for_each(|&top| free_tree(self, top, 2));
        self.free_table(self.root);
    }
}

impl Pmap for Space {
    fn root(&self) -> u32 {
        self.root
    }
    fn table(&self, frame: u32) -> &Table {
        &self.memory.tables[frame as usize]
    }
    fn allocate_table(&self) -> Option<u32> {
        let frame = self.memory.free.borrow_mut().pop()?;
        (0..ENTRIES).for_each(|slot| self.table(frame).set(slot, Entry::empty()));
        assert_eq!(self.word(frame).load(Relaxed), 0, "no free frame");
        Some(frame)
    }
    fn free_table(&self, frame: u32) {
        self.word(frame).store(0, Relaxed);
        (0..ENTRIES).for_each(|slot| self.table(frame).set(slot, Entry::empty()));
        self.memory.free.borrow_mut().push(frame);
    }
    fn word(&self, frame: u32) -> &AtomicU32 {
        &self.memory.words[frame as usize]
    }
    fn release_all(&self, pages: impl Iterator<Item = u32>) {
        pages.for_each(|page| self.memory.release(page));
    }
    fn release_large(&self, first: u32) {
        (first..).take(ENTRIES).for_each(|page| self.memory.release(page));
    }
    fn forget(&self, _start: u64, _pages: usize) {
        self.forgotten.set(self.forgotten.get() + 1);
    }
    fn counts(&self) -> &Counts {
        &self.counts
    }
    fn count_large(&self, by: isize) {
        self.large.set(self.large.get() + by);
    }
}

/// Returns the numbers of the pages present in a range.
fn all_present(space: &Space, from: u64, to: u64) -> Vec<u64> {
    let mut found = Vec::new();
    each_present(space, from * PAGE, to * PAGE, |address| {
        found.push(address / PAGE);
        true
    });
    found
}

#[test]
fn pages_present_are_found_over_gaps_of_every_size() {
    let memory = Memory::new(64);
    let space = Space::new(&memory).unwrap();
    let far = 1 << 33;
    for page in [3, 511, 512, far] {
        space.fill(page, 1, 1).1.unwrap();
    }
    let first = |from, to| all_present(&space, from, to).first().copied();
    assert_eq!(all_present(&space, 0, far + 1), [3, 511, 512, far]);
    let mut visited = 0;
    each_present(&space, 0, far * PAGE, |_| {
        visited += 1;
        visited < 2
    });
    assert_eq!(visited, 2, "it stops where it is told to");
    assert_eq!(first(0, far + 1), Some(3));
    assert_eq!(first(3, 4), Some(3));
    assert_eq!(first(4, 511), None);
    assert_eq!(first(4, 2000), Some(511));
    assert_eq!(first(512, 2000), Some(512));
    assert_eq!(first(513, far), None);
    assert_eq!(first(513, far + 1), Some(far));
    assert_eq!(first(far + 1, far + 9), None);
    assert_eq!(first(9, 9), None);
}

#[test]
fn a_shared_table_is_copied_at_the_first_store_and_taken_back_by_the_last() {
    let memory = Memory::new(2000);
    let parent = Space::new(&memory).unwrap();
    parent.fill(512, 512, 1).1.unwrap();
    let free = memory.free.borrow().len();
    let child = Space::new(&memory).unwrap();
    let cloned = parent.clone_to(&child, 512, 512).unwrap();
    assert_eq!(cloned, Cloned { pages: 512, has_lost: true });
    // These are a root and two tables above the leaf.
    assert_eq!(free - memory.free.borrow().len(), 3);
    assert!(!parent.can_store(600) && !child.can_store(600));
    assert_eq!(child.store(600, 2), Ok(true));
    assert_eq!((parent.load(600), child.load(600), child.load(601)), (Some(1), Some(2), Some(1)));
    assert_eq!((child.forgotten.get(), child.counts.resident()), (1, 512));
    drop(child);
    // The table that is left needs no memory.
    let rest = core::mem::take(&mut *memory.free.borrow_mut());
    assert_eq!(parent.store(600, 3), Ok(true));
    *memory.free.borrow_mut() = rest;
    assert_eq!((parent.load(600), parent.forgotten.get()), (Some(3), 0));
}

#[test]
fn who_is_left_stores_at_once_where_nobody_changed_the_table() {
    let memory = Memory::new(2000);
    let parent = Space::new(&memory).unwrap();
    parent.fill(512, 512, 1).1.unwrap();
    for _ in 0..3 {
        let child = Space::new(&memory).unwrap();
        parent.clone_to(&child, 512, 512).unwrap();
    }
    assert!(!parent.can_store(700));
    assert_eq!(parent.store(600, 3), Ok(true));
    assert!(parent.can_store(700), "its pages are nobody else's");
}

#[test]
fn tables_with_few_pages_or_beyond_the_range_are_copied() {
    let memory = Memory::new(3000);
    let parent = Space::new(&memory).unwrap();
    parent.fill(512, 63, 1).1.unwrap();
    parent.fill(1024, 512, 1).1.unwrap();
    let child = Space::new(&memory).unwrap();
    assert_eq!(parent.clone_to(&child, 512, 512 + 511).unwrap().pages, 63 + 511);
    assert!([512, 1024, 1534].iter().all(|&page| !leaf(&child, page * PAGE).unwrap().is_shared()));
    assert_eq!((child.load(1534), child.load(1535)), (Some(1), None));
    assert!(!parent.can_store(1534) && parent.can_store(1535));
}

#[test]
fn without_memory_for_a_copy_nothing_changes() {
    let memory = Memory::new(3000);
    let parent = Space::new(&memory).unwrap();
    parent.fill(512, 1024, 1).1.unwrap();
    let child = Space::new(&memory).unwrap();
    parent.clone_to(&child, 512, 1024).unwrap();
    memory.free.borrow_mut().clear();
    assert_eq!(child.store(600, 2), Err(NoMemory));
    assert_eq!(child.unmap(600, 10), Err(NoMemory));
    assert_eq!(child.unmap(600, 800), Err(NoMemory));
    assert_eq!(child.protect(600, 10, Protection::READ), Err(NoMemory));
    assert_eq!(child.move_pages(600, 10, 5000), Err(NoMemory));
    assert_eq!(child.fill(600, 10, 2), (0, Err(NoMemory)));
    assert!((512..1536).all(|page| child.load(page) == Some(1)));
    assert_eq!(child.counts.resident(), 1024);
    // Removing whole tables needs no memory.
    assert_eq!(child.unmap(512, 1024), Ok(1024));
}

#[test]
fn where_nothing_is_mapped_a_shared_table_stays_shared() {
    let memory = Memory::new(2000);
    let parent = Space::new(&memory).unwrap();
    parent.fill(512, 100, 1).1.unwrap();
    let child = Space::new(&memory).unwrap();
    parent.clone_to(&child, 512, 512).unwrap();
    assert_eq!(child.unmap(700, 50), Ok(0));
    assert_eq!(child.protect(700, 50, Protection::READ), Ok(false));
    assert_eq!(child.store(700, 2), Ok(false));
    assert!(leaf(&child, 700 * PAGE).unwrap().is_shared());
}

#[test]
fn a_large_page_goes_whole_and_is_split_for_less() {
    let memory = Memory::new(100);
    let space = Space::new(&memory).unwrap();
    assert_eq!(space.large(512, 7), Ok(true));
    assert_eq!(space.large(512, 8), Ok(false), "one is there");
    let none = Entry::allowing(Protection::empty());
    assert_eq!(enter_large(&space, 0, 7, none), Ok(false), "it could not be told from nothing");
    assert_eq!((space.counts.resident(), space.large.get()), (512, 1));
    assert_eq!((space.load(511), space.load(512), space.load(1023)), (None, Some(7), Some(7)));
    assert_eq!(present(&space, 600 * PAGE, 1000), 424);
    assert_eq!(all_present(&space, 0, 1 << 20), (512..1024).collect::<Vec<_>>());
    let free = memory.free();
    assert_eq!(space.store(600, 9), Ok(true));
    assert_eq!((memory.free(), space.forgotten.get()), (free, 0), "nothing was split");
    assert_eq!(space.protect(1023, 1, Protection::READ), Ok(true));
    assert_eq!((free - memory.free(), space.large.get(), space.forgotten.get()), (1, 0, 1));
    assert!(space.can_store(1022) && !space.can_store(1023));
    assert_eq!((space.load(599), space.load(600), space.load(1023)), (Some(7), Some(9), Some(7)));
    assert_eq!(space.large(1024, 8), Ok(true));
    assert_eq!(space.unmap(512, 1024), Ok(1024));
    assert_eq!((space.counts.resident(), space.large.get()), (0, 0));
    assert_eq!(space.large(1024, 8), Ok(true), "nothing is left of the one before");
    drop(space);
    assert_eq!(memory.free(), 100 + LARGE * ENTRIES);
}

#[test]
fn a_page_of_a_large_one_may_outlive_it() {
    let memory = Memory::new(100);
    let space = Space::new(&memory).unwrap();
    assert_eq!(space.large(0, 7), Ok(true));
    let held = leaf(&space, 0).unwrap().get(3).frame();
    space.word(held).fetch_add(1, Relaxed);
    assert_eq!(space.unmap(0, 512), Ok(512));
    assert_eq!(space.word(held).load(Relaxed), 1);
    memory.release(held);
    drop(space);
    assert_eq!(memory.free(), 100 + LARGE * ENTRIES);
}

#[test]
fn without_memory_for_a_table_a_large_page_stays() {
    let memory = Memory::new(100);
    let space = Space::new(&memory).unwrap();
    assert_eq!(space.large(0, 7), Ok(true));
    let child = Space::new(&memory).unwrap();
    memory.free.borrow_mut().clear();
    assert_eq!(space.unmap(10, 1), Err(NoMemory));
    assert_eq!(space.protect(10, 1, Protection::READ), Err(NoMemory));
    assert_eq!(space.clone_to(&child, 0, 512), Err(NoMemory));
    assert!((0..512).all(|page| space.can_store(page)));
    assert_eq!(space.unmap(0, 512), Ok(512), "whole it needs none");
}

#[test]
fn tables_go_with_their_last_page() {
    let memory = Memory::new(100);
    let space = Space::new(&memory).unwrap();
    space.fill(1, 1, 1).1.unwrap();
    assert_eq!(space.counts.tables(), 4);
    for step in 1..10_000 {
        let page = step * 512;
        space.fill(page, 2, 1).1.unwrap();
        assert_eq!(space.unmap(page, 1), Ok(1));
        assert_eq!(space.unmap(page + 1, 1), Ok(1));
        let (tables, empty) = space.tables();
        assert_eq!((space.counts.tables(), empty), (tables, 1), "page {page}");
        assert!(tables <= 6 && memory.free() == FRAMES_OF_LARGE + 100 - 1 - tables);
    }
    assert_eq!(space.unmap(0, 1 << 35), Ok(1));
    assert_eq!((memory.free(), space.counts.tables()), (FRAMES_OF_LARGE + 99, 1));
}

#[test]
fn a_table_that_was_emptied_serves_again_at_its_place() {
    let memory = Memory::new(100);
    let space = Space::new(&memory).unwrap();
    space.fill(512, 1, 1).1.unwrap();
    space.unmap(512, 1).unwrap();
    let free = memory.free();
    space.fill(600, 1, 1).1.unwrap();
    assert_eq!(memory.free(), free - 1, "a page and no table");
    space.fill(1024, 1, 1).1.unwrap();
    space.unmap(1024, 1).unwrap();
    assert_eq!((space.load(600), space.tables()), (Some(1), (5, 1)), "it is empty no more");
}

#[test]
fn tables_that_moves_leave_empty_go() {
    let memory = Memory::new(200);
    let space = Space::new(&memory).unwrap();
    for step in 1..100 {
        space.fill(512 * step, 3, 1).1.unwrap();
        assert_eq!(space.move_pages(512 * step, 3, (1 << 30) + 3 * step), Ok(3));
        let (tables, empty) = space.tables();
        assert_eq!((space.counts.tables(), empty), (tables, 1));
        assert!(tables <= 9, "{tables}");
        space.unmap((1 << 30) + 3 * step, 2).unwrap();
    }
}

#[test]
fn a_move_skips_what_no_table_maps() {
    let memory = Memory::new(20);
    let space = Space::new(&memory).unwrap();
    let (page, far) = (1 << 30, 1 << 33);
    assert_eq!(space.fill(page, 1, 7).0, 1);
    let (mut at, mut moved, mut steps) = (0, 0, 0);
    while at < far * PAGE {
        let mut replaced = Gathered::default();
        move_pages(&space, &mut at, far * PAGE, far * PAGE, &mut replaced, &mut moved).unwrap();
        replaced.release(&space);
        steps += 1;
    }
    assert_eq!((moved, space.load(page), space.load(page + far)), (1, None, Some(7)));
    assert!(steps < 20, "{steps} steps");
}

#[test]
fn a_table_of_devices_never_goes() {
    let memory = Memory::new(100);
    let space = Space::new(&memory).unwrap();
    let registers = Entry::new(7, Entry::allowing(READ_WRITE) | Entry::DEVICE);
    enter_device(&space, 5 * PAGE, registers).unwrap();
    space.fill(6, 1, 1).1.unwrap();
    assert_eq!(space.unmap(6, 1), Ok(1));
    assert_eq!(leaf(&space, 5 * PAGE).unwrap().get(5).frame(), 7);
    assert_eq!(space.counts.tables(), 4);
}

#[test]
fn a_borrowed_frame_is_left_to_its_owner() {
    const PAGES: usize = 2 * ENTRIES;
    let memory = Memory::new(100);
    let frame = memory.page(3).unwrap();
    let free = memory.free();
    let space = Space::new(&memory).unwrap();
    let flags = Entry::allowing(READ_WRITE) | Entry::BORROWED;
    assert_eq!(fill(&space, 0, PAGES, flags, |_| Some(frame)), (PAGES, Ok(())));
    space.fill(PAGES as u64, 1, 7).1.unwrap();
    assert_eq!((space.load(5), space.counts.resident()), (Some(3), PAGES + 1));
    assert_eq!(space.unmap(6, 3), Ok(3), "pages of a table");
    assert_eq!(space.unmap(ENTRIES as u64, ENTRIES as u64 + 1), Ok(ENTRIES + 1), "a whole table");
    assert_eq!((space.load(6), space.counts.resident()), (None, ENTRIES - 3));
    drop(space);
    assert_eq!((memory.words[frame as usize].load(Relaxed), memory.free()), (1, free));
}

#[test]
fn no_space_has_more_tables_than_it_may() {
    let memory = Memory::new(2000);
    let space = Space::new(&memory).unwrap();
    let far = |number: u64| number << 18;
    let made = (0..).take_while(|&number| space.fill(far(number), 1, 1).1.is_ok()).count();
    // These are a root, one table below it, and two for each page.
    assert_eq!((made, space.counts.tables()), ((TABLES_MAX - 2) / 2, TABLES_MAX));
    let free = memory.free();
    assert_eq!(space.fill(far(made as u64), 1, 1), (0, Err(NoMemory)));
    assert_eq!((memory.free(), space.tables()), (free, (TABLES_MAX, 0)), "nothing is left over");
    assert_eq!(space.fill(1, 1, 1), (1, Ok(())), "a page more in a table that is there");
    space.unmap(0, 512).unwrap();
    assert_eq!(space.fill(far(made as u64), 1, 1), (1, Ok(())));
    let child = Space::new(&memory).unwrap();
    assert_eq!(space.clone_to(&child, far(1), far(4)).map(|cloned| cloned.pages), Ok(4));
    assert_eq!(child.tables(), (child.counts.tables(), 0));
}

/// A step of a space.
#[derive(Clone, Debug)]
enum Step {
    Fill { page: u64, pages: u64 },
    Large { page: u64 },
    Store { page: u64 },
    Unmap { page: u64, pages: u64 },
    Protect { page: u64, pages: u64 },
    Move { page: u64, pages: u64, to: u64 },
    Fork { page: u64, pages: u64 },
    Exit,
}

fn step() -> impl Strategy<Value = (prop::sample::Index, Step)> {
    let range = || (0..2000_u64, 1..1500_u64);
    let step = prop_oneof![
        3 => range().prop_map(|(page, pages)| Step::Fill { page, pages }),
        2 => (0..4_u64).prop_map(|page| Step::Large { page: page * ENTRIES as u64 }),
        4 => (0..2500_u64).prop_map(|page| Step::Store { page }),
        2 => range().prop_map(|(page, pages)| Step::Unmap { page, pages }),
        1 => range().prop_map(|(page, pages)| Step::Protect { page, pages }),
        1 => (0..1000_u64, 1..400_u64, 0..1000_u64)
            .prop_map(|(page, pages, to)| Step::Move { page, pages, to: 2000 + to }),
        3 => range().prop_map(|(page, pages)| Step::Fork { page, pages }),
        1 => Just(Step::Exit),
    ];
    (any::<prop::sample::Index>(), step)
}

type Model = BTreeMap<u64, u32>;

/// Does `step` in a space and its model, from which another space may fork. If memory was lacking, the model is rebuilt from
/// the space.
fn apply(space: &Space, model: &mut Model, step: &Step, version: u32) -> Option<(Space, Model)> {
    let before = model.clone();
    let outcome = match *step {
        Step::Fill { page, pages } => {
            (page..page + pages).for_each(|page| _ = model.entry(page).or_insert(version));
            let (entered, outcome) = space.fill(page, pages as usize, version);
            let is_all = entered == model.len() - before.len();
            outcome.and(if is_all { Ok(()) } else { Err(NoMemory) })
        }
        Step::Large { page } => space.large(page, version).map(|is_entered| {
            if is_entered {
                let pages = page..page + ENTRIES as u64;
                assert_eq!(model.range(pages.clone()).count(), 0);
                model.extend(pages.map(|page| (page, version)));
            }
        }),
        Step::Store { page } => {
            model.entry(page).and_modify(|contents| *contents = version);
            space.store(page, version).map(|was_there| {
                assert_eq!(was_there, model.contains_key(&page));
                assert!(!was_there || space.can_store(page));
            })
        }
        Step::Unmap { page, pages } => {
            let gone: Vec<u64> = model.range(page..page + pages).map(|(&page, _)| page).collect();
            gone.iter().for_each(|page| _ = model.remove(page));
            space.unmap(page, pages).map(|count| assert_eq!(count, gone.len()))
        }
        Step::Protect { page, pages } => space.protect(page, pages, Protection::READ).map(|_| {
            assert!((page..page + pages).all(|page| !space.can_store(page)));
        }),
        Step::Move { page, pages, to } => {
            let moved: Vec<(u64, u32)> = before
                .range(page..page + pages)
                .map(|(&page, &contents)| (page, contents))
                .collect();
            moved.iter().for_each(|(page, _)| _ = model.remove(page));
            model.extend(moved.iter().map(|&(from, contents)| (from - page + to, contents)));
            space.move_pages(page, pages, to).map(|count| assert_eq!(count, moved.len()))
        }
        Step::Fork { page, pages } => {
            let child = Space::new(&space.memory)?;
            let mine: Model = before.range(page..page + pages).map(|(&at, &is)| (at, is)).collect();
            let cloned = space.clone_to(&child, page, pages);
            return cloned.is_ok().then_some((child, mine));
        }
        Step::Exit => Ok(()),
    };
    if outcome.is_err() && matches!(step, Step::Fill { .. } | Step::Move { .. }) {
        *model = (0..4000).filter_map(|page| Some((page, space.load(page)?))).collect();
    } else if outcome.is_err() {
        *model = before;
    }
    None
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn each_space_sees_its_own_whatever_others_do(
        steps in prop::collection::vec(step(), 1..40),
        frames in prop_oneof![Just(FRAMES), 1000..4000_usize],
    ) {
        let memory = Memory::new(frames);
        let mut spaces = vec![(Space::new(&memory).unwrap(), Model::new())];
        for ((which, step), version) in steps.iter().zip(1..) {
            if matches!(step, Step::Exit) && spaces.len() > 1 {
                drop(spaces.swap_remove(which.index(spaces.len())));
            } else {
                let which = which.index(spaces.len());
                let (space, model) = &mut spaces[which];
                let child = apply(space, model, step, version);
                spaces.extend(child);
            }
            for (space, model) in &spaces {
                prop_assert_eq!(space.counts.resident(), model.len());
                let (tables, empty) = space.tables();
                prop_assert_eq!(space.counts.tables(), tables);
                prop_assert!(empty <= 1);
                for page in 0..4000 {
                    prop_assert_eq!(space.load(page), model.get(&page).copied(), "page {}", page);
                    prop_assert!(!space.can_store(page) || space.is_alone(page));
                }
            }
        }
        drop(spaces);
        prop_assert_eq!(memory.free(), frames + LARGE * ENTRIES);
    }
}

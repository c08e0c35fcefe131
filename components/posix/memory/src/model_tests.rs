//! Compares random sequences of operations with a simple model: a map from page to its state.
use super::{
    mapping::*,
    region::*,
    tests::{Sharing, TestFile, map_file},
    *,
};
use alloc::sync::Arc;
use proptest::prelude::*;
use rt::user::Protection;
use std::collections::HashMap;
use vfs::Errno;

const BASE: u64 = 0x4000_0000;
const PAGES: u64 = 24;
const FILE_PAGES: u64 = 8;

#[derive(Clone, Copy, Debug)]
enum Kind {
    Anonymous,
    PrivateFile,
    SharedFile,
    SharedAnonymous,
}

#[derive(Clone, Debug)]
enum Step {
    Map { page: u64, pages: u64, bits: u8, kind: Kind },
    Unmap { page: u64, pages: u64 },
    Protect { page: u64, pages: u64, bits: u8 },
    Move { page: u64, pages: u64, new_pages: u64, to: u64 },
    DontNeed { page: u64, pages: u64 },
    Store { page: u64, value: u8 },
    Load { page: u64 },
    Fork { stays: bool },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let page = 0..PAGES;
    let pages = 1..6u64;
    let kind = prop_oneof![
        Just(Kind::Anonymous),
        Just(Kind::PrivateFile),
        Just(Kind::SharedFile),
        Just(Kind::SharedAnonymous)
    ];
    let step = prop_oneof![
        3 => (page.clone(), pages.clone(), 0..8u8, kind)
            .prop_map(|(page, pages, bits, kind)| Step::Map { page, pages, bits, kind }),
        1 => (page.clone(), pages.clone()).prop_map(|(page, pages)| Step::Unmap { page, pages }),
        2 => (page.clone(), pages.clone(), 0..8u8)
            .prop_map(|(page, pages, bits)| Step::Protect { page, pages, bits }),
        2 => (page.clone(), pages.clone(), pages.clone(), page.clone())
            .prop_map(|(page, pages, new_pages, to)| Step::Move { page, pages, new_pages, to }),
        1 => (page.clone(), pages).prop_map(|(page, pages)| Step::DontNeed { page, pages }),
        6 => (page.clone(), any::<u8>()).prop_map(|(page, value)| Step::Store { page, value }),
        4 => page.prop_map(|page| Step::Load { page }),
        1 => any::<bool>().prop_map(|stays| Step::Fork { stays }),
    ];
    proptest::collection::vec(step, 1..80)
}

/// The holder of a page's byte.
#[derive(Clone, Copy, PartialEq)]
enum Cell {
    /// The page has a private frame with this content.
    Own(u8),
    /// The file's page, not stored to yet.
    File(u64),
    /// A page of shared memory: object and index.
    Shared(u64, u64),
}

#[derive(Clone, Copy)]
struct Page {
    cell: Cell,
    origin: Cell,
    protection: Protection,
    /// The page may hold written data, so it does not join pages that were never writable
    /// (`WAS_WRITABLE`; Linux does the same by `VM_ACCOUNT` once a page was accessed).
    was_writable: bool,
    /// Number of the mapping and page in it: mremap treats pages with one number as one region.
    part: (u64, u64),
}

struct Model {
    pages: HashMap<u64, Page>,
    file: Vec<u8>,
    shared: HashMap<(u64, u64), u8>,
    /// Number of pages of the shared objects.
    sizes: HashMap<u64, u64>,
    mappings: u64,
    /// Numbers of the mappings whose stores reach the file.
    shared_files: Vec<u64>,
}

impl Model {
    fn new() -> Model {
        Model {
            pages: HashMap::new(),
            file: (0..FILE_PAGES).map(|page| page as u8 + 100).collect(),
            shared: HashMap::new(),
            sizes: HashMap::new(),
            mappings: 0,
            shared_files: Vec::new(),
        }
    }
    fn value(&self, cell: Cell) -> u8 {
        match cell {
            Cell::Own(value) => value,
            Cell::File(index) => self.file[index as usize],
            Cell::Shared(object, index) => *self.shared.get(&(object, index)).unwrap_or(&0),
        }
    }
    fn load(&self, page: u64) -> Result<u8, Errno> {
        let found = self.pages.get(&page).filter(|page| !page.protection.is_empty());
        found.map(|page| self.value(page.cell)).ok_or(Errno::EFAULT)
    }
    fn store(&mut self, page: u64, value: u8) -> Result<(), Errno> {
        let found = self.pages.get_mut(&page);
        let found = found.filter(|page| page.protection.contains(Protection::WRITE));
        let found = found.ok_or(Errno::EFAULT)?;
        match found.cell {
            Cell::Shared(object, index) => drop(self.shared.insert((object, index), value)),
            Cell::File(index) if self.shared_files.contains(&found.part.0) => {
                self.file[index as usize] = value;
            }
            _ => found.cell = Cell::Own(value),
        }
        Ok(())
    }
    /// Returns whether the page lies beyond the end of its object.
    fn is_beyond(&self, page: u64) -> bool {
        self.pages.get(&page).is_some_and(|found| match found.cell {
            Cell::Own(_) => false,
            Cell::File(index) => index >= FILE_PAGES,
            Cell::Shared(object, index) => index >= self.sizes[&object],
        })
    }
    fn map(&mut self, page: u64, pages: u64, protection: Protection, kind: Kind) {
        self.mappings += 1;
        let number = self.mappings;
        self.sizes.insert(number, pages);
        if matches!(kind, Kind::SharedFile) {
            self.shared_files.push(number);
        }
        for index in 0..pages {
            let cell = match kind {
                Kind::Anonymous => Cell::Own(0),
                Kind::SharedAnonymous => Cell::Shared(number, index),
                _ => Cell::File(index),
            };
            let was_writable = protection.contains(Protection::WRITE);
            let part = (number, index);
            let page_model = Page { cell, origin: cell, protection, was_writable, part };
            self.pages.insert(page + index, page_model);
        }
    }
    fn unmap(&mut self, page: u64, pages: u64) {
        self.pages.retain(|at, _| !(page..page + pages).contains(at));
    }
    fn protect(&mut self, page: u64, pages: u64, protection: Protection) -> Result<(), Errno> {
        for page in page..page + pages {
            let found = self.pages.get_mut(&page).ok_or(Errno::ENOMEM)?;
            found.protection = protection;
            found.was_writable |= protection.contains(Protection::WRITE);
        }
        Ok(())
    }
    /// The pages are there and consecutive in one mapping, all alike.
    fn is_one_mapping(&self, page: u64, pages: u64) -> bool {
        let Some(first) = self.pages.get(&page) else { return false };
        (page..page + pages).all(|at| {
            self.pages.get(&at).is_some_and(|other| {
                other.part == (first.part.0, first.part.1 + (at - page))
                    && other.protection == first.protection
                    && other.was_writable == first.was_writable
            })
        })
    }
    /// Moves the pages to a place apart from them; `new_pages` are there then.
    fn move_to(&mut self, page: u64, pages: u64, new_pages: u64, to: u64) {
        let kept = pages.min(new_pages);
        let old: Vec<Page> = (page..page + kept).map(|page| self.pages[&page]).collect();
        self.unmap(page, pages);
        for index in 0..new_pages {
            let moved = old.get(index as usize).copied().unwrap_or_else(|| {
                let last = *old.last().unwrap();
                let beyond = index + 1 - old.len() as u64;
                let origin = match last.origin {
                    Cell::Own(_) => Cell::Own(0),
                    Cell::File(index) => Cell::File(index + beyond),
                    Cell::Shared(object, index) => Cell::Shared(object, index + beyond),
                };
                let part = (last.part.0, last.part.1 + beyond);
                Page { cell: origin, origin, part, ..last }
            });
            self.pages.insert(to + index, moved);
        }
    }
    fn do_not_need(&mut self, page: u64, pages: u64) -> Result<(), Errno> {
        let mut result = Ok(());
        for page in page..page + pages {
            match self.pages.get_mut(&page) {
                Some(found) => {
                    found.cell = match found.origin {
                        Cell::Own(_) => Cell::Own(0),
                        other => other,
                    }
                }
                None => result = Err(Errno::ENOMEM),
            }
        }
        result
    }
}

fn protection(bits: u8) -> Protection {
    Protection::from_bits_truncate(bits)
}

fn at(page: u64) -> u64 {
    BASE + page * PAGE
}

/// An address space and its model, which take the same steps.
struct Pair {
    memory: Arc<AddressSpace>,
    model: Model,
    file: Arc<TestFile>,
}

impl Pair {
    fn new() -> Pair {
        let contents: Vec<u8> =
            (0..FILE_PAGES).flat_map(|page| vec![page as u8 + 100; PAGE as usize]).collect();
        let (memory, file) = (AddressSpace::new(&()).unwrap(), TestFile::new(&contents));
        Pair { memory, model: Model::new(), file }
    }
    /// Takes a step on both sides; their answers agree.
    fn step(&mut self, step: &Step) {
        match *step {
            Step::Map { page, pages, bits, kind } => self.map(page, pages, protection(bits), kind),
            Step::Unmap { page, pages } => {
                self.memory.unmap(at(page), pages * PAGE).unwrap();
                self.model.unmap(page, pages);
            }
            Step::Protect { page, pages, bits } => {
                let result = self.memory.protect(at(page), pages * PAGE, protection(bits));
                assert_eq!(result, self.model.protect(page, pages, protection(bits)));
            }
            Step::Move { page, pages, new_pages, to } => self.move_to(page, pages, new_pages, to),
            Step::DontNeed { page, pages } => {
                let advice = Advice::DontNeed { with_locked: false };
                let result = self.memory.advise(at(page), pages * PAGE, advice);
                assert_eq!(result, self.model.do_not_need(page, pages));
            }
            Step::Store { page, value } => {
                if !self.model.is_beyond(page) {
                    let expected = self.model.store(page, value);
                    assert_eq!(self.memory.write(at(page) + 5, &value), expected, "{step:?}");
                }
            }
            Step::Load { page } => {
                let is_beyond = self.model.is_beyond(page);
                let expected = if is_beyond { Err(Errno::EFAULT) } else { self.model.load(page) };
                assert_eq!(self.memory.read::<u8>(at(page) + 5), expected, "page {page}");
            }
            Step::Fork { stays } => {
                let child = self.memory.fork().unwrap();
                if stays {
                    drop(child);
                } else {
                    self.memory = child;
                }
            }
        }
    }
    fn map(&mut self, page: u64, pages: u64, protection: Protection, kind: Kind) {
        let place = MappingPlace::Fixed(at(page));
        let request = match kind {
            Kind::Anonymous => MapRequest::anonymous(place, pages * PAGE, protection),
            Kind::SharedAnonymous => MapRequest {
                source: MappingSource::SharedAnonymous,
                ..MapRequest::anonymous(place, pages * PAGE, protection)
            },
            Kind::PrivateFile => map_file(&self.file, place, pages, protection, Sharing::Private),
            Kind::SharedFile => map_file(&self.file, place, pages, protection, Sharing::Shared),
        };
        self.memory.map(&request).unwrap();
        self.model.map(page, pages, protection, kind);
    }
    fn move_to(&mut self, page: u64, pages: u64, new_pages: u64, to: u64) {
        let is_apart = to + new_pages <= page || page + pages <= to;
        let flags = RemapFlags::MAY_MOVE | RemapFlags::FIXED;
        let (bytes, new_bytes) = (pages * PAGE, new_pages * PAGE);
        let result = self.memory.remap(at(page), bytes, new_bytes, flags, at(to));
        if !is_apart {
            let is_there = self.model.pages.contains_key(&page);
            let error = if is_there { Errno::EINVAL } else { Errno::EFAULT };
            assert_eq!(result, Err(error));
        } else if result.is_err() {
            // Whether neighbours were joined into one region is not modelled: where the model
            // sees several mappings, both answers are right.
            let is_one = self.model.is_one_mapping(page, pages.min(new_pages));
            assert!(!is_one, "{pages} pages at {page}, {new_pages} at {to}: {result:?}");
        } else {
            self.model.move_to(page, pages, new_pages, to);
        }
    }
    /// Compares what can be read.
    fn compare(&self) {
        for page in (0..PAGES + 6).filter(|page| !self.model.is_beyond(*page)) {
            let (read, expected) = (self.memory.read::<u8>(at(page) + 5), self.model.load(page));
            assert_eq!(read, expected, "page {page} at the end");
        }
    }
}

fn run(steps: &[Step]) {
    let mut pair = Pair::new();
    steps.iter().for_each(|step| pair.step(step));
    pair.compare();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_sequence_behaves_as_the_model(steps in steps()) {
        run(&steps);
    }
}

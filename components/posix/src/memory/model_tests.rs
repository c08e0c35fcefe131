//! Random sequences of operations against a simple model: a map from page to what it is.
use super::{
    mapping::*,
    region::*,
    tests::{TestFile, map_file},
    *,
};
use proptest::prelude::*;
use rt::user::Protection;
use std::collections::HashMap;

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
    /// The page's own.
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
    /// It may hold what was written, so it does not join pages that never could (`WAS_WRITABLE`;
    /// Linux does the same by `VM_ACCOUNT` once a page was touched).
    was_writable: bool,
    /// Number of the mapping and page in it: what mremap sees as one region.
    part: (u64, u64),
}

struct Model {
    pages: HashMap<u64, Page>,
    file: Vec<u8>,
    shared: HashMap<(u64, u64), u8>,
    /// Pages of the shared objects.
    sizes: HashMap<u64, u64>,
    mappings: u64,
}

impl Model {
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
    fn store(
        &mut self,
        page: u64,
        value: u8,
        is_shared_file: impl Fn(u64) -> bool,
    ) -> Result<(), Errno> {
        let found = self.pages.get_mut(&page);
        let found = found.filter(|page| page.protection.contains(Protection::WRITE));
        let found = found.ok_or(Errno::EFAULT)?;
        match found.cell {
            Cell::Shared(object, index) => drop(self.shared.insert((object, index), value)),
            Cell::File(index) if is_shared_file(found.part.0) => self.file[index as usize] = value,
            _ => found.cell = Cell::Own(value),
        }
        Ok(())
    }
}

fn protection(bits: u8) -> Protection {
    Protection::from_bits_truncate(bits)
}

fn run(steps: &[Step]) {
    let contents: Vec<u8> =
        (0..FILE_PAGES).flat_map(|page| vec![page as u8 + 100; PAGE as usize]).collect();
    let file = TestFile::new(&contents);
    let mut memory = AddressSpace::new(&super::owner::None).unwrap();
    let mut model = Model {
        pages: HashMap::new(),
        file: (0..FILE_PAGES).map(|page| page as u8 + 100).collect(),
        shared: HashMap::new(),
        sizes: HashMap::new(),
        mappings: 0,
    };
    let mut shared_files: Vec<u64> = Vec::new();
    let at = |page: u64| BASE + page * PAGE;
    for step in steps {
        match *step {
            Step::Map { page, pages, bits, kind } => {
                model.mappings += 1;
                let number = model.mappings;
                let place = Place::Fixed(at(page));
                let protection = protection(bits);
                let request = match kind {
                    Kind::Anonymous => MapRequest::anonymous(place, pages * PAGE, protection),
                    Kind::SharedAnonymous => MapRequest {
                        source: Source::SharedAnonymous,
                        ..MapRequest::anonymous(place, pages * PAGE, protection)
                    },
                    Kind::PrivateFile => map_file(&file, place, pages, protection, false),
                    Kind::SharedFile => map_file(&file, place, pages, protection, true),
                };
                memory.map(&request).unwrap();
                model.sizes.insert(number, pages);
                if matches!(kind, Kind::SharedFile) {
                    shared_files.push(number);
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
                    model.pages.insert(page + index, page_model);
                }
            }
            Step::Unmap { page, pages } => {
                memory.unmap(at(page), pages * PAGE).unwrap();
                model.pages.retain(|at, _| !(page..page + pages).contains(at));
            }
            Step::Protect { page, pages, bits } => {
                let result = memory.protect(at(page), pages * PAGE, protection(bits));
                let mut expected = Ok(());
                for page in page..page + pages {
                    match model.pages.get_mut(&page) {
                        Some(found) => {
                            found.protection = protection(bits);
                            found.was_writable |= found.protection.contains(Protection::WRITE);
                        }
                        None => {
                            expected = Err(Errno::ENOMEM);
                            break;
                        }
                    }
                }
                assert_eq!(result, expected);
            }
            Step::Move { page, pages, new_pages, to } => {
                let is_apart = to + new_pages <= page || page + pages <= to;
                let flags = RemapFlags::MAY_MOVE | RemapFlags::FIXED;
                let result = memory.remap(at(page), pages * PAGE, new_pages * PAGE, flags, at(to));
                if !is_apart {
                    let is_there = model.pages.contains_key(&page);
                    let error = if is_there { Errno::EINVAL } else { Errno::EFAULT };
                    assert_eq!(result, Err(error));
                    continue;
                }
                // Whether neighbours were joined into one region is not modelled: where the model
                // sees several mappings, both answers are right.
                if result.is_err() {
                    let first = model.pages.get(&page).map(|found| found.part.0);
                    let kept = pages.min(new_pages);
                    let is_one = first.is_some()
                        && (page..page + kept).all(|at| {
                            model.pages.get(&at).is_some_and(|other| {
                                let first = &model.pages[&page];
                                other.part == (first.part.0, first.part.1 + (at - page))
                                    && other.protection == first.protection
                                    && other.was_writable == first.was_writable
                            })
                        });
                    assert!(!is_one, "{step:?} {result:?}");
                    continue;
                }
                let kept = pages.min(new_pages);
                let old: Vec<Page> = (page..page + kept).map(|page| model.pages[&page]).collect();
                model.pages.retain(|at, _| !(page..page + pages).contains(at));
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
                    model.pages.insert(to + index, moved);
                }
            }
            Step::DontNeed { page, pages } => {
                let result =
                    memory.advise(at(page), pages * PAGE, Advice::DontNeed { with_locked: false });
                let mut expected = Ok(());
                for page in page..page + pages {
                    match model.pages.get_mut(&page) {
                        Some(found) => {
                            found.cell = match found.origin {
                                Cell::Own(_) => Cell::Own(0),
                                other => other,
                            }
                        }
                        None => expected = Err(Errno::ENOMEM),
                    }
                }
                assert_eq!(result, expected);
            }
            Step::Store { page, value } => {
                if is_beyond(&model, page) {
                    continue;
                }
                let expected = model.store(page, value, |number| shared_files.contains(&number));
                assert_eq!(memory.write(at(page) + 5, &value), expected, "{step:?}");
            }
            Step::Load { page } => {
                if is_beyond(&model, page) {
                    assert_eq!(memory.read::<u8>(at(page) + 5), Err(Errno::EFAULT));
                    continue;
                }
                assert_eq!(memory.read::<u8>(at(page) + 5), model.load(page), "page {page}");
            }
            Step::Fork { stays } => {
                let child = memory.fork().unwrap();
                if stays {
                    drop(child);
                } else {
                    memory = child;
                }
            }
        }
    }
    for page in 0..PAGES + 6 {
        if !is_beyond(&model, page) {
            assert_eq!(memory.read::<u8>(at(page) + 5), model.load(page), "page {page} at the end");
        }
    }
}

/// The page lies beyond the end of its object.
fn is_beyond(model: &Model, page: u64) -> bool {
    model.pages.get(&page).is_some_and(|found| match found.cell {
        Cell::Own(_) => false,
        Cell::File(index) => index >= FILE_PAGES,
        Cell::Shared(object, index) => index >= model.sizes[&object],
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_sequence_behaves_as_the_model(steps in steps()) {
        run(&steps);
    }
}

//! Tests against a model that walks the tables as the specification says.
use crate::{Access, Fault, FrameWindow, Machine, Reach, Route, TranslationTable, Unit, entries};
use alloc::{boxed::Box, collections::BTreeMap, vec::Vec};
use core::{
    cell::{Cell, RefCell},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};
use proptest::prelude::*;
extern crate std;

const TLB: usize = 0x108;
const RECORDS: usize = 0x220;
/// Capability register: windows of 39 and of 48 bits, 256 domains, records at 0x220.
const CAPABILITY: u64 = 2 | 0b110 << 8 | (RECORDS as u64 / 16) << 24;
/// Extended capability register: pass-through, IOTLB at 0x108.
const EXTENDED: u64 = 1 << 6 | 0x10 << 8;
const FRAMES: u32 = 3000;

struct Model {
    registers: RefCell<BTreeMap<usize, u64>>,
    tables: Vec<Box<TranslationTable>>,
    used: RefCell<Vec<bool>>,
    flushes: Cell<usize>,
    /// The values that were written to IOTLB.
    forgotten: RefCell<Vec<u64>>,
}

impl Model {
    fn new(tables: usize, capability: u64, extended: u64) -> Model {
        let table = || Box::new([const { AtomicU64::new(0) }; 512]);
        Model {
            registers: RefCell::new([(0x08, capability), (0x10, extended)].into()),
            tables: (0..tables).map(|_| table()).collect(),
            used: RefCell::new((0..tables).map(|_| false).collect()),
            flushes: Cell::new(0),
            forgotten: RefCell::default(),
        }
    }

    fn used(&self) -> usize {
        self.used.borrow().iter().filter(|used| **used).count()
    }

    fn entry(&self, frame: u64, index: usize) -> u64 {
        self.tables[frame as usize - 1][index].load(Relaxed)
    }

    /// Returns the address that `function`'s access to `address` reaches; `None` if it is blocked (3.4, 3.7).
    fn reached(&self, function: u16, address: u64, access: Access) -> Option<u64> {
        assert_ne!(self.read(0x1c, 4) & 1 << 31, 0, "it does not translate");
        let root = self.read(0x20, 8) >> 12;
        let bus = self.entry(root, 2 * usize::from(function >> 8));
        let (index, contexts) = (2 * usize::from(function & 0xff), bus >> 12);
        if bus & 1 == 0 || self.entry(contexts, index) & 1 == 0 {
            return None;
        }
        let [low, high] = [0, 1].map(|half| self.entry(contexts, index + half));
        assert!(high >> 8 & 0xffff > 0, "domain 0 is reserved");
        match low >> 2 & 3 {
            2 => return Some(address),
            0 => {}
            _ => panic!("a reserved type"),
        }
        let levels = (high & 7) + 2;
        if address >> (12 + 9 * levels) != 0 {
            return None;
        }
        let mut table = low >> 12;
        for level in (0..levels).rev() {
            let entry = self.entry(table, (address >> (12 + 9 * level)) as usize & 511);
            if entry & access as u64 != access as u64 {
                return None;
            }
            table = (entry & 0xf_ffff_ffff_f000) >> 12;
        }
        Some(table << 12 | address & 0xfff)
    }
}

impl Machine for &Model {
    fn read(&self, register: usize, width: usize) -> u64 {
        let value = self.registers.borrow().get(&register).copied().unwrap_or(0);
        if width == 4 { value & 0xffff_ffff } else { value }
    }
    fn write(&self, register: usize, _: usize, value: u64) {
        let mut registers = self.registers.borrow_mut();
        match register {
            0x18 => {
                let status = registers.entry(0x1c).or_default();
                *status = *status & (1 << 30 | 1 << 24) | value;
            }
            0x88 => {
                registers.insert(0x88, value);
                drop(registers);
                if value > 0 || self.read(0x1c, 4) & 1 << 26 != 0 {
                    self.obey(value);
                }
            }
            0x28 => drop(registers.insert(0x28, value & !(1 << 63))),
            TLB => {
                self.forgotten.borrow_mut().push(value);
                registers.insert(TLB, value & !(1 << 63));
            }
            _ if register >= RECORDS => {
                assert_eq!(value, 1 << 63);
                *registers.entry(register).or_default() &= !value;
            }
            _ => drop(registers.insert(register, value)),
        }
    }
    fn allocate(&self) -> Option<u32> {
        let mut used = self.used.borrow_mut();
        let free = used.iter().position(|used| !used)?;
        used[free] = true;
        self.tables[free].iter().for_each(|entry| entry.store(0, Relaxed));
        Some(free as u32 + 1)
    }
    fn free(&self, frame: u32) {
        assert!(std::mem::replace(&mut self.used.borrow_mut()[frame as usize - 1], false));
    }
    fn table(&self, frame: u32) -> &TranslationTable {
        &self.tables[frame as usize - 1]
    }
    fn flush(&self, _: &AtomicU64) {
        self.flushes.set(self.flushes.get() + 1);
    }
}

fn at(frame: u32) -> u64 {
    u64::from(frame) << 12 | 0x123
}

fn window(unit: &mut Unit<&Model>, function: u16) -> FrameWindow {
    let window = unit.window().unwrap();
    assert!(unit.attach(function, Reach::Window(&window)));
    window
}

#[test]
fn a_function_reaches_nothing_or_everything_as_it_is_attached() {
    let model = Model::new(9, CAPABILITY, EXTENDED);
    let mut unit = Unit::start(&model, FRAMES).unwrap();
    assert_eq!(model.reached(0x18, at(5), Access::Read), None);
    assert!(unit.attach(0x18, Reach::All));
    assert_eq!(model.reached(0x18, at(5), Access::Both), Some(at(5)));
    assert_eq!(model.reached(0x19, at(5), Access::Read), None);
    assert_eq!(model.reached(0x118, at(5), Access::Read), None);
    let before = model.forgotten.borrow().len();
    assert!(unit.attach(0x18, Reach::Nothing));
    assert_eq!(model.reached(0x18, at(5), Access::Read), None);
    assert!(model.forgotten.borrow().len() > before, "the hardware remembers what it reached");
}

#[test]
fn a_frame_is_reached_while_it_is_lent_and_as_it_is_lent() {
    for capability in [CAPABILITY, CAPABILITY & !(1 << 9)] {
        let model = Model::new(20, capability, EXTENDED);
        let mut unit = Unit::start(&model, FRAMES).unwrap();
        let window = window(&mut unit, 0x18);
        let other = self::window(&mut unit, 0x20);
        for frame in [0, 511, 512, FRAMES - 1] {
            assert!(window.lend(&&model, frame, Access::Read));
            assert_eq!(model.reached(0x18, at(frame), Access::Read), Some(at(frame)));
            assert_eq!(model.reached(0x18, at(frame), Access::Write), None);
            assert_eq!(model.reached(0x20, at(frame), Access::Read), None);
            assert!(window.lend(&&model, frame, Access::Write));
            assert_eq!(model.reached(0x18, at(frame), Access::Both), Some(at(frame)));
            assert!(!window.take_back(&&model, frame));
            assert_eq!(model.reached(0x18, at(frame), Access::Read), Some(at(frame)));
            assert!(window.take_back(&&model, frame));
            assert_eq!(model.reached(0x18, at(frame), Access::Read), None);
        }
        assert!(!window.lend(&&model, 6 * 512, Access::Read), "beyond memory");
        assert!(other.lend(&&model, 1, Access::Read));
        assert_eq!(model.reached(0x18, at(1), Access::Read), None);
    }
}

#[test]
fn what_is_forgotten_is_the_window_s_domain() {
    let model = Model::new(20, CAPABILITY, EXTENDED);
    let mut unit = Unit::start(&model, FRAMES).unwrap();
    let [first, second] = [0x18, 0x20].map(|function| window(&mut unit, function));
    model.forgotten.borrow_mut().clear();
    unit.forget_domain(&first);
    unit.forget_domain(&second);
    let domains: Vec<u64> =
        model.forgotten.borrow().iter().map(|word| word >> 32 & 0xffff).collect();
    assert_eq!(domains, [2, 3]);
    assert!(model.forgotten.borrow().iter().all(|word| word >> 60 == 0b1010));
}

#[test]
fn the_hardware_must_forget_a_frame_that_is_lent_with_further_rights() {
    let model = Model::new(20, CAPABILITY, EXTENDED);
    let mut unit = Unit::start(&model, FRAMES).unwrap();
    let window = window(&mut unit, 0x18);
    let steps = [
        (Access::Write, false),
        (Access::Write, false),
        (Access::Read, true),
        (Access::Both, false),
        (Access::Write, false),
    ];
    for (access, is_needed) in steps {
        assert!(window.lend(&&model, 7, access));
        assert_eq!(window.needs_forgetting(), is_needed, "{access:?}");
        unit.forget_domain(&window);
        assert!(!window.needs_forgetting());
    }
    for (access, is_needed) in [(Access::Read, false), (Access::Both, true)] {
        assert!(window.lend(&&model, 8, access));
        assert_eq!(window.needs_forgetting(), is_needed, "{access:?}");
    }
    // A frame that nobody reached before has no old rights.
    unit.forget_domain(&window);
    assert!(window.take_back(&&model, 8) | window.take_back(&&model, 8));
    assert!(window.lend(&&model, 8, Access::Read) && !window.needs_forgetting());
}

#[test]
fn a_frame_lent_too_often_is_refused_and_stays_lent() {
    let model = Model::new(20, CAPABILITY, EXTENDED);
    let mut unit = Unit::start(&model, FRAMES).unwrap();
    let window = window(&mut unit, 0x18);
    let count = (0..).take_while(|_| window.lend(&&model, 7, Access::Read)).count();
    assert_eq!(count, 1023);
    (1..count).for_each(|_| assert!(!window.take_back(&&model, 7)));
    assert_eq!(model.reached(0x18, at(7), Access::Read), Some(at(7)));
    assert!(window.take_back(&&model, 7));
}

#[test]
fn loans_end_at_the_first_that_is_refused() {
    let model = Model::new(20, CAPABILITY, EXTENDED);
    let mut unit = Unit::start(&model, FRAMES).unwrap();
    let window = window(&mut unit, 0x18);
    let kept = std::cell::RefCell::new(Vec::new());
    let lend = |frames: [u32; 3]| {
        let loans = frames.into_iter().map(|frame| (frame, Access::Read));
        window.lend_all(&&model, loans, |frame| kept.borrow_mut().push(frame))
    };
    assert_eq!(lend([3, 4, 3]), Ok(()));
    assert_eq!(lend([5, u32::MAX, 6]), Err(1));
    assert_eq!(*kept.borrow(), [3, 4, 3, 5]);
    assert!(model.reached(0x18, at(6), Access::Read).is_none());
}

/// Tables for threads that share them.
#[derive(Clone, Copy)]
struct Tables<'a>(&'a [Box<TranslationTable>]);

impl Machine for Tables<'_> {
    fn read(&self, _: usize, _: usize) -> u64 {
        unreachable!("a window has no registers")
    }
    fn write(&self, _: usize, _: usize, _: u64) {
        unreachable!("a window has no registers")
    }
    fn allocate(&self) -> Option<u32> {
        None
    }
    fn free(&self, _: u32) {}
    fn table(&self, frame: u32) -> &TranslationTable {
        &self.0[frame as usize - 1]
    }
    fn flush(&self, _: &AtomicU64) {}
}

#[test]
fn no_loan_is_lost_where_threads_lend_at_once() {
    let model = Model::new(20, CAPABILITY, EXTENDED);
    let mut unit = Unit::start(&model, FRAMES).unwrap();
    let window = window(&mut unit, 0x18);
    let (tables, window) = (Tables(&model.tables), &window);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(move || {
                for _ in 0..2_000 {
                    assert!(window.lend(&tables, 7, Access::Read));
                    let _ = window.take_back(&tables, 7);
                }
                assert!(window.lend(&tables, 7, Access::Read));
            });
        }
    });
    (0..3).for_each(|_| assert!(!window.take_back(&tables, 7)));
    assert_eq!(model.reached(0x18, at(7), Access::Read), Some(at(7)));
    assert!(window.take_back(&tables, 7));
    assert_eq!(model.reached(0x18, at(7), Access::Read), None);
}

#[test]
fn windows_give_back_what_they_took_and_are_refused_without_memory() {
    let model = Model::new(20, CAPABILITY, EXTENDED);
    let mut unit = Unit::start(&model, FRAMES).unwrap();
    let before = model.used();
    for _ in 0..100 {
        // Each window has three levels: a root, one table below it, six leaves.
        let windows = [(); 2].map(|()| unit.window().unwrap());
        assert_eq!(model.used() - before, 2 * 8);
        assert!(unit.window().is_none());
        assert_eq!(model.used() - before, 2 * 8);
        windows.into_iter().for_each(|window| unit.free(window));
        assert_eq!(model.used() - before, 8, "one is kept");
    }
}

#[test]
fn a_window_that_is_used_again_reaches_nothing_of_before() {
    let model = Model::new(30, CAPABILITY, EXTENDED);
    let mut unit = Unit::start(&model, FRAMES).unwrap();
    let before = model.used();
    for is_taken_back in [true, false] {
        let first = window(&mut unit, 0x18);
        assert!(first.lend(&&model, 7, Access::Both));
        assert!(!is_taken_back || first.take_back(&&model, 7));
        assert!(unit.attach(0x18, Reach::Nothing));
        model.forgotten.borrow_mut().clear();
        unit.free(first);
        assert!(!model.forgotten.borrow().is_empty(), "the hardware remembers what was lent");
        // If loans are left in a window, all its tables are freed.
        assert_eq!(model.used() - before, if is_taken_back { 9 } else { 1 });
        let second = window(&mut unit, 0x18);
        assert_eq!(model.reached(0x18, at(7), Access::Read), None);
        unit.free(second);
    }
}

#[test]
fn hardware_that_sees_no_caches_has_every_entry_flushed() {
    for (extended, is_flushed) in [(EXTENDED, true), (EXTENDED | 1, false)] {
        let model = Model::new(20, CAPABILITY, extended);
        let mut unit = Unit::start(&model, FRAMES).unwrap();
        let window = window(&mut unit, 0x18);
        let before = model.flushes.get();
        assert!(window.lend(&&model, 7, Access::Read));
        assert_eq!(model.flushes.get() - before, usize::from(is_flushed));
    }
}

#[test]
fn hardware_that_lacks_something_is_named() {
    let start = |low, extended, frames| {
        Unit::start(&Model::new(4, low, extended), frames).map(|_| ()).unwrap_err()
    };
    assert!(start(CAPABILITY | 1 << 4, EXTENDED, FRAMES).contains("write buffers"));
    assert!(start(CAPABILITY, 0, FRAMES).contains("pass"));
    assert!(start(CAPABILITY & !(0b110 << 8), EXTENDED, FRAMES).contains("all of memory"));
    assert!(start(CAPABILITY & !(1 << 10), EXTENDED, 1 << 28).contains("all of memory"));
}

#[test]
fn faults_are_told_once_each_in_their_order() {
    let model = Model::new(4, CAPABILITY | 3 << 40, EXTENDED);
    let mut unit = Unit::start(&model, FRAMES).unwrap();
    assert_eq!(unit.next_fault(), None);
    let record = |index: usize, low: u64, high: u64| {
        model.registers.borrow_mut().insert(RECORDS + 16 * index, low);
        model.registers.borrow_mut().insert(RECORDS + 16 * index + 8, high);
    };
    record(0, 0x1000, 1 << 63 | 5 << 32 | 0x18);
    record(1, 0x2000, 3 << 62 | 6 << 32 | 0x121);
    let first = unit.next_fault().unwrap();
    let expected = Fault { function: 0x18, address: 0x1000, is_write: true, reason: 5 };
    assert_eq!(first, expected);
    let said = std::format!("{}", unit.next_fault().unwrap());
    assert_eq!(said, "read of 0x2000 by device 01:04.1, reason 6");
    record(0, 0x3000, 1 << 63 | 0x18);
    assert_eq!(unit.next_fault().map(|fault| fault.address), Some(0x3000));
    assert_eq!(unit.next_fault(), None);
    unit.tell_faults(0x1_fee0_1000, 0x31);
    let words = [0x38, 0x3c, 0x40, 0x44].map(|register| (&model).read(register, 4));
    assert_eq!(words, [0, 0x31, 0xfee0_1000, 1]);
}

/// Extended capability register: pass-through, IOTLB at 0x108, queue, and remapping of interrupts.
const REMAPPING: u64 = EXTENDED | 1 << 1 | 1 << 3;

impl Model {
    /// Does the commands of the queue up to its tail (6.5.2).
    fn obey(&self, tail: u64) {
        assert_ne!(self.read(0x1c, 4) & 1 << 26, 0, "the queue is off");
        let queue = self.read(0x90, 8) >> 12;
        let mut head = self.read(0x80, 8) >> 4;
        while head != tail >> 4 {
            let [low, high] = [0, 1].map(|half| self.entry(queue, 2 * head as usize + half));
            match low & 0xf {
                1 | 2 | 4 => self.forgotten.borrow_mut().push(low),
                5 => self.tables[(high >> 12) as usize - 1][0].store(low >> 32, Relaxed),
                other => panic!("command {other}"),
            }
            head = (head + 1) % 256;
        }
        self.registers.borrow_mut().insert(0x80, head << 4);
    }

    /// Returns the vector and the local APIC that a message of `function` reaches, if any (5.1).
    fn raised(&self, function: u16, address: u64) -> Option<(u8, u8)> {
        let status = self.read(0x1c, 4);
        assert_eq!(status & 0x0780_0000, 0x0700_0000, "it does not remap, or lets old messages in");
        let table = self.read(0xb8, 8);
        assert_eq!(table & 0xfff, 7, "256 entries, short APIC ids");
        if address & 0x10 == 0 {
            return None;
        }
        let index = (address >> 5 & 0x7fff) as usize;
        let [low, high] = [0, 1].map(|half| self.entry(table >> 12, 2 * index + half));
        let is_its = high >> 18 & 3 == 0 || high as u16 == function;
        (low & 1 != 0 && is_its).then_some(((low >> 16) as u8, (low >> 40) as u8))
    }
}

#[test]
fn a_function_raises_what_it_was_routed_and_nothing_else() {
    let model = Model::new(12, CAPABILITY, REMAPPING);
    let mut unit = Unit::start(&model, FRAMES).unwrap();
    assert!(unit.remaps_interrupts());
    let route = Route { vector: 0x31, destination: 2, is_level: false, sender: Some(0x18) };
    let message = unit.route(route).unwrap();
    assert_eq!(message, 0xfee0_0630);
    assert_eq!(model.forgotten.borrow().last(), Some(&(0x14 | 0x31 << 32)));
    assert_eq!(model.raised(0x18, message), Some((0x31, 2)));
    assert_eq!(model.raised(0x19, message), None);
    assert_eq!(model.raised(0x18, 0xfee0_1000), None);
    (0..=255).filter(|&vector| vector != 0x31).for_each(|vector| {
        assert_eq!(model.raised(0x18, Route::message(vector)), None);
    });
    let line = Route { vector: 0x40, destination: 0, is_level: true, sender: None };
    assert_eq!(unit.route(line).map(|at| model.raised(0xff00, at)), Some(Some((0x40, 0))));
    unit.unroute(0x31);
    assert_eq!(model.raised(0x18, message), None);
    assert_eq!(model.forgotten.borrow().last(), Some(&(0x14 | 0x31 << 32)));
}

#[test]
fn what_is_forgotten_by_the_queue_is_what_is_forgotten_by_registers() {
    let model = Model::new(20, CAPABILITY, REMAPPING);
    let mut unit = Unit::start(&model, FRAMES).unwrap();
    let window = window(&mut unit, 0x18);
    // The queue wraps around several times.
    for _ in 0..500 {
        model.forgotten.borrow_mut().clear();
        unit.forget_domain(&window);
        assert_eq!(*model.forgotten.borrow(), [0xe2 | 2 << 16]);
    }
    assert!(unit.attach(0x18, Reach::Nothing));
    assert_eq!(model.forgotten.borrow()[1..], [0x11, 0xd2]);
    assert!(window.lend(&&model, 7, Access::Read));
    assert_eq!(model.reached(0x18, at(7), Access::Read), None);
}

#[test]
fn hardware_that_cannot_remap_or_lacks_memory_for_it_still_translates() {
    let lacking = [(9, EXTENDED), (9, EXTENDED | 1 << 1), (9, EXTENDED | 1 << 3), (3, REMAPPING)];
    for (tables, extended) in lacking {
        let model = Model::new(tables, CAPABILITY, extended);
        let mut unit = Unit::start(&model, FRAMES).unwrap();
        assert!(!unit.remaps_interrupts());
        let route = Route { vector: 0x31, destination: 2, is_level: false, sender: None };
        assert_eq!(unit.route(route), None);
        assert_eq!(model.used(), 1, "memory is kept for what is not done");
        assert!(unit.attach(0x18, Reach::All));
        assert_eq!(model.reached(0x18, at(5), Access::Read), Some(at(5)));
    }
}

#[test]
fn a_refused_interrupt_message_is_told_as_such() {
    let fault = entries::fault(0x31 << 48, 1 << 63 | 0x22 << 32 | 0x121).unwrap();
    let said = std::format!("{fault}");
    assert_eq!(said, "interrupt message of 0x31 by device 01:04.1, reason 34");
}

proptest! {
    #[test]
    fn exactly_what_is_lent_is_reached(steps in proptest::collection::vec((0..40_u32, 0..4_u8), 1..200)) {
        let model = Model::new(20, CAPABILITY, EXTENDED);
        let mut unit = Unit::start(&model, FRAMES).unwrap();
        let window = window(&mut unit, 0x18);
        let mut loans = BTreeMap::<u32, (usize, u64)>::new();
        for (frame, step) in steps {
            let frame = frame * 61;
            let access = [Access::Read, Access::Write, Access::Both];
            let loan = loans.entry(frame).or_default();
            match access.get(usize::from(step)) {
                Some(&access) => {
                    prop_assert!(window.lend(&&model, frame, access));
                    *loan = (loan.0 + 1, loan.1 | access as u64);
                }
                None if loan.0 > 0 => {
                    prop_assert_eq!(window.take_back(&&model, frame), loan.0 == 1);
                    *loan = if loan.0 == 1 { (0, 0) } else { (loan.0 - 1, loan.1) };
                }
                None => {}
            }
            for frame in (0..FRAMES).step_by(61).flat_map(|frame| [frame, frame + 1]) {
                let rights = loans.get(&frame).map_or(0, |loan| loan.1);
                for access in access {
                    let is_lent = rights & access as u64 == access as u64;
                    prop_assert_eq!(model.reached(0x18, at(frame), access), is_lent.then_some(at(frame)));
                }
            }
        }
    }

    #[test]
    fn any_record_is_a_fault_or_none(low: u64, high: u64) {
        prop_assert_eq!(entries::fault(low, high).is_some(), high >> 63 == 1);
    }
}

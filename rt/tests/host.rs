//! Tests of what only the host world has: programs, model devices, refusals on request. Those of what every world has are in
//! `tests/components/rt-tests`.
#![cfg(not(target_os = "none"))]
use rt::{
    NoMemory, PAGE_BYTES,
    device::{Interrupt, Ports},
    host,
    memory::{Charge, Frame},
    message::{Endpoint, Error, Message},
    thread::{self, Policy},
    time,
    user::{Access, CloneMode, Context, Fault, PageRange, Protection, Space, Trap, Unshared},
};
use std::sync::{Arc, mpsc};

const PAGE: u64 = PAGE_BYTES as u64;

fn read_write() -> Protection {
    Protection::READ | Protection::WRITE
}

fn range(start: u64, pages: usize) -> PageRange {
    PageRange::new(start, pages).unwrap()
}

fn soon() -> Option<time::Instant> {
    Some(time::now().after_ns(1_000_000))
}

/// Runs `body` on a thread of rt and returns its result.
fn on_thread<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> mpsc::Receiver<T> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn("test", Policy::default(), move || sender.send(body()).unwrap()).unwrap();
    receiver
}

#[test]
fn an_interrupt_signals_where_it_is_bound() {
    let nothing = Arc::new(Notebook::default());
    let _plugged = host::add_ports(0x7700, 8, Some(0x7700), nothing);
    let line = Interrupt::open(0x7700).unwrap();
    let endpoint = Endpoint::new().unwrap();
    let mut message = Message::new(0);
    host::raise_line(0x7700);
    line.bind(&endpoint, 4).unwrap();
    endpoint.receive(&mut message, None).unwrap();
    assert_eq!(message.bits(), Some(4));
    host::raise_line(0x7700);
    assert_eq!(endpoint.receive(&mut message, soon()), Err(Error::TimedOut), "it is masked");
    line.acknowledge();
    endpoint.receive(&mut message, None).unwrap();
    assert_eq!(message.bits(), Some(4));
}

#[test]
fn refusals_come_when_a_test_asks() {
    host::refuse_after(Some(2));
    let kept = (Frame::zeroed(), Charge::take(10));
    assert!(kept.0.is_ok() && kept.1.is_ok());
    assert_eq!(Frame::zeroed().err(), Some(NoMemory));
    let mut frames = Vec::new();
    assert_eq!(Frame::allocate_zeroed(3, &mut frames), Err(NoMemory));
    assert!(frames.is_empty());
    host::refuse_after(None);
    assert!(Frame::zeroed().is_ok());
}

#[test]
fn user_copies_stop_at_the_first_bad_byte() {
    let space = Space::new().unwrap();
    space.map_zeroed(range(0x1000, 2), read_write()).unwrap();
    let data = vec![7; PAGE_BYTES];
    let fault = Fault { address: 0x3000, access: Access::Write, done: 100 };
    assert_eq!(space.write(0x3000 - 100, &data), Err(fault));
    let mut back = vec![0; 100];
    space.read(0x3000 - 100, &mut back).unwrap();
    assert_eq!(back, data[..100]);
    for address in [0, 0x5000, u64::MAX, u64::MAX - 1, rt::user::USER_END, 1 << 63] {
        let fault = space.read(address, &mut back).unwrap_err();
        assert_eq!((fault.address, fault.done), (address, 0));
    }
    assert_eq!(space.atomic_load(0x1002).unwrap_err().address, 0x1002);
    assert_eq!(space.compare_exchange(0x1004, 0, 5), Ok(0));
    assert_eq!(space.compare_exchange(0x1004, 0, 6), Ok(5));
    assert_eq!(space.atomic_load(0x1004), Ok(5));
}

#[test]
fn strings_end_at_the_nul_or_fault_before_it() {
    let space = Space::new().unwrap();
    space.map_zeroed(range(0x1000, 1), read_write()).unwrap();
    space.write(0x1ffd, b"abc").unwrap();
    let mut out = [0; 10];
    assert_eq!(space.read_string(0x1ffd, &mut out).unwrap_err().done, 3);
    space.write(0x1ffd, b"ab\0").unwrap();
    assert_eq!(space.read_string(0x1ffd, &mut out), Ok(2));
    assert_eq!(space.read_string(0x1ffd, &mut out[..2]), Ok(2));
}

#[test]
fn protection_is_enforced() {
    let space = Space::new().unwrap();
    space.map_zeroed(range(0x1000, 1), Protection::READ).unwrap();
    assert!(space.write(0x1000, b"x").is_err());
    assert!(space.read(0x1000, &mut [0]).is_ok());
    space.protect(range(0x1000, 1), Protection::empty()).unwrap();
    assert!(space.read(0x1000, &mut [0]).is_err());
}

#[test]
fn copy_on_write_takes_write_from_both_and_copies_once() {
    let (parent, child) = (Space::new().unwrap(), Space::new().unwrap());
    let pages = range(0x1000, 3);
    parent.map_zeroed(pages, read_write()).unwrap();
    parent.write(0x1000, b"old").unwrap();
    assert_eq!(parent.clone_range(&child, pages, CloneMode::Pages), Ok(3));
    assert!(parent.write(0x1000, b"x").is_err() && child.write(0x1000, b"x").is_err());
    assert_eq!(child.make_writable(0x1234, read_write()), Ok(Unshared::Copied));
    child.write(0x1000, b"new").unwrap();
    assert_eq!(parent.make_writable(0x1000, read_write()), Ok(Unshared::Reused));
    assert_eq!(parent.make_writable(0x9000, read_write()), Ok(Unshared::Absent));
    let mut back = [0; 3];
    parent.read(0x1000, &mut back).unwrap();
    assert_eq!(&back, b"old");
}

#[test]
fn pages_map_unmap_and_move() {
    let space = Space::new().unwrap();
    let frames = [Frame::zeroed().unwrap(), Frame::zeroed().unwrap()];
    assert_eq!(space.map(range(0x1000, 5), &frames, read_write()), Ok(2));
    assert_eq!(space.map(range(0x1000, 5), &frames, read_write()), Ok(0));
    assert_eq!(frames[0].references(), 2);
    space.write(0x2000, b"x").unwrap();
    let seen = [0x1000, 0x2fff].map(|at| space.query(at).unwrap());
    assert!(!seen[0].is_accessed && !seen[0].is_dirty);
    assert!(seen[1].is_accessed && seen[1].is_dirty);
    let mut present = Vec::new();
    space.each_present(0, 0x9000, |address| {
        present.push(address);
        present.len() < 2
    });
    assert_eq!(present, [0x1000, 0x2000]);
    space.each_present(0x3000, 0x9000, |address| panic!("{address:#x}"));
    assert_eq!(space.move_range(range(0x1000, 2), 0x8000), Ok(2));
    assert!(space.query(0x1000).is_none());
    assert_eq!(space.unmap(range(0x8000, 1)), Ok(1));
    assert_eq!((space.resident_pages(), frames[0].references()), (1, 1));
    drop(space);
    assert_eq!(frames[1].references(), 1);
    assert!(PageRange::new(1, 1).is_none());
    assert!(PageRange::new(rt::user::USER_END - PAGE, 2).is_none());
}

#[test]
fn a_program_runs_and_is_kicked() {
    let space = Space::new().unwrap();
    space.map_zeroed(range(0x1000, 1), read_write()).unwrap();
    host::set_program(|context, space| {
        context.registers.rax += 1;
        space.write(0x1000, &context.registers.rax.to_le_bytes()).unwrap();
        Trap::Syscall
    });
    let mut context = Context::default();
    assert_eq!(context.run(&space), Trap::Syscall);
    thread::kick(thread::current());
    assert_eq!(context.run(&space), Trap::Kicked);
    assert_eq!(context.run(&space), Trap::Syscall);
    assert_eq!(space.atomic_load(0x1000), Ok(2));
    let inherited = on_thread(move || Context::default().run(&space));
    assert_eq!(inherited.recv().unwrap(), Trap::Syscall);
}

#[test]
fn extended_state_is_checked_before_it_is_loaded() {
    let mut image = vec![0; rt::user::extended_bytes()];
    assert!(rt::user::save_extended(&mut image));
    let start = image.clone();
    image[40] = 3;
    assert!(rt::user::load_extended(&image));
    image[27] = 0x80;
    assert!(!rt::user::load_extended(&image));
    let mut now = vec![0; image.len()];
    assert!(rt::user::save_extended(&mut now));
    assert_eq!(now[40], 3);
    rt::user::reset_extended();
    assert!(rt::user::save_extended(&mut now));
    assert_eq!(now, start);
    assert!(!rt::user::save_extended(&mut now[..100]));
}

#[test]
fn extended_state_goes_to_a_programs_memory_and_back() {
    const SOFTWARE_BYTES_AT: u64 = 464;
    let space = Space::new().unwrap();
    space.map_zeroed(range(0x1000, 1), read_write()).unwrap();
    space.write(0x1000 + SOFTWARE_BYTES_AT, &[7]).unwrap();
    let mut image = vec![0; rt::user::extended_bytes()];
    assert!(rt::user::save_extended(&mut image));
    let start = image.clone();
    image[40] = 5;
    assert!(rt::user::load_extended(&image));
    assert!(!space.take_extended(0x2000 - 64), "not all there");
    assert!(space.take_extended(0x1000));
    let mut saved = [0];
    space.read(0x1000 + 40, &mut saved).unwrap();
    assert_eq!(saved, [5]);
    assert!(rt::user::save_extended(&mut image));
    assert_eq!(image, start, "the thread has the initial state");
    let mut software = [0];
    space.read(0x1000 + SOFTWARE_BYTES_AT, &mut software).unwrap();
    assert_eq!(software, [7], "they are the program's");
    space.write(0x1000 + 40, &[3]).unwrap();
    assert!(space.load_extended(0x1000));
    let mut now = vec![0; rt::user::extended_bytes()];
    assert!(rt::user::save_extended(&mut now));
    assert_eq!(now[40], 3);
    space.write(0x1000 + 27, &[0x80]).unwrap();
    assert!(!space.load_extended(0x1000), "MXCSR");
    assert!(!space.load_extended(0x1008), "not aligned");
}

/// Ports that record every write, in order; a read returns the number of writes.
#[derive(Default)]
struct Notebook(std::sync::Mutex<Vec<(usize, usize, u64)>>);

impl host::DeviceRegisters for Notebook {
    fn read(&self, _offset: usize, _bytes: usize) -> u64 {
        self.0.lock().unwrap().len() as u64
    }
    fn write(&self, offset: usize, bytes: usize, value: u64) {
        self.0.lock().unwrap().push((offset, bytes, value));
    }
}

#[test]
fn ports_are_accessed_within_their_range_alone() {
    let notebook = Arc::new(Notebook::default());
    let _plugged = host::add_ports(0x500, 8, None, notebook.clone());
    let ports = Ports::open(0x500, 8).unwrap();
    ports.write8(7, 1);
    ports.write16(6, 2);
    ports.write32(4, 3);
    ports.write8_all(0, &[4, 5]);
    ports.write8_list(&[(1, 6), (7, 7)]);
    let written = [(7, 1, 1), (6, 2, 2), (4, 4, 3), (0, 1, 4), (0, 1, 5), (1, 1, 6), (7, 1, 7)];
    assert_eq!(*notebook.0.lock().unwrap(), written);
    assert_eq!((ports.read8(7), ports.read16(6), ports.read32(4)), (7, 7, 7));
    let (mut string, mut list) = ([0; 3], [(0, 0), (7, 0)]);
    ports.read8_all(3, &mut string);
    ports.read8_list(&mut list);
    assert_eq!((string, list), ([7; 3], [(0, 7), (7, 7)]));
    // One byte beyond the end: a write has no effect, a read gives all ones, and a list is not
    // touched.
    ports.write8(8, 1);
    ports.write16(7, 1);
    ports.write32(5, 1);
    ports.write8_all(8, &[1]);
    ports.write8_list(&[(0, 1), (8, 1)]);
    assert_eq!(notebook.0.lock().unwrap().len(), written.len());
    assert_eq!((ports.read8(8), ports.read16(7), ports.read32(u16::MAX)), (0xff, 0xffff, u32::MAX));
    let mut list = [(0, 1), (8, 1)];
    ports.read8_list(&mut list);
    ports.read8_all(8, &mut string);
    assert_eq!((string, list), ([0xff; 3], [(0, 1), (8, 1)]));
}

#[test]
fn a_parameter_that_the_command_line_lacks_has_its_default() {
    assert_eq!(rt::system::parameter("test.size"), None);
    rt::system::set_default_parameters("test.size=1 test.size=2 test.flag -- test.late=3");
    assert_eq!(rt::system::parameter("test.size"), Some("2"));
    assert_eq!(rt::system::parameter("test.flag"), Some(""));
    assert_eq!(rt::system::parameter("test.late"), None);
}

//! The reach of a device: a virtio disk, driven from here in the name of a domain that opened it.
use crate::domains;
use alloc::{format, sync::Arc};
use calls::{Call, IMAGE_BASE};
use core::sync::atomic::Ordering::{Acquire, Release};
use nucleus::{
    arch::{
        iommu::{Access, Window},
        pci,
    },
    device::{self, Registers},
    dma::{DmaBuffer, Lending, Loans},
    domain::{Domain, Grants},
    irq::Interrupt,
    memory::{frames, space::Protection},
    thread, time,
};
use program::PciAddress;

const SECOND_NS: u64 = 1_000_000_000;
/// The first four bytes of an executable.
const ELF: u32 = u32::from_le_bytes(*b"\x7fELF");
const UNTOUCHED: u64 = 0x5555_5555_5555_5555;

/// Returns the address of the disk.
fn address() -> u16 {
    const DISK: u32 = 0x1042_1af4;
    pci::functions().iter().find(|one| one.id == DISK).expect("a virtio disk").address
}

/// Starts a domain that was granted the disk and runs `code`.
fn start(address: u16, code: &[u8]) -> Arc<Domain> {
    let functions = [PciAddress(address)].into();
    let granted = Grants { functions, can_use_dma: true, ..domains::grants(0) };
    let domain = Domain::new("test", granted).expect("no memory for a domain");
    domain
        .load(IMAGE_BASE, 1, code, Protection::READ | Protection::EXECUTE)
        .expect("no memory for a domain");
    domain.start(IMAGE_BASE).expect("no memory for a domain");
    domain
}

/// Returns code that opens the disk.
fn opens(address: u16) -> [u8; 12] {
    let code = [&domains::first(u64::from(address))[..], &domains::does(Call::PciOpen)].concat();
    code.try_into().expect("two instructions")
}

/// A disk's registers, and a page with its queue, a header and a status.
///
/// ```text
/// page   0 descriptors | 0x100 available | 0x200 used | 0x300 header | 0x310 status
/// ```
struct Disk {
    common: (Registers, usize),
    notify: (Registers, usize),
    page: DmaBuffer,
    submitted: u16,
}

const AVAILABLE: usize = 0x100;
const USED: usize = 0x200;
const HEADER: usize = 0x300;
const STATUS: usize = 0x310;

impl Disk {
    /// Sets its queue up, in memory that is lent to `window`.
    fn new(address: u16, window: &Arc<Window>) -> Disk {
        let mut page = DmaBuffer::allocate(4096).expect("no memory");
        let loan = page.lend(window).expect("no memory");
        page.keep(loan);
        let (common, _) = structure(address, 1);
        let (notify, multiplier) = structure(address, 2);
        let mut disk = Disk { common, notify, page, submitted: 0 };
        disk.set(20, 1, 3);
        // VERSION_1 and ACCESS_PLATFORM, bits 32 and 33.
        disk.set(8, 4, 1);
        disk.set(12, 4, 3);
        disk.set(20, 1, 0xb);
        disk.set(22, 2, 0);
        disk.set(24, 2, 8);
        let base = disk.page.device_address();
        for (register, area) in [(32, 0), (40, AVAILABLE), (48, USED)] {
            let at = base + area as u64;
            disk.set(register, 4, at & 0xffff_ffff);
            disk.set(register + 4, 4, at >> 32);
        }
        disk.set(28, 2, 1);
        disk.set(20, 1, 0xf);
        let (registers, at) = disk.common;
        assert_eq!(registers.read(at + 20, 1), 0xf, "the disk does not agree");
        disk.notify.1 += registers.read(at + 30, 2) as usize * multiplier;
        disk
    }

    fn set(&self, register: usize, width: usize, value: u64) {
        self.common.0.write(self.common.1 + register, width, value);
    }

    /// Makes the disk read its first sector to `target`.
    fn read_to(&mut self, target: u64) {
        self.read(&[(target, 512)]);
    }

    /// Makes the disk read its first sector to `pieces`, each an address and a number of bytes.
    fn read(&mut self, pieces: &[(u64, u64)]) {
        const NEXT: u64 = 1;
        const WRITE: u64 = 2;
        let base = self.page.device_address();
        let header = (base + HEADER as u64, 16, NEXT);
        let status = (base + STATUS as u64, 1, WRITE);
        let pieces = pieces.iter().map(|&(address, bytes)| (address, bytes, NEXT | WRITE));
        let chain = [header].into_iter().chain(pieces).chain([status]);
        for (index, (address, bytes, flags)) in chain.enumerate() {
            let next = index as u64 + 1;
            let rest: u64 = bytes | flags << 32 | next << 48;
            self.store(16 * index, address);
            self.store(16 * index + 8, rest);
        }
        self.submitted += 1;
        // Each entry of the ring is descriptor 0; the index stands before them, behind the flags.
        self.store(AVAILABLE, u64::from(self.submitted) << 16);
        self.notify.0.write(self.notify.1, 2, 0);
    }

    /// Stores the word at `offset` of the page, after all earlier stores.
    fn store(&self, offset: usize, word: u64) {
        self.page.words()[offset / 8].store(word, Release);
    }

    /// Returns whether the disk has answered all requests.
    fn has_answered(&self) -> bool {
        (self.page.words()[USED / 8].load(Acquire) >> 16) as u16 == self.submitted
    }

    fn wait(&self) {
        let until = time::now_ns() + 10 * SECOND_NS;
        while !self.has_answered() {
            assert!(time::now_ns() < until, "the disk does not answer");
            thread::yield_now();
        }
    }
}

/// Returns the virtio structure of that type, and the long behind it.
fn structure(address: u16, kind: u32) -> ((Registers, usize), usize) {
    let read = |at, bytes| pci::read_part(&pci::Ports, address, at, bytes);
    let mut at = read(0x34, 1) as u16;
    while read(at, 1) != 9 || read(at + 3, 1) != kind {
        at = read(at + 1, 1) as u16;
        assert_ne!(at, 0, "no structure {kind}");
    }
    let bar = device::map_bar(address, read(at + 4, 1) as u8).expect("a BAR");
    ((bar, read(at + 8, 4) as usize), read(at + 16, 4) as usize)
}

/// Tests that a driver that closes its buffers may make others: 20 times 8 pages, which its grant of 64 does not hold at once.
pub fn closed_buffers_are_given_back() {
    const BUFFER_BYTES: u64 = 8 * 4096;
    // mov ebp, 20; 1: DmaAllocate; test eax, eax; jnz 2f; mov rdi, rdx; Close; dec ebp; jnz 1b; 2: ud2
    let code = [
        &opens(address())[..],
        &[0xbd, 20, 0, 0, 0],
        &domains::first(BUFFER_BYTES),
        &domains::does(Call::DmaAllocate),
        &[0x85, 0xc0, 0x75, 14, 0x48, 0x89, 0xd7],
        &domains::does(Call::Close),
        &[0xff, 0xcd, 0x75, 0xe2, 0x0f, 0x0b],
    ]
    .concat();
    let end = start(address(), &code).wait_end(None).expect("an end");
    assert!(end.cause.starts_with("exception 6"), "{}", end.cause);
    assert_eq!(end.registers.rbp, 0, "a buffer was refused: {}", end.registers.rax);
}

/// Tests that a frame is reached only while it is lent and only as it is lent, and that a component whose device aims
/// elsewhere is ended with the cause.
pub fn only_what_is_lent_is_reached() {
    let address = address();
    let code = [&opens(address)[..], &domains::does(Call::Current), &[0xeb, 0xfe]].concat();
    for access in [None, Some(Access::Read)] {
        let domain = start(address, &code);
        while domain.usage().calls < 2 {
            thread::yield_now();
        }
        let window = domain.lending().window.expect("an IOMMU");
        let mut disk = Disk::new(address, &window);
        let target = DmaBuffer::allocate(4096).expect("no memory");
        let frame = target.frames().next().expect("a frame");
        window.lend([(frame, Access::Write)].into_iter()).expect("no memory");
        disk.read_to(target.device_address());
        disk.wait();
        window.take_back([frame].into_iter());
        let first = &target.words()[0];
        assert_eq!(first.load(Acquire) as u32, ELF, "the disk is this kernel's file");
        first.store(UNTOUCHED, Release);
        let lent = access.map(|access| (frame, access));
        window.lend(lent.into_iter()).expect("no memory");
        disk.read_to(target.device_address());
        let end = domain.wait_end(Some(time::now_ns() + 10 * SECOND_NS)).expect("an end");
        let said = format!(
            "DMA that was not lent: write of {:#x} by device 00:{:02x}.{}",
            target.device_address(),
            address >> 3,
            address & 7
        );
        assert!(end.cause.starts_with(&said), "{}", end.cause);
        assert!(domain.usage().refused.iter().any(|&(name, count)| name == "dma" && count > 0));
        window.take_back(lent.map(|(frame, _)| frame).into_iter());
        assert_eq!(first.load(Acquire), UNTOUCHED, "the device wrote what was not lent");
    }
}

/// Tests that all loans of a client come back when the driver lets go of them. Without an IOMMU those of a client that has ended
/// come back with the driver otherwise, because its devices may still use the frames.
pub fn loans_come_back() {
    let buffer = DmaBuffer::allocate(4096).expect("no memory");
    let frame = buffer.frames().next().expect("a frame");
    let references = || frames::references(frame).load(Acquire);
    let window = Window::new().expect("no memory");
    for to in [None, window].map(Lending::new) {
        let has_window = to.window.is_some();
        let lent = || [(frame, Access::Write); 3].into_iter();
        let loans = Loans::new(to.clone());
        loans.lend(lent()).expect("no memory");
        assert_eq!(references(), 4);
        loans.take_back_all();
        loans.take_back(&mut [frame]);
        assert_eq!(references(), 1);
        loans.lend(lent()).expect("no memory");
        drop(loans);
        assert_eq!(references(), if has_window { 1 } else { 4 });
        drop(to);
        assert_eq!(references(), 1);
    }
}

/// Tests that a device that writes to the address of interrupt messages raises only its own interrupts. Only messages in
/// the new format are tried: QEMU 7.2 lets those in the old format always pass, and it records no refusal.
pub fn only_its_own_interrupts_are_raised() {
    let address = address();
    let code = [&opens(address)[..], &domains::does(Call::Current), &[0xeb, 0xfe]].concat();
    let domain = start(address, &code);
    while domain.usage().calls < 2 {
        thread::yield_now();
    }
    let window = domain.lending().window.expect("an IOMMU");
    let mut disk = Disk::new(address, &window);
    let rest = disk.page.device_address() + 0x400;
    let (victim, message) = Interrupt::message(7, None).expect("a vector");
    for vector in [u64::from(message.data), 0, 8, 14, 0xf2, 0xff] {
        // The last four words of the sector are each a message of the vector's entry.
        disk.read(&[(rest, 496), (0xfee0_0010 | vector << 5, 16)]);
        let until = time::now_ns() + SECOND_NS;
        while !disk.has_answered() && time::now_ns() < until {
            thread::yield_now();
        }
    }
    let soon = Some(time::now_ns() + 1_000_000);
    assert_eq!(
        victim.wait(soon, thread::Sleep::Uninterruptible),
        sync::Outcome::TimedOut,
        "a message of no route came"
    );
    domain.kill("test");
    let end = domain.wait_end(None).expect("an end");
    assert!(end.cause == "test" || end.cause.contains("interrupt message"), "{}", end.cause);
}

/// Registers that a component has mapped are not accessed by the kernel as if they were memory: each way to name memory
/// of another space is refused.
pub fn registers_are_no_memory() {
    let address = address();
    // The code is PciBar of BAR 4 and ud2; rdi then has the address.
    let bar = [&domains::first(u64::from(address))[..], &domains::second(4)].concat();
    let code = [&opens(address)[..], &bar, &domains::does(Call::PciBar), &[0x0f, 0x0b]];
    let domain = start(address, &code.concat());
    let end = domain.wait_end(None).expect("an end");
    assert!(end.cause.starts_with("exception 6"), "{}", end.cause);
    let at = end.registers.rdi;
    let space = domain.space();
    let mut bytes = [0; 64];
    assert_eq!(space.read(at, &mut bytes).expect_err("no memory").done, 0);
    assert_eq!(space.write(at, &bytes).expect_err("no memory").done, 0);
    assert!(space.zero(at, 8).is_err() && space.atomic_load(at).is_err());
    assert!(space.compare_exchange(at, 0, 0).is_err());
    assert!(space.copy_in_string(at, &mut bytes).is_err());
    assert!(space.query(at).is_none());
    assert_eq!(space.calls(at, 8).count(), 0);
    let rights = calls::MAY_READ | calls::MAY_WRITE;
    let window = nucleus::capability::Window::new(space.inner(), at, 4096, rights)
        .expect("a range of programs");
    for access in [program::Access::Read, program::Access::Write] {
        assert_eq!(window.copy((space.inner(), IMAGE_BASE), 0, 64, access), 0);
    }
}

/// Tests that a driver cannot set the destination of its device's interrupts.
pub fn message_table_is_not_mapped() {
    let address = address();
    // PciBar of BAR 1, which has the table; then a write there.
    let bar = [&domains::first(u64::from(address))[..], &[0xbe, 1, 0, 0, 0]].concat();
    let code = [
        &opens(address)[..],
        &bar,
        &domains::does(Call::PciBar),
        &[0x89, 0x07],
        &domains::does(Call::Exit),
    ];
    let domain = start(address, &code.concat());
    let end = domain.wait_end(None).expect("an end");
    assert!(end.cause.starts_with("page fault: Write"), "{}", end.cause);
    assert!(domain.usage().refused.is_empty());
}

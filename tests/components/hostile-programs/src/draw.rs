//! Xorshift numbers, and the values drawn by them: handles, addresses and registers that may do harm.
use calls::{SERVER_BASE, SERVER_END, SERVICE};
use core::{
    mem::offset_of,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};
use program::{Registers, USER_END};
use xorshift::Xorshift;

/// First address of the programs' code and of their data.
pub const CODE: u64 = 0x10_0000;
pub const DATA: u64 = 0x20_0000;
/// Pages from [`CODE`] and from [`DATA`] on that operations are about, mostly.
const NEAR_PAGES: usize = 24;
const PAGE: u64 = 4096;
/// Contexts, each in a page of its own.
const CONTEXTS: usize = 6;
/// The areas of the nucleus: the direct map, stacks, heap, device registers, the port map, the image.
pub const NUCLEUS: [u64; 6] = [
    0xffff_8000_0000_0000,
    0xffff_c000_0000_0000,
    0xffff_c800_0000_0000,
    0xffff_d000_0000_0000,
    0xffff_d800_0000_0000,
    0xffff_ffff_8020_0000,
];

/// Values that the threads have got and tell each other.
#[derive(Debug)]
pub struct Kept<const COUNT: usize>([AtomicU64; COUNT]);

impl<const COUNT: usize> Kept<COUNT> {
    const fn new() -> Kept<COUNT> {
        Kept([const { AtomicU64::new(0) }; COUNT])
    }
    /// Keeps `value` in a random place. Returns what was there.
    pub fn keep(&self, random: &mut Xorshift, value: u64) -> u64 {
        self.0[random.below(COUNT)].swap(value, Relaxed)
    }
    /// Returns one of the values; 0 if there is none in that place.
    pub fn any(&self, random: &mut Xorshift) -> u64 {
        self.0[random.below(COUNT)].load(Relaxed)
    }
}

/// Handles of spaces.
pub static SPACES: Kept<8> = Kept::new();
/// Handles of regions.
pub static REGIONS: Kept<8> = Kept::new();
/// Addresses of pages that may be unmapped at any time.
pub static PAGES: Kept<16> = Kept::new();
/// Numbers of threads.
pub static THREADS: Kept<16> = Kept::new();
/// Values that calls returned.
static RESULTS: Kept<32> = Kept::new();

#[repr(C, align(4096))]
struct Page([AtomicU64; 512]);

static OWN: [Page; CONTEXTS] = [const { Page([const { AtomicU64::new(0) }; 512]) }; CONTEXTS];

/// Notes a value that a call returned.
pub fn note(random: &mut Xorshift, value: u64) {
    RESULTS.keep(random, value);
}

/// Returns the address of a context that stays mapped, as a rule.
pub fn own_context(random: &mut Xorshift) -> u64 {
    context(random.below(CONTEXTS))
}

/// Returns the address of the context of that number.
pub fn context(number: usize) -> u64 {
    OWN[number].0.as_ptr() as u64
}

/// Writes `registers` to the page at `address`, if it is one of [`own_context`].
pub fn write_context(address: u64, registers: &Registers) {
    let Some(page) = OWN.iter().find(|page| page.0.as_ptr() as u64 == address) else { return };
    let Registers { r15, r14, r13, r12, rbp, rbx, r11, r10, r9, r8, .. } = *registers;
    let Registers { rax, rcx, rdx, rsi, rdi, rip, rflags, rsp, .. } = *registers;
    let words = [r15, r14, r13, r12, rbp, rbx, r11, r10, r9, r8];
    let words = words.into_iter().chain([rax, rcx, rdx, rsi, rdi, rip, rflags, rsp]);
    page.0.iter().zip(words).for_each(|(place, word)| place.store(word, Relaxed));
}

/// Returns the rax of a context.
pub fn rax_of(number: usize) -> u64 {
    OWN[number].0[offset_of!(Registers, rax) / 8].load(Relaxed)
}

/// Returns the rip of a context.
pub fn rip_of(number: usize) -> u64 {
    OWN[number].0[offset_of!(Registers, rip) / 8].load(Relaxed)
}

/// Changes one word of one context.
pub fn spoil_context(random: &mut Xorshift) {
    let value = word(random);
    OWN[random.below(CONTEXTS)].0[random.below(18)].store(value, Relaxed);
}

/// Returns an address of a program: near the code and data, seldom at an end of the addresses.
pub fn program_address(random: &mut Xorshift) -> u64 {
    let page = random.below(NEAR_PAGES) as u64 * PAGE;
    match random.below(16) {
        0 => page,
        1 => USER_END - page,
        2 => random.next() >> 17 & !0xfff,
        3 => (random.next() >> 17) & !0x1f_ffff,
        4..=8 => CODE + page,
        _ => DATA + page,
    }
}

/// Returns an address of the component: of a page that it has or had, or of its image.
pub fn own_address(random: &mut Xorshift) -> u64 {
    match random.below(4) {
        0 => own_context(random),
        1 => SERVER_BASE + random.below(64) as u64 * PAGE,
        _ => PAGES.any(random) + random.below(4) as u64 * PAGE,
    }
}

/// Returns an address that no component has.
fn foreign_address(random: &mut Xorshift) -> u64 {
    let offset = random.below(4096) as u64 * PAGE + random.below(2) as u64 * 8;
    match random.below(8) {
        0 => [1 << 47, 1 << 63, SERVER_END, SERVER_END - PAGE][random.below(4)],
        1 => USER_END + random.below(8192) as u64,
        index => NUCLEUS[(index - 2) % NUCLEUS.len()] + offset,
    }
}

/// Returns any address.
pub fn address(random: &mut Xorshift) -> u64 {
    match random.below(8) {
        0..=3 => own_address(random),
        4 => program_address(random),
        5 => foreign_address(random),
        6 => own_address(random) + random.below(4096) as u64,
        _ => program_address(random) + random.below(4096) as u64,
    }
}

/// Returns the handle of a space, mostly.
pub fn space(random: &mut Xorshift) -> u64 {
    if random.once_in(16) { handle(random) } else { SPACES.any(random) }
}

/// Returns any handle: one that a call returned, or a forged one.
pub fn handle(random: &mut Xorshift) -> u64 {
    match random.below(6) {
        0 => SPACES.any(random),
        1 => REGIONS.any(random),
        2 => RESULTS.any(random),
        3 => (1 + random.below(4) as u64) << 16 | random.below(64) as u64,
        4 => calls::NO_HANDLE,
        _ => SERVICE + random.below(8) as u64,
    }
}

/// Returns any argument of a call.
pub fn word(random: &mut Xorshift) -> u64 {
    match random.below(8) {
        0 => random.below(16) as u64,
        1 => handle(random),
        2 => address(random),
        3 => foreign_address(random),
        4 => random.next(),
        5 => u64::MAX - random.below(3) as u64,
        6 => RESULTS.any(random),
        _ => random.below(1 << 20) as u64,
    }
}

/// Returns an instruction pointer: a piece of code, mostly.
fn instruction(random: &mut Xorshift) -> u64 {
    let piece = CODE + (random.below(crate::code::PIECES) * crate::code::PIECE) as u64;
    if random.once_in(16) { word(random) } else { piece }
}

/// Returns the registers of a program. Every second set can go the fast way into the program.
pub fn registers(random: &mut Xorshift) -> Registers {
    let mut some = || match random.below(4) {
        0 => word(random),
        _ => DATA + random.below(0x8000) as u64,
    };
    let mut registers =
        Registers { rax: some(), rdi: some(), rsi: some(), rsp: some(), ..Registers::default() };
    (registers.rbx, registers.rdx, registers.r8, registers.r15) = (some(), some(), some(), some());
    registers.rip = instruction(random);
    registers.rflags = if random.once_in(8) { random.next() } else { 0x202 | random.next() & 0xd5 };
    if random.once_in(2) {
        (registers.rcx, registers.r11) = (registers.rip, registers.rflags);
    }
    registers
}

//! The first stack: strings, the auxiliary vector, pointers (x86-64 psABI 3.4.1).
//!
//! From the top: eight zero bytes, the path, environment and argument strings; below a gap of random length, which is not
//! written, the platform's name and sixteen random bytes; then, aligned to 16: auxiliary vector, environment pointers, argument
//! pointers, and the number of arguments, where the stack pointer points.
use super::{
    Arguments, Strings,
    elf::{self, Headers},
    image::Image,
    place::ImagePlace,
};
use crate::{object::CLOCK_TICKS, rseq};
use alloc::{sync::Arc, vec::Vec};
use linux_raw_sys::general as raw;
use memory::{AddressSpace, MapFlags, MapRequest, MappingPlace as MapPlace, PAGE, region::page_of};
use rt::{memory::Charge, user::Protection};
use vfs::{Credentials, Errno};

/// Room on the first stack beyond its contents, as on Linux.
const SPARE_BYTES: u64 = 128 << 10;
const PLATFORM: &[u8] = b"x86_64\0";
/// Bytes of a signal frame besides the extended state, rounded up generously.
const SIGNAL_FRAME_BYTES: u64 = 1024;

/// The contents of the first stack.
pub struct Contents<'a> {
    /// The program's name as the caller gave it.
    pub path: &'a [u8],
    /// Arguments and environment.
    pub arguments: &'a Arguments,
    /// The loaded program.
    pub image: &'a Image,
    /// Address of the vDSO.
    pub vdso: Option<u64>,
    /// The credentials of the loaded program.
    pub credentials: &'a Credentials,
    /// The program has more rights than its caller.
    pub is_secure: bool,
}

/// A stack written from its top down, kept as the bytes of its end.
struct Builder {
    end: u64,
    bytes: Vec<u8>,
}

impl Builder {
    /// Makes a builder for contents that end at `end`, with room for `capacity` bytes.
    fn below(end: u64, capacity: usize) -> Builder {
        Builder { end, bytes: Vec::with_capacity(capacity) }
    }
    /// Adds `chunk` below all others and returns its address. Chunks are kept reversed.
    fn push(&mut self, chunk: &[u8]) -> u64 {
        self.bytes.extend(chunk.iter().rev());
        self.end - self.bytes.len() as u64
    }
    fn align(&mut self, to: u64) {
        while !(self.end - self.bytes.len() as u64).is_multiple_of(to) {
            self.bytes.push(0);
        }
    }
    fn finish(mut self) -> (u64, Vec<u8>) {
        self.bytes.reverse();
        (self.end - self.bytes.len() as u64, self.bytes)
    }
}

/// Maps the stack and writes its contents; returns the stack pointer.
///
/// # Errors
/// `ENOMEM` if it cannot be mapped, `E2BIG` if the limit does not allow it.
pub fn build(
    memory: &Arc<AddressSpace>,
    place: &ImagePlace,
    headers: &Headers,
    contents: &Contents<'_>,
) -> Result<u64, Errno> {
    let strings = &contents.arguments;
    let total = strings.arguments.bytes().len() + strings.environment.bytes().len();
    let pointers = (strings.arguments.count() + strings.environment.count()) * 8;
    let _charge = Charge::take(2 * (total + pointers))?;
    let mut layout = memory.layout();
    let mut strings = Builder::below(place.stack_end, total + contents.path.len() + 32);
    let path = push_strings(&mut strings, contents, &mut layout);
    let (strings_start, strings) = strings.finish();
    let mut builder = Builder::below(strings_start - place.stack_offset, pointers + 1024);
    let auxiliary = push_auxiliary(&mut builder, contents, path);
    let auxiliary_words = auxiliary.len();
    let vector = [pointer_words(contents, &layout), auxiliary].concat();
    builder.align(16);
    if vector.len() % 2 == 1 {
        builder.push(&[0; 8]);
    }
    let vector_bytes: Vec<u8> = vector.iter().flat_map(|word| word.to_le_bytes()).collect();
    let pointer = builder.push(&vector_bytes);
    layout.stack_start = pointer;
    let auxiliary_start = pointer + (vector.len() - auxiliary_words) as u64 * 8;
    layout.auxiliary = (auxiliary_start, pointer + vector.len() as u64 * 8);
    let (start, bytes) = builder.finish();
    map_stack(memory, place, headers, start)?;
    memory.write_bytes(start, &bytes)?;
    memory.write_bytes(strings_start, &strings)?;
    memory.set_layout(layout);
    Ok(pointer)
}

fn map_stack(
    memory: &Arc<AddressSpace>,
    place: &ImagePlace,
    headers: &Headers,
    start: u64,
) -> Result<(), Errno> {
    let bottom = page_of(start.saturating_sub(SPARE_BYTES));
    let mut protection = Protection::READ | Protection::WRITE;
    protection.set(Protection::EXECUTE, headers.has_executable_stack);
    let request = MapRequest {
        flags: MapFlags::GROWS_DOWN,
        ..MapRequest::anonymous(MapPlace::FixedFree(bottom), place.stack_end - bottom, protection)
    };
    memory.map(&request).map(|_| ())
}

/// Pushes path, environment and arguments, and aligns. Returns the path's address.
fn push_strings(
    builder: &mut Builder,
    contents: &Contents<'_>,
    layout: &mut memory::ProgramLayout,
) -> u64 {
    builder.push(&[0; 8]);
    let path: Vec<u8> = contents.path.iter().copied().chain([0]).collect();
    let path = builder.push(&path);
    let environment = contents.arguments.environment.bytes();
    layout.environment = (builder.push(environment), path);
    let empty = [0];
    let arguments = match contents.arguments.arguments.bytes() {
        [] => &empty[..],
        some => some,
    };
    layout.arguments = (builder.push(arguments), layout.environment.0);
    builder.align(16);
    path
}

/// Adds the data to which the auxiliary vector points, and returns the vector.
fn push_auxiliary(builder: &mut Builder, contents: &Contents<'_>, path: u64) -> Vec<u64> {
    let platform = builder.push(PLATFORM);
    let mut random = [0; 16];
    rt::entropy::fill(&mut random);
    let random = builder.push(&random);
    auxiliary(contents, path, platform, random)
}

fn auxiliary(contents: &Contents<'_>, path: u64, platform: u64, random: u64) -> Vec<u64> {
    let (image, who) = (contents.image, contents.credentials);
    let signal_stack = rt::user::extended_bytes() as u64 + SIGNAL_FRAME_BYTES;
    let mut pairs = Vec::with_capacity(26);
    if let Some(vdso) = contents.vdso {
        pairs.push((raw::AT_SYSINFO_EHDR, vdso));
    }
    pairs.extend([
        (raw::AT_MINSIGSTKSZ, signal_stack.next_multiple_of(64)),
        (raw::AT_HWCAP, processor_features()),
        (raw::AT_PAGESZ, PAGE),
        (raw::AT_CLKTCK, CLOCK_TICKS),
        (raw::AT_PHDR, image.table),
        (raw::AT_PHENT, elf::ENTRY_BYTES as u64),
        (raw::AT_PHNUM, image.table_entries),
        (raw::AT_BASE, image.interpreter_base),
        (raw::AT_FLAGS, 0),
        (raw::AT_ENTRY, image.entry),
        (raw::AT_UID, u64::from(who.user.real)),
        (raw::AT_EUID, u64::from(who.user.effective)),
        (raw::AT_GID, u64::from(who.group.real)),
        (raw::AT_EGID, u64::from(who.group.effective)),
        (raw::AT_SECURE, u64::from(contents.is_secure)),
        (raw::AT_RANDOM, random),
        (raw::AT_HWCAP2, further_features()),
        (raw::AT_RSEQ_FEATURE_SIZE, rseq::FEATURE_BYTES),
        (raw::AT_RSEQ_ALIGN, rseq::ALIGNMENT),
        (raw::AT_EXECFN, path),
        (raw::AT_PLATFORM, platform),
        (raw::AT_NULL, 0),
    ]);
    pairs.into_iter().flat_map(|(key, value)| [u64::from(key), value]).collect()
}

/// Returns the number of arguments and both lists of pointers as words.
fn pointer_words(contents: &Contents<'_>, layout: &memory::ProgramLayout) -> Vec<u64> {
    let (arguments, environment) = (&contents.arguments.arguments, &contents.arguments.environment);
    let mut words = Vec::with_capacity(arguments.count() + environment.count() + 4);
    words.push(arguments.count().max(1) as u64);
    match arguments.count() {
        0 => words.push(layout.arguments.0),
        _ => push_pointers(&mut words, arguments, layout.arguments.0),
    }
    words.push(0);
    push_pointers(&mut words, environment, layout.environment.0);
    words.push(0);
    words
}

fn push_pointers(words: &mut Vec<u64>, strings: &Strings, start: u64) {
    let mut at = start;
    for string in strings.iter() {
        words.push(at);
        at += string.len() as u64 + 1;
    }
}

/// Returns the value of `AT_HWCAP`: the feature bits of CPUID leaf 1, EDX.
fn processor_features() -> u64 {
    raw_cpuid::CpuId::new().get_feature_info().map_or(0, |_| u64::from(raw_cpuid::cpuid!(1).edx))
}

/// Returns the value of `AT_HWCAP2`: programs may set their segment bases themselves if the processor allows it and the nucleus
/// enables it.
fn further_features() -> u64 {
    const FSGSBASE: u64 = 2;
    let has_fsgsbase = raw_cpuid::CpuId::new()
        .get_extended_feature_info()
        .is_some_and(|features| features.has_fsgsbase());
    if has_fsgsbase { FSGSBASE } else { 0 }
}

//! The extended state in a handler's frame: XSAVE's image, with Linux's words in the software bytes and after it. The
//! processor saves it directly to the frame and loads it from there.
//!
//! ```text
//!   0 legacy area   464 magic 1, bytes in all, components, bytes of the image   512 header   576 ...   magic 2
//! ```
//! Without XSAVE there is the legacy area only. It alone is restored, too, if the words or the second magic were changed:
//! the further components are then in their initial state. Source: Linux `asm/sigcontext.h`,
//! `arch/x86/kernel/fpu/signal.c`.
use memory::AddressSpace;
use rt::user::Access;
use vfs::Errno;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

const LEGACY_BYTES: usize = 512;
const HEADER_END: u32 = 576;
const SOFTWARE_BYTES_AT: u64 = 464;
const MAGIC_1: u32 = 0x4650_5853;
const MAGIC_2: u32 = 0x4650_5845;
/// Number of attempts after the memory was made present, before the access is given up: other threads may unmap it
/// meanwhile.
const TRIES: u32 = 8;

/// `struct _fpx_sw_bytes` without its spare words.
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Words {
    magic: u32,
    bytes_in_all: u32,
    components: u64,
    image_bytes: u32,
    padding: u32,
}

/// The part that is written before the processor saves: the processor changes the header, and leaves the words.
#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct Head {
    words: Words,
    spare: [u64; 3],
    header: [u64; 8],
}

const _: () = assert!(SOFTWARE_BYTES_AT + size_of::<Head>() as u64 == HEADER_END as u64);

impl Words {
    /// Returns the words of this machine; `None` without XSAVE.
    fn ours() -> Option<Words> {
        let image_bytes = rt::user::extended_bytes() as u32;
        (image_bytes >= HEADER_END).then(|| Words {
            magic: MAGIC_1,
            bytes_in_all: image_bytes + size_of_val(&MAGIC_2) as u32,
            components: rt::user::extended_mask(),
            image_bytes,
            padding: 0,
        })
    }

    /// Returns the address of the second magic number of the state at `at`.
    fn second_magic(&self, at: u64) -> u64 {
        at.wrapping_add(u64::from(self.image_bytes))
    }
}

/// Returns the length of the state in a frame in bytes.
pub fn bytes() -> u64 {
    Words::ours().map_or(LEGACY_BYTES as u64, |words| u64::from(words.bytes_in_all))
}

/// Moves the calling thread's state to `at`, a multiple of 64: the thread then has the initial state, as a handler starts
/// with it (Linux `fpu__clear_user_states`).
///
/// # Errors
/// `EFAULT`, `ENOMEM`: the memory cannot be stored to. The thread keeps its state.
pub fn take(memory: &AddressSpace, at: u64) -> Result<(), Errno> {
    let words = Words::ours();
    for _ in 0..TRIES {
        if let Some(words) = words {
            let head = Head { words, spare: [0; 3], header: [0; 8] };
            memory.write(at.wrapping_add(SOFTWARE_BYTES_AT), &head)?;
            memory.write(words.second_magic(at), &MAGIC_2)?;
        }
        if memory.user().take_extended(at) {
            return Ok(());
        }
        memory.zero_bytes(at, rt::user::extended_bytes())?;
    }
    Err(Errno::EFAULT)
}

/// Loads the state at `at` into the calling thread; the initial state of a program if `at` is 0.
///
/// # Errors
/// `EFAULT`, `EINVAL`, `ENOMEM`: it cannot be read, or the processor would refuse it. The state is the initial one then.
pub fn restore(memory: &AddressSpace, at: u64) -> Result<(), Errno> {
    let result = match at {
        0 => Err(Errno::EFAULT),
        _ => load(memory, at),
    };
    if result.is_err() {
        rt::user::reset_extended();
    }
    if at == 0 { Ok(()) } else { result }
}

fn load(memory: &AddressSpace, at: u64) -> Result<(), Errno> {
    let Some(words) = Words::ours() else { return load_legacy(memory, at) };
    if !has_words(memory, at, &words)? {
        return load_legacy(memory, at);
    }
    for _ in 0..TRIES {
        if memory.user().load_extended(at) {
            return Ok(());
        }
        memory
            .populate(at, u64::from(words.image_bytes), Access::Read)
            .map_err(|_| Errno::EFAULT)?;
    }
    Err(Errno::EFAULT)
}

fn load_legacy(memory: &AddressSpace, at: u64) -> Result<(), Errno> {
    const FXRSTOR_ALIGNMENT: u64 = 16;
    let mut image = [0; LEGACY_BYTES];
    memory.read_bytes(at, &mut image)?;
    let is_taken = at.is_multiple_of(FXRSTOR_ALIGNMENT) && rt::user::load_extended(&image);
    if is_taken { Ok(()) } else { Err(Errno::EFAULT) }
}

fn has_words(memory: &AddressSpace, at: u64, ours: &Words) -> Result<bool, Errno> {
    let found: Words = memory.read(at.wrapping_add(SOFTWARE_BYTES_AT))?;
    let is_ours = found.magic == ours.magic
        && found.bytes_in_all == ours.bytes_in_all
        && found.image_bytes == ours.image_bytes;
    Ok(is_ours && memory.load_word(ours.second_magic(at))? == MAGIC_2)
}

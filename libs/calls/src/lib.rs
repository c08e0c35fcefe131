//! Kernel calls: the interface by which an isolated component (process world) asks the nucleus for its operations.
//!
//! A call is `syscall` with the [`Call`] in rax and arguments in rdi, rsi, rdx, r10, r8, r9. The answer in rax is a [`Status`],
//! 0 for success; values are returned in rdi, rsi, rdx. All other registers but rcx and r11 are kept. A deadline is in
//! monotonic nanoseconds, [`FOREVER`] for none.
//!
//! Messages travel in the same registers both ways: header in rsi, words 0 to 3 in rdx, r10, r8, r9. On entry the handle is in
//! rdi and the deadline in rbx; on return the badge is in rdi. Words 4 to 63 are in the thread's message area, from word 4 on;
//! the address of the area is given when the thread is started. A capability that goes along is in r12: on entry the handle to
//! send ([`NO_HANDLE`] for none), on return the handle received.
//!
//! A handle names a capability in the component's own table. It is the slot and, above bit 16, the number of times the slot was
//! used, so that a stale handle names nothing.
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;

mod domain;
pub mod entered;
mod message;
mod quota;
pub mod space;

pub use domain::{CallSet, End, Grants, PortAccess, Usage};
pub use message::{message_in, message_out};
pub use program::PortStep;
use program::{DeviceError, Fault, NoMemory};
pub use quota::{Held, Lines, Quota, Verdict};

/// A deadline that never comes.
pub const FOREVER: u64 = u64::MAX;
/// The handle that stands for no capability.
pub const NO_HANDLE: u64 = u64::MAX;
/// The policy word that stands for the best policy that the component was granted.
pub const GRANTED: u64 = u64::MAX;
/// Handle of the endpoint at which a component serves: it receives there.
pub const SERVICE: u64 = 1 << 16;
/// Flag of [`Call::Call`] and [`Call::ReplyAndReceive`]: the message has no deadline, no capability and at most four words, so
/// it can pass in registers. Afterwards rbx and r13 to r15 are undefined. With [`Call::Signal`] the flag only lowers the cost.
pub const PLAIN: u64 = 1 << 31;
/// The number of [`Call::Run`] as a component passes it.
pub const RUN: u64 = Call::Run as u64 | PLAIN;
/// First address of the memory of a component that runs programs, which is in the upper half: the lower half is the program's.
/// There is what others have at [`SHARED_PAGE`].
pub const SERVER_BASE: u64 = 0xffff_e000_0000_0000;
/// First address behind.
pub const SERVER_END: u64 = SERVER_BASE + (1 << 39);
/// Handle of the memory that outlives a component, if it has such memory.
pub const KEPT: u64 = 1 << 16 | 1;
/// The page that a component reads instead of asking: it holds a [`SharedWord`] at each eight bytes. All components have the
/// same page, read-only.
pub const SHARED_PAGE: u64 = 0x40_0000;
/// First address of a component's image. The heap and all mappings are above it.
pub const IMAGE_BASE: u64 = 0x40_1000;
/// Start of the nucleus's mappings for a component ([`Call::Map`], registers, regions).
pub const MAPPINGS: u64 = 0x10_0000_0000;

/// Flag of the handle of a capability that goes along: it is moved, not copied. Its mapping is removed before it goes. If the
/// step fails before that, the handle names the capability again.
pub const MOVED: u64 = 1 << 63;
/// Flag of the handle of a region that goes along: its receiver may only read it.
pub const READ_ONLY: u64 = 1 << 62;
/// Right that a [`Call::Give`] passes on: serving at an endpoint.
pub const MAY_SERVE: u64 = 1;
/// Right that a [`Call::Give`] passes on: writing a region, or through a window.
pub const MAY_WRITE: u64 = 2;
/// Right that a window gives: reading through it.
pub const MAY_READ: u64 = 4;
/// The greatest number of pieces of a [`Call::CopyList`].
pub const COPY_LIST_MAX: usize = 16;

/// The greatest number of accesses of a [`Call::PortList`].
pub const PORT_LIST_MAX: usize = 32;

/// Does the accesses of a [`Call::PortList`] by `access`.
#[inline]
pub fn do_port_list(list: &mut [[u8; 8]], access: impl Fn(PortStep) -> u32) {
    for packed in list {
        let step = PortStep::unpack(*packed);
        *packed = PortStep { value: access(step), ..step }.pack();
    }
}

/// Declares the calls: name, number and documentation, and the conversion from the number.
macro_rules! calls {
    ($($(#[$meta:meta])* $name:ident = $number:literal,)+) => {
        /// A kernel call.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u64)]
        pub enum Call {
            $($(#[$meta])* $name = $number,)+
        }
        impl Call {
            /// Every call, in the order of their numbers.
            pub const ALL: &[Call] = &[$(Call::$name,)+];
            /// Returns the call of that number.
            pub const fn of(number: u64) -> Option<Call> {
                match number {
                    $($number => Some(Call::$name),)+
                    _ => None,
                }
            }
            /// Returns the call's name, as reports show it.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Call::$name => stringify!($name),)+
                }
            }
        }
    };
}

calls! {
    /// (handle, message): sends a message and blocks until the reply.
    Call = 0,
    /// (handle, message): replies to the call received there, if there is one, and receives.
    ReplyAndReceive = 1,
    /// (handle): blocks until a message or bits come.
    Receive = 2,
    /// (handle, message): replies to the call received there.
    Reply = 3,
    /// (handle, message): sends a message and blocks until it was received.
    Send = 4,
    /// (handle, bits): signals bits at an endpoint.
    Signal = 5,
    /// (handle): gives a capability back; its mapping is removed.
    Close = 6,
    /// (handle) -> (address, bytes, device's address or 0): maps a region that came in a message, or [`KEPT`];
    /// [`Status::Invalid`] if the handle names a window, [`Status::Unknown`] if it names a lender, [`Status::NotFound`] if it names
    /// something else.
    MapRegion = 7,
    /// (word, expected, deadline, 1 if a kick ends it): blocks while the word has the expected value; [`Status::TimedOut`],
    /// [`Status::Cancelled`].
    Wait = 8,
    /// (word, count) -> (woken): wakes threads that wait at a word.
    Wake = 9,
    /// (entry, stack pointer, argument in rdi, -, message area, policy) -> (thread): starts a thread.
    Spawn = 10,
    /// Ends the calling thread.
    Exit = 11,
    /// () -> (number): the number of the calling thread.
    Current = 12,
    /// (): gives the processor to other threads.
    Yield = 13,
    /// (thread): kicks a thread of the component, as rt's `kick`.
    Kick = 14,
    /// () -> (1 if a kick was pending): consumes a pending kick.
    TakeKick = 15,
    /// (thread, policy): sets a thread's policy, no better than the component was granted.
    SetPolicy = 16,
    /// (thread, mask) -> (1 if a processor of the mask exists): restricts a thread to the processors of the mask.
    SetAffinity = 17,
    /// (thread) -> (the words of a `CpuTime`): reads a thread's processor time.
    CpuTime = 18,
    /// (window, address, count, -, direction) -> (bytes): does a list of at most [`COPY_LIST_MAX`] copies, one after the other.
    /// Each entry has three words: address, offset, bytes.
    CopyList = 19,
    /// (bytes, alignment: 0 or a power of two up to 2 MiB) -> (address): maps zeroed memory, charged to the component.
    Map = 20,
    /// (address, bytes): unmaps pages and gives them back.
    Unmap = 21,
    /// (interrupt, endpoint, bits): binds an interrupt: it signals the bits at the endpoint whenever it comes; at once if it
    /// has come since the last wait.
    InterruptBind = 22,
    /// (address, bytes): fills memory with random bytes.
    Entropy = 23,
    /// (level 1 to 5, address, bytes): writes a line to the log.
    Log = 24,
    /// (address, bytes): ends all threads of the component, which is broken; the text is the reason.
    Panic = 25,
    /// (first, count) -> (1 if they are to be accessed by plain instructions): opens ports.
    PortsOpen = 26,
    /// (first, count): closes ports.
    PortsClose = 27,
    /// (port, width 1, 2, 4, -, word, number) -> (value): reads an opened port. If `word`, an address, is not 0, the 64 bits
    /// there become number << 32 | value, in one step with the access.
    PortRead = 28,
    /// (port, width, value, word, number): writes an opened port, with a receipt as [`Call::PortRead`].
    PortWrite = 29,
    /// (line) -> (handle): opens an interrupt line.
    InterruptOpen = 30,
    /// (handle, deadline): blocks until an interrupt comes.
    InterruptWait = 31,
    /// (handle): unmasks an interrupt line again.
    InterruptAcknowledge = 32,
    /// (handle): ends a wait for an interrupt that is under way, or the next one.
    InterruptWake = 33,
    /// (index) -> (address | vendor << 16 | device << 32 | subsystem << 48, class): describes a granted PCI function.
    PciFunction = 34,
    /// (address): opens a PCI function.
    PciOpen = 35,
    /// (address): closes a PCI function.
    PciClose = 36,
    /// (address, offset, width) -> (value): reads the configuration space of a function.
    PciRead = 37,
    /// (address, index) -> (address of its registers, bytes): maps a BAR.
    PciBar = 38,
    /// (address, entry) -> (handle of the interrupt): opens an entry of the MSI-X table.
    PciMsix = 39,
    /// (address) -> (entries): reads the length of the MSI-X table.
    PciMsixEntries = 40,
    /// (index) -> (base, bytes, line): describes a granted virtio-mmio transport.
    Transport = 41,
    /// (base, bytes) -> (address of its registers): opens a transport.
    TransportOpen = 42,
    /// (bytes) -> (address, device's address, handle): allocates memory that is shared with devices.
    DmaAllocate = 43,
    /// () -> (handle): makes a new endpoint, to be served by the component or lent to others.
    EndpointNew = 44,
    /// (handle, badge) -> (handle): makes the right to call and signal at an endpoint that the component may serve.
    EndpointBadge = 45,
    /// (bytes) -> (address, handle): makes a new region, zeroed, charged to the component.
    RegionNew = 46,
    /// (address, bytes) -> (length): copies the kernel command line, cut at so many bytes.
    CommandLine = 47,
    /// (address, count): does a list of at most [`PORT_LIST_MAX`] accesses of opened ports, all or none. Each has eight bytes
    /// in the form of [`PortStep::pack`], which then hold the value that was read.
    PortList = 48,
    /// (handle, rights, badge) -> (handle): makes a copy of a capability, of an endpoint or a region, that can be given to
    /// others and taken back ([`Call::Revoke`]). It has at most the rights given ([`MAY_SERVE`], [`MAY_WRITE`]). A right to
    /// call that is made from a right to serve gets the badge.
    Give = 49,
    /// (handle): takes back what [`Call::Give`] gave. The handle, and all handles of copies made of it by anyone, name nothing
    /// any more ([`Status::Gone`]); memory given this way is unmapped, and threads that wait by it at an endpoint go on. The
    /// component's end does the same. After [`Call::Close`] of the handle it stays given.
    Revoke = 50,
    /// (address, bytes, rights [`MAY_READ`], [`MAY_WRITE`]) -> (handle): opens a window on a range of the component's memory.
    /// It can be given to others, who copy through it, and is taken back like a [`Call::Give`].
    WindowOpen = 51,
    /// (window, address, offset, bytes, 1 to the window, 0 from it) -> (bytes): copies between the component's memory and the
    /// memory in the window. [`Status::Fault`] if either is shorter, after so many bytes.
    Copy = 52,
    /// () -> (space): makes the empty space of a program. Only for a component that runs programs.
    SpaceNew = 53,
    /// (space, operation, arguments) -> (values): does an [`space::SpaceOperation`].
    Space = 54,
    /// (context, space): enters the program whose [`Registers`](program::Registers) are at `context`, within a page, and returns
    /// at its next trap, as [`space`] says. rbx, rbp and r12 to r15 are the program's afterwards. It is called with [`RUN`]; without
    /// that flag it only prepares the thread and returns to the instruction before, to be called again.
    Run = 55,
    /// (table, count): registers fix-ups, each of three words: a page fault or protection fault of the component from the first
    /// address to before the second, for an address of a program, makes it go on at the third.
    Fixups = 56,
    /// (1 if wanted): makes [`Call::Run`] of the calling thread also return when it was moved or preempted, or ends that.
    ReportMoves = 57,
    /// (lender, list, count, 1 to take back): lends pages of the component's own memory to a driver's devices, or takes them back.
    /// Each of at most [`space::PAGE_LIST_MAX`] words is the address of a page, plus 1 if the device writes it. A page stays
    /// allocated as long as it is lent. The end of either component takes all back.
    Lend = 58,
}

/// A word of [`SHARED_PAGE`], by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedWord {
    /// The counter's value at monotonic time 0.
    CounterBase = 0,
    /// Nanoseconds per count, times 2^32.
    CounterFactor = 1,
    /// Wall clock minus monotonic clock, in nanoseconds.
    WallOffset = 2,
    /// Number of processors.
    Processors = 3,
}

/// The result of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Status {
    /// Success.
    Ok = 0,
    /// The deadline passed.
    TimedOut = 1,
    /// A kick ended a wait, or the server left a call unanswered.
    Cancelled = 2,
    /// The other side has ended.
    Gone = 3,
    /// The other side died; its successor serves the same endpoint.
    Restarted = 4,
    /// There is no call to reply to.
    NoCaller = 5,
    /// The call is not granted, or the handle names nothing of the right type.
    Refused = 6,
    /// No such device, region or interrupt.
    NotFound = 7,
    /// Memory was refused.
    NoMemory = 8,
    /// An address is outside the component's memory.
    Fault = 9,
    /// An argument is invalid.
    Invalid = 10,
    /// There is no such call.
    Unknown = 11,
}

impl Status {
    /// Returns the status of that number; [`Status::Unknown`] if there is none.
    pub const fn of(number: u64) -> Status {
        match number {
            0 => Status::Ok,
            1 => Status::TimedOut,
            2 => Status::Cancelled,
            3 => Status::Gone,
            4 => Status::Restarted,
            5 => Status::NoCaller,
            6 => Status::Refused,
            7 => Status::NotFound,
            8 => Status::NoMemory,
            9 => Status::Fault,
            10 => Status::Invalid,
            _ => Status::Unknown,
        }
    }
}

impl From<NoMemory> for Status {
    fn from(_: NoMemory) -> Status {
        Status::NoMemory
    }
}

impl From<Fault> for Status {
    fn from(_: Fault) -> Status {
        Status::Fault
    }
}

impl From<DeviceError> for Status {
    fn from(error: DeviceError) -> Status {
        match error {
            DeviceError::NotFound => Status::NotFound,
            DeviceError::Refused => Status::Refused,
            DeviceError::NoMemory => Status::NoMemory,
        }
    }
}

impl From<Status> for DeviceError {
    fn from(status: Status) -> DeviceError {
        match status {
            Status::NotFound => DeviceError::NotFound,
            Status::NoMemory => DeviceError::NoMemory,
            _ => DeviceError::Refused,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_done_in_order() {
        let step = |port| PortStep { port, width: 1, is_write: false, value: 0 }.pack();
        let done = core::cell::Cell::new(0);
        let mut list = [step(1), step(2)];
        do_port_list(&mut list, |step| {
            done.set(done.get() * 10 + u32::from(step.port));
            done.get()
        });
        assert_eq!(list.map(|packed| PortStep::unpack(packed).value), [1, 12]);
    }
}

//! Kernel calls: what an isolated component (process world) may ask of the nucleus, and how.
//!
//! `syscall` with the [`Call`] in rax and arguments in rdi, rsi, rdx, r10, r8, r9. The answer is in rax: a
//! [`Status`], 0 where all went well; values come in rdi, rsi, rdx. All other registers but rcx and r11
//! are kept. A deadline is monotonic nanoseconds, [`FOREVER`] for none.
//!
//! Messages travel in the same registers both ways: header in rsi, words 0 to 3 in rdx, r10, r8,
//! r9; going in, the handle is in rdi and the deadline in rbx; coming out, the badge is in rdi. Words 4 to 63
//! lie in the thread's message area from word 4 on, named when the thread was started. A capability
//! that goes along is in r12: the handle to send going in ([`NO_HANDLE`] for none), the
//! handle it got coming out.
//!
//! A handle names a capability of the component's own table: slot and, above bit 16, how often the
//! slot was used, so that a stale one names nothing.
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;

mod domain;
mod quota;

pub use domain::{CallSet, End, Grants, PortAccess, Usage};
pub use program::PortStep;
use program::{DeviceError, Fault, NoMemory};
pub use quota::{Held, Lines, Quota, Verdict};

/// No deadline.
pub const FOREVER: u64 = u64::MAX;
/// No capability goes along.
pub const NO_HANDLE: u64 = u64::MAX;
/// As a policy: the best that the component was granted.
pub const GRANTED: u64 = u64::MAX;
/// The handle of the endpoint where a component serves: it receives there.
pub const SERVICE: u64 = 1 << 16;
/// Added to [`Call::Call`] or [`Call::ReplyAndReceive`] where the partner is likely to be a thread of the same
/// component: a message without deadline and capability, after which rbx and r13 to r15 hold anything.
pub const HERE: u64 = 1 << 31;
/// The handle of the memory that outlives a component, where it has such.
pub const KEPT: u64 = 1 << 16 | 1;
/// First address of a component's image; the heap and what is mapped lie above it.
pub const IMAGE_BASE: u64 = 0x40_0000;
/// The start of the nucleus's mappings for a component ([`Call::Map`], registers, regions).
pub const MAPPINGS: u64 = 0x10_0000_0000;

/// Added to the handle of what goes along: it is not copied but moved. What it mapped is unmapped before it goes; where the
/// step fails before it has gone the handle names it again.
pub const MOVED: u64 = 1 << 63;
/// Added to the handle of a region that goes along: who gets it may read it only.
pub const READ_ONLY: u64 = 1 << 62;
/// Rights that a [`Call::Give`] leaves: to serve at an endpoint, to write a region.
pub const MAY_SERVE: u64 = 1;
/// As [`MAY_SERVE`]; of a window, too.
pub const MAY_WRITE: u64 = 2;
/// As [`MAY_SERVE`]: to read by a window.
pub const MAY_READ: u64 = 4;
/// Most pieces of a [`Call::CopyList`].
pub const COPY_LIST_MAX: usize = 16;

/// Most accesses of a [`Call::PortList`].
pub const PORT_LIST_MAX: usize = 32;

/// Does the accesses of a [`Call::PortList`] by `access`.
#[inline]
pub fn do_port_list(list: &mut [[u8; 8]], access: impl Fn(PortStep) -> u32) {
    for packed in list {
        let step = PortStep::unpack(*packed);
        *packed = PortStep { value: access(step), ..step }.pack();
    }
}

/// Declares the calls: name, number, documentation, and back from the number.
macro_rules! calls {
    ($($(#[$meta:meta])* $name:ident = $number:literal,)+) => {
        /// A kernel call.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u64)]
        pub enum Call {
            $($(#[$meta])* $name = $number,)+
        }
        impl Call {
            /// Every call.
            pub const ALL: &[Call] = &[$(Call::$name,)+];
            /// The call of that number.
            pub const fn of(number: u64) -> Option<Call> {
                match number {
                    $($number => Some(Call::$name),)+
                    _ => None,
                }
            }
            /// Its name, as reports have it.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Call::$name => stringify!($name),)+
                }
            }
        }
    };
}

calls! {
    /// (handle, message): blocks until the reply.
    Call = 0,
    /// (handle, message): replies to the call received there, if there is one, and receives.
    ReplyAndReceive = 1,
    /// (handle): blocks until there is a message or bits.
    Receive = 2,
    /// (handle, message): replies to the call received there.
    Reply = 3,
    /// (handle, message): blocks until received.
    Send = 4,
    /// (handle, bits).
    Signal = 5,
    /// (handle): gives a capability back; what it mapped is unmapped.
    Close = 6,
    /// (handle) -> (address, bytes, device's address or 0): maps a region that came in a message, or [`KEPT`];
    /// [`Status::Invalid`] where the handle names a window, [`Status::NotFound`] where it names something else.
    MapRegion = 7,
    /// (word, expected, deadline, 1 where a kick ends it): blocks while the word holds that; [`Status::TimedOut`],
    /// [`Status::Cancelled`].
    Wait = 8,
    /// (word, count) -> (woken).
    Wake = 9,
    /// (entry, stack pointer, argument in rdi, FS base, message area, policy) -> (thread).
    Spawn = 10,
    /// Ends the calling thread.
    Exit = 11,
    /// () -> (number of the calling thread).
    Current = 12,
    /// Gives the processor to others.
    Yield = 13,
    /// (thread): as rt's `kick`, for a thread of the component.
    Kick = 14,
    /// () -> (1 where a kick was pending): consumes it.
    TakeKick = 15,
    /// (thread, policy): no better than the component was granted.
    SetPolicy = 16,
    /// (thread, mask) -> (1 where one of the mask is there).
    SetAffinity = 17,
    /// (thread) -> (the words of a `CpuTime`).
    CpuTime = 18,
    /// () -> (processors, the current one).
    Processors = 19,
    /// (bytes) -> (address): zeroed memory, charged to the component.
    Map = 20,
    /// (address, bytes): gives pages back.
    Unmap = 21,
    /// () -> (counter at time 0, factor of 2^-32 ns, wall clock minus monotonic).
    Clock = 22,
    /// (address, bytes): fills memory with random bytes.
    Entropy = 23,
    /// (level 1 to 5, address, bytes): writes a line to the log.
    Log = 24,
    /// (address, bytes): the component is broken and says why; ends all of its threads.
    Panic = 25,
    /// (first, count) -> (1 where they are to be accessed by plain instruction): opens ports.
    PortsOpen = 26,
    /// (first, count): gives them back.
    PortsClose = 27,
    /// (port, width 1, 2, 4, -, word, number) -> (value): reads an opened port. Where `word`, an address, is not 0, the 64
    /// bits there become number << 32 | value; no end of the component comes between.
    PortRead = 28,
    /// (port, width, value, word, number): as [`Call::PortRead`].
    PortWrite = 29,
    /// (line) -> (handle): opens an interrupt line.
    InterruptOpen = 30,
    /// (handle, deadline).
    InterruptWait = 31,
    /// (handle).
    InterruptAcknowledge = 32,
    /// (handle): ends a wait under way, or the next.
    InterruptWake = 33,
    /// (index) -> (address | vendor << 16 | device << 32 | subsystem << 48, class).
    PciFunction = 34,
    /// (address): opens a function.
    PciOpen = 35,
    /// (address): closes it.
    PciClose = 36,
    /// (address, offset, width) -> (value).
    PciRead = 37,
    /// (address, index) -> (where its registers are mapped, bytes).
    PciBar = 38,
    /// (address, entry) -> (handle of the interrupt).
    PciMsix = 39,
    /// (address) -> (entries).
    PciMsixEntries = 40,
    /// (index) -> (base, bytes, line): a virtio-mmio transport.
    Transport = 41,
    /// (base, bytes) -> (where its registers are mapped).
    TransportOpen = 42,
    /// (bytes) -> (address, device's address, handle): memory shared with a device.
    DmaAllocate = 43,
    /// () -> (handle): a new endpoint, to be served by the component or lent to others.
    EndpointNew = 44,
    /// (handle, badge) -> (handle): the right to call and signal at an endpoint that the component may serve.
    EndpointBadge = 45,
    /// (bytes) -> (address, handle): a new region, zeroed, charged to the component.
    RegionNew = 46,
    /// (address, bytes) -> (length): the kernel command line, cut at so many bytes.
    CommandLine = 47,
    /// (address, count): does a list of at most [`PORT_LIST_MAX`] accesses of opened ports, all or none: each eight bytes
    /// as [`PortStep::pack`] makes them, which then have the value that was read.
    PortList = 48,
    /// (handle, rights, badge) -> (handle): a copy of a capability, an endpoint's or a region's, to be given to others and
    /// taken back ([`Call::Revoke`]): with no more than the rights ([`MAY_SERVE`], [`MAY_WRITE`]); a right to call made of one
    /// to serve gets the badge.
    Give = 49,
    /// (handle): takes back what [`Call::Give`] gave: the handle and all that was made of it by whomever name nothing any
    /// more ([`Status::Gone`]), the memory is nobody's who got it so, and who waits by it at an endpoint goes on. The
    /// component's end does the same. After [`Call::Close`] of the handle it stays given.
    Revoke = 50,
    /// (address, bytes, rights [`MAY_READ`], [`MAY_WRITE`]) -> (handle): a window on a range of the component's memory, to be
    /// given to others, who copy by it; taken back as after [`Call::Give`].
    WindowOpen = 51,
    /// (window, address, offset, bytes, 1 to the window, 0 from it) -> (bytes): copies between the component's memory and what
    /// the window shows. [`Status::Fault`] where either has less, after so many bytes.
    Copy = 52,
    /// (window, address, count, -, direction) -> (bytes): does a list of at most [`COPY_LIST_MAX`] copies, one after the other,
    /// each three words: address, offset, bytes.
    CopyList = 53,
    /// (interrupt, endpoint, bits): from now on the interrupt signals the bits there when it comes, at once where it has come
    /// since the last wait.
    InterruptBind = 54,
}

/// The result of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Status {
    /// Well.
    Ok = 0,
    /// The deadline passed.
    TimedOut = 1,
    /// A kick ended a wait; or the server let a call go unanswered.
    Cancelled = 2,
    /// The other side is no more.
    Gone = 3,
    /// The other side died; its successor listens.
    Restarted = 4,
    /// There is no call to reply to.
    NoCaller = 5,
    /// Not granted, or nothing of the kind is named by the handle.
    Refused = 6,
    /// No such device, region or interrupt.
    NotFound = 7,
    /// Memory was refused.
    NoMemory = 8,
    /// An address that is not the component's.
    Fault = 9,
    /// An argument makes no sense.
    Invalid = 10,
    /// No such call.
    Unknown = 11,
}

impl Status {
    /// The status of that number; [`Status::Unknown`] for none.
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

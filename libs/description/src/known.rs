//! The names that descriptions may use: interfaces, kinds of devices, groups of kernel calls.
use calls::Call;

/// The interfaces, each of which is a trait of the crate `interfaces`.
pub(super) const INTERFACES: [&str; 9] = [
    "audit_log",
    "block",
    "clock",
    "entropy",
    "file_system",
    "monitor",
    "network",
    "nic",
    "terminal",
];

/// Kinds of devices, and their virtio device types (VIRTIO 1.2, section 5).
pub(super) const DEVICES: [(&str, u32); 9] = [
    ("virtio:network", 1),
    ("virtio:block", 2),
    ("virtio:console", 3),
    ("virtio:entropy", 4),
    ("virtio:balloon", 5),
    ("virtio:gpu", 16),
    ("virtio:input", 18),
    ("virtio:socket", 19),
    ("virtio:file-system", 26),
];

/// Names for kernel calls that go together.
pub(super) const GROUPS: [(&str, &[Call]); 15] = [
    (
        "threads",
        &[
            Call::Spawn,
            Call::Exit,
            Call::Current,
            Call::Yield,
            Call::Kick,
            Call::TakeKick,
            Call::SetPolicy,
            Call::SetAffinity,
            Call::CpuTime,
            Call::Wait,
            Call::Wake,
        ],
    ),
    ("memory", &[Call::Map, Call::Unmap]),
    ("regions", &[Call::RegionNew, Call::MapRegion, Call::Close]),
    ("entropy", &[Call::Entropy]),
    ("log", &[Call::Log, Call::Panic, Call::CommandLine]),
    (
        "serve",
        &[
            Call::Receive,
            Call::Reply,
            Call::ReplyAndReceive,
            Call::EndpointNew,
            Call::EndpointBadge,
            Call::Signal,
            Call::Close,
        ],
    ),
    ("call", &[Call::Call, Call::Send, Call::Signal, Call::Close]),
    (
        "ports",
        &[Call::PortsOpen, Call::PortsClose, Call::PortRead, Call::PortWrite, Call::PortList],
    ),
    (
        "interrupts",
        &[
            Call::InterruptOpen,
            Call::InterruptWait,
            Call::InterruptAcknowledge,
            Call::InterruptWake,
            Call::InterruptBind,
            Call::Close,
        ],
    ),
    (
        "devices",
        &[
            Call::PciFunction,
            Call::PciOpen,
            Call::PciClose,
            Call::PciRead,
            Call::PciBar,
            Call::PciMsix,
            Call::PciMsixEntries,
            Call::Transport,
            Call::TransportOpen,
        ],
    ),
    ("dma", &[Call::DmaAllocate, Call::Close]),
    ("give", &[Call::Give, Call::Revoke, Call::Close]),
    ("lend", &[Call::Lend]),
    (
        "programs",
        &[Call::SpaceNew, Call::Space, Call::Run, Call::Fixups, Call::ReportMoves, Call::Close],
    ),
    ("windows", &[Call::WindowOpen, Call::Copy, Call::CopyList, Call::Revoke, Call::Close]),
];

/// Returns the calls that `name` stands for: those of a group, or the call of that name.
pub(super) fn calls_of(name: &str) -> Option<Vec<Call>> {
    if let Some((_, calls)) = GROUPS.iter().find(|(group, _)| *group == name) {
        return Some(calls.to_vec());
    }
    let single = Call::ALL.iter().find(|call| call.name() == name);
    single.map(|&call| vec![call])
}

//! The known words: components, kinds of devices, groups of kernel calls.
use calls::Call;

/// The worlds that a component can live in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Worlds {
    /// In the kernel image only.
    Kernel,
    /// Also as an executable of its own (`isolated/`).
    Both,
    /// As that only.
    Process,
}

/// A component.
pub(super) struct Known {
    pub(super) name: &'static str,
    pub(super) worlds: Worlds,
    /// Interfaces it can offer.
    pub(super) implements: &'static [&'static str],
    /// Interfaces it cannot do without.
    pub(super) uses: &'static [&'static str],
}

const fn known(
    name: &'static str,
    worlds: Worlds,
    implements: &'static [&'static str],
    uses: &'static [&'static str],
) -> Known {
    Known { name, worlds, implements, uses }
}

pub(super) const COMPONENTS: [Known; 10] = [
    known("posix", Worlds::Kernel, &[], &["block", "file_system", "terminal", "clock"]),
    known("ext4", Worlds::Kernel, &["file_system"], &["block"]),
    known("tmpfs", Worlds::Kernel, &["file_system"], &[]),
    known("virtio-blk", Worlds::Both, &["block"], &[]),
    known("virtio-console", Worlds::Both, &["terminal"], &[]),
    known("uart", Worlds::Both, &["terminal"], &[]),
    known("rtc", Worlds::Both, &["clock"], &[]),
    known("erring", Worlds::Process, &[], &[]),
    known("hostile-blk", Worlds::Process, &["block"], &[]),
    known("hostile-console", Worlds::Process, &["terminal"], &[]),
];

/// Kinds of devices, and what the supervisor calls them.
pub(super) const DEVICES: [(&str, &str); 3] = [
    ("virtio:block", "::supervisor::Device::Virtio(2)"),
    ("virtio:console", "::supervisor::Device::Virtio(3)"),
    ("virtio:entropy", "::supervisor::Device::Virtio(4)"),
];

/// Names for kernel calls that go together.
pub(super) const GROUPS: [(&str, &[Call]); 14] = [
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
            Call::Processors,
            Call::Wait,
            Call::Wake,
        ],
    ),
    ("memory", &[Call::Map, Call::Unmap]),
    ("regions", &[Call::RegionNew, Call::MapRegion, Call::Close]),
    ("time", &[Call::Clock]),
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
    ("windows", &[Call::WindowOpen, Call::Copy, Call::CopyList, Call::Revoke, Call::Close]),
];

/// The calls that `name` stands for: a group or a call of that name.
pub(super) fn calls_of(name: &str) -> Option<Vec<Call>> {
    if let Some((_, calls)) = GROUPS.iter().find(|(group, _)| *group == name) {
        return Some(calls.to_vec());
    }
    let single = Call::ALL.iter().find(|call| call.name() == name);
    single.map(|&call| vec![call])
}

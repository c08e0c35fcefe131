//! Feature bits (section 5.1.3), and the offloads that they stand for.
use interfaces::nic::Offloads;
use virtio::Device;

pub(crate) const CHECKSUM: u64 = 1 << 0;
pub(crate) const GUEST_CHECKSUM: u64 = 1 << 1;
pub(crate) const CONTROL_OFFLOADS: u64 = 1 << 2;
pub(crate) const MTU: u64 = 1 << 3;
pub(crate) const MAC: u64 = 1 << 5;
pub(crate) const GUEST_TSO4: u64 = 1 << 7;
pub(crate) const GUEST_TSO6: u64 = 1 << 8;
pub(crate) const GUEST_ECN: u64 = 1 << 9;
pub(crate) const HOST_TSO4: u64 = 1 << 11;
pub(crate) const HOST_TSO6: u64 = 1 << 12;
pub(crate) const HOST_ECN: u64 = 1 << 13;
pub(crate) const MERGED_BUFFERS: u64 = 1 << 15;
pub(crate) const STATUS: u64 = 1 << 16;
pub(crate) const CONTROL: u64 = 1 << 17;
pub(crate) const CONTROL_FILTER: u64 = 1 << 18;
pub(crate) const ANNOUNCE: u64 = 1 << 21;
pub(crate) const PAIRS: u64 = 1 << 22;
pub(crate) const CONTROL_MAC: u64 = 1 << 23;
pub(crate) const GUEST_USO4: u64 = 1 << 54;
pub(crate) const GUEST_USO6: u64 = 1 << 55;
pub(crate) const HOST_USO: u64 = 1 << 56;
pub(crate) const SPEED: u64 = 1 << 63;

/// Each feature that needs others, and those that it needs (section 5.1.3.1). A merged packet may need several buffers.
const NEEDS: [(u64, u64); 14] = [
    (GUEST_TSO4, GUEST_CHECKSUM | MERGED_BUFFERS),
    (GUEST_TSO6, GUEST_CHECKSUM | MERGED_BUFFERS),
    (GUEST_USO4, GUEST_CHECKSUM | MERGED_BUFFERS),
    (GUEST_USO6, GUEST_CHECKSUM | MERGED_BUFFERS),
    (GUEST_ECN, GUEST_TSO4),
    (HOST_TSO4, CHECKSUM),
    (HOST_TSO6, CHECKSUM),
    (HOST_USO, CHECKSUM),
    (HOST_ECN, HOST_TSO4),
    (CONTROL_FILTER, CONTROL),
    (CONTROL_MAC, CONTROL),
    (CONTROL_OFFLOADS, CONTROL),
    (ANNOUNCE, CONTROL | STATUS),
    (PAIRS, CONTROL),
];
const ALONE: u64 =
    CHECKSUM | GUEST_CHECKSUM | MTU | MAC | MERGED_BUFFERS | STATUS | CONTROL | SPEED;

/// Chooses the features to accept of `offered`: every known one, if those that it needs are offered.
pub(crate) fn choose(offered: u64) -> u64 {
    let mut chosen = offered & ALONE;
    for (feature, needed) in NEEDS {
        if offered & feature != 0 && chosen & needed == needed {
            chosen |= feature;
        }
    }
    chosen
}

const OFFLOADS: [(Offloads, u64); 10] = [
    (Offloads::SEND_CHECKSUM, CHECKSUM),
    (Offloads::SEND_TCP4, HOST_TSO4),
    (Offloads::SEND_TCP6, HOST_TSO6),
    (Offloads::SEND_ECN, HOST_ECN),
    (Offloads::SEND_UDP, HOST_USO),
    (Offloads::RECEIVE_CHECKSUM, GUEST_CHECKSUM),
    (Offloads::RECEIVE_TCP4, GUEST_TSO4),
    (Offloads::RECEIVE_TCP6, GUEST_TSO6),
    (Offloads::RECEIVE_ECN, GUEST_ECN),
    (Offloads::RECEIVE_UDP, GUEST_USO4 | GUEST_USO6),
];

/// Returns the offloads of these features.
pub(crate) fn offloads(features: u64) -> Offloads {
    let of_features = OFFLOADS.iter().filter(|(_, needed)| features & needed == *needed);
    of_features.fold(Offloads::empty(), |all, (offload, _)| all | *offload)
}

/// Returns the features of these offloads of reception.
pub(crate) fn guest_features(offloads: Offloads) -> u64 {
    let of_offloads = OFFLOADS
        .iter()
        .filter(|(offload, _)| Offloads::RECEIVE.contains(*offload) && offloads.contains(*offload));
    of_offloads.fold(0, |all, (_, features)| all | features)
}

/// Returns the known features that were negotiated.
pub(crate) fn known(device: &Device) -> u64 {
    let all = NEEDS.iter().fold(ALONE, |all, (feature, _)| all | feature);
    (0..u64::BITS).map(|bit| 1 << bit).filter(|bit| all & bit != 0 && device.has(*bit)).sum()
}

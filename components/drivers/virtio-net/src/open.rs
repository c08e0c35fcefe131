//! Opening a device: its configuration, its queues.
use crate::{
    control::{self, ControlQueue},
    features::{self, choose},
    header::LINK_BYTES,
    port::{NetPort, Parts, QueuePair},
    receive::{self, FRAME_BYTES, ReceiveMode, ReceiveRing},
    send::{self, SendRing},
};
use alloc::{format, string::String, sync::Arc, vec::Vec};
use interfaces::nic::{LinkState, MTU_MIN, MacAddress, NicInfo, PAYLOAD_OFFSET};
use rt::thread;
use virtio::{Candidate, Device, Error, QueuePlan, candidates, kind};

/// Offsets in the configuration space (section 5.1.4).
pub(crate) mod config {
    pub(crate) const MAC: usize = 0;
    pub(crate) const STATUS: usize = 6;
    pub(crate) const PAIRS: usize = 8;
    pub(crate) const MTU: usize = 10;
    pub(crate) const SPEED: usize = 12;
}

/// The greatest number of queue pairs of an interface. The system description grants memory and threads for this number.
const PAIRS_MAX: u16 = 4;
/// The greatest number of queue pairs that a device may have (section 5.1.4).
const DEVICE_PAIRS_MAX: u16 = 0x8000;
/// Entries of a queue.
const QUEUE_SIZE: u16 = 256;
/// The MTU of a device that names none.
const MTU_USUAL: u16 = 1500;
/// Value for an unknown speed.
const SPEED_MAX: u32 = i32::MAX as u32;

/// Opens every virtio network interface and starts its threads: `eth0`, `eth1` ... in the order of
/// [`virtio::candidates`]. One that cannot be used is named in the log and left out.
pub fn probe() -> Vec<Arc<NetPort>> {
    let mut ports = Vec::new();
    for candidate in candidates(kind::NETWORK) {
        match NetPort::open(candidate, format!("eth{}", ports.len())) {
            Ok(port) => ports.push(port),
            Err(error) => {
                log::error!("virtio-net: the interface at {candidate} is not used: {error}");
            }
        }
    }
    ports
}

impl NetPort {
    /// Opens one device and starts its threads.
    ///
    /// # Errors
    /// [`Error`].
    pub fn open(candidate: Candidate, name: String) -> Result<Arc<NetPort>, Error> {
        let device = Device::open_choosing(candidate, choose)?;
        let has_pairs = device.has(features::PAIRS);
        let offered = if has_pairs {
            u16::from_le_bytes(device.config(config::PAIRS)).clamp(1, DEVICE_PAIRS_MAX)
        } else {
            1
        };
        let wanted = offered.min(thread::processors().0.min(PAIRS_MAX.into()) as u16).max(1);
        // One vector for each pair, and one for commands and changes.
        let vectors = device.vectors(wanted + 1)?;
        let known = features::known(&device);
        let mode = ReceiveMode {
            offloads: features::offloads(known),
            is_merged: device.has(features::MERGED_BUFFERS),
        };
        let pairs = (0..wanted)
            .map(|pair| {
                let vector = NetPort::vector_of(pair.into(), vectors.len()) as u16;
                open_pair(&device, (pair, vector), mode)
            })
            .collect::<Result<Vec<QueuePair>, Error>>()?;
        let control = if device.has(features::CONTROL) {
            // The command queue is the last one.
            let index = 2 * offered;
            let (size, indirect, vector) = (control::QUEUE_SIZE, control::CHAIN, 0);
            Some(ControlQueue::new(device.queue(QueuePlan { index, size, indirect, vector })?)?)
        } else {
            None
        };
        let info = read_info(&device, (name, known), &pairs)?;
        NetPort::start(Parts { info, device, mode, pairs, vectors, control })
    }
}

fn open_pair(
    device: &Device,
    (pair, vector): (u16, u16),
    mode: ReceiveMode,
) -> Result<QueuePair, Error> {
    let size = QUEUE_SIZE;
    let plan = QueuePlan { index: 2 * pair, size, indirect: receive::CHAIN, vector };
    let receive = ReceiveRing::new(device.queue(plan)?, mode)?;
    let plan = QueuePlan { index: 2 * pair + 1, size, indirect: send::BUFFERS_MAX, vector };
    let send = SendRing::new(device.queue(plan)?)?;
    if send.max_segments() == 0 || receive.depth() < receive::CHAIN.into() {
        return Err(Error::NoQueue);
    }
    Ok(QueuePair::new(receive, send))
}

fn read_info(
    device: &Device,
    (name, known): (String, u64),
    pairs: &[QueuePair],
) -> Result<NicInfo, Error> {
    let mac: MacAddress =
        if device.has(features::MAC) { device.config(config::MAC) } else { random_mac() };
    let offered = if device.has(features::MTU) {
        u16::from_le_bytes(device.config(config::MTU))
    } else {
        MTU_USUAL
    };
    if offered < MTU_MIN {
        return Err(Error::Corrupt("its MTU is too small"));
    }
    let mtu_max = match device.has(features::MERGED_BUFFERS) {
        true => u16::MAX,
        false => (FRAME_BYTES - LINK_BYTES) as u16,
    };
    let speed = u32::from_le_bytes(device.config(config::SPEED));
    let speed = Some(speed).filter(|speed| device.has(features::SPEED) && *speed <= SPEED_MAX);
    let depths = pairs.iter().map(QueuePair::depths);
    let (buffers, depth) =
        depths.fold((0, 0), |sum, (receive, send)| (sum.0 + receive, sum.1 + send));
    Ok(NicInfo {
        name,
        mac,
        mtu: offered.min(mtu_max),
        link: LinkState::Down,
        speed,
        offloads: features::offloads(known),
        pairs: 1,
        pairs_max: pairs.len() as u16,
        max_segments: pairs.iter().map(QueuePair::max_segments).min().unwrap_or(0),
        headroom: PAYLOAD_OFFSET,
        depth,
        buffers,
    })
}

/// Returns a random address that is administered locally (IEEE 802).
fn random_mac() -> MacAddress {
    let mut mac = [0; 6];
    rt::entropy::fill(&mut mac);
    let [first, ..] = &mut mac;
    *first = *first & !1 | 2;
    mac
}

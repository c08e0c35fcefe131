//! [`KeptFlows`]: connections that no client knows of: those in TIME-WAIT, and half-open ones of listeners.
//!
//! Each has a slot in the second half of the [`KeptArea`]. A slot is written once and cleared when the connection is no more. Floods
//! find all slots taken: further connections are not kept, and end with their stack.
//!
//! ```text
//! slot   0 sum 64 | 8 kind 32, ports 16 16 | 16 address of this side 128 | 32 of the peer 128 | 48 claim on the port 128
//!       64 six words of the connection
//! ```
use super::area::KeptArea;
use crate::service::streams::{
    claims::{PortClaim, PortOrigin, PortStage},
    ends,
};
use alloc::{sync::Arc, vec::Vec};
use core::sync::atomic::{AtomicBool, Ordering};
use hash::Seed;
use interfaces::sockets::SocketFamilies;
use labels::SecrecyId;
use rt::{lock_class, sync::Mutex};
use tcp::{Flow, KEPT_WORDS};

lock_class! {
    static SLOTS = "inet.kept.slots";
}

const WORDS: usize = 8 + KEPT_WORDS;
const SLOT: usize = WORDS * 8;

/// The state of a kept flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlowStage {
    /// TIME-WAIT, with the claim on its port.
    Waiting(PortClaim),
    /// A SYN was answered that came by the interface of this number.
    HalfOpen(u32),
}

/// A kept connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeptFlow {
    pub(crate) flow: Flow,
    pub(crate) stage: FlowStage,
    /// Words of the connection: of [`tcp::TimeWait`] or of a listener's request.
    pub(crate) words: [u64; KEPT_WORDS],
}

const REUSES_ADDRESS: u64 = 4;
const REUSES_PORT: u64 = 8;
const CHOSEN: u64 = 16;
const ONE_ADDRESS: u64 = 32;
const ONE_INTERFACE: u64 = 64;

fn words_of_claim(claim: &PortClaim) -> [u64; 2] {
    let families = match claim.families {
        SocketFamilies::V4 => 0,
        SocketFamilies::V6 => 1,
        SocketFamilies::Both => 2,
    };
    let flag = |is_set: bool, flag: u64| u64::from(is_set) * flag;
    let bits = families
        | flag(claim.reuses_address, REUSES_ADDRESS)
        | flag(claim.reuses_port, REUSES_PORT)
        | flag(claim.origin == PortOrigin::Chosen, CHOSEN)
        | flag(claim.address.is_some(), ONE_ADDRESS)
        | flag(claim.interface.is_some(), ONE_INTERFACE);
    [bits, u64::from(claim.user) << 32 | u64::from(claim.interface.unwrap_or(0))]
}

fn claim_of_words(flow: &Flow, [bits, rest]: [u64; 2]) -> PortClaim {
    let has = |flag: u64| bits & flag != 0;
    PortClaim {
        families: match bits & 3 {
            0 => SocketFamilies::V4,
            1 => SocketFamilies::V6,
            _ => SocketFamilies::Both,
        },
        address: has(ONE_ADDRESS).then(|| ends::address(flow.local)),
        interface: has(ONE_INTERFACE).then_some(rest as u32),
        reuses_address: has(REUSES_ADDRESS),
        reuses_port: has(REUSES_PORT),
        user: (rest >> 32) as u32,
        stage: PortStage::Waiting,
        origin: if has(CHOSEN) { PortOrigin::Chosen } else { PortOrigin::Bound },
        // A stack with successors has no labels.
        label: SecrecyId::NONE,
    }
}

/// Returns the sum of the words of a slot. It is never zero, which is the sum of an empty slot.
fn sum_of(words: &[u64]) -> u64 {
    let seed = Seed::new([0x5a; 16]);
    words.iter().fold(0, |sum, word| seed.hash_number(sum ^ word)) | 1
}

impl KeptFlow {
    fn words(&self) -> [u64; WORDS] {
        let (kind, claim) = match &self.stage {
            FlowStage::Waiting(claim) => (1, words_of_claim(claim)),
            FlowStage::HalfOpen(interface) => (2, [0, (*interface).into()]),
        };
        let Flow { local, remote, local_port, remote_port, .. } = self.flow;
        let ports = u64::from(local_port) << 16 | u64::from(remote_port);
        let halves = |octets: [u8; 16]| {
            let all = u128::from_le_bytes(octets);
            [all as u64, (all >> 64) as u64]
        };
        let ([a, b], [c, d], [e, f]) = (halves(local), halves(remote), claim);
        let [g, h, i, j, k, l] = self.words;
        let mut words = [0, kind << 32 | ports, a, b, c, d, e, f, g, h, i, j, k, l];
        let [sum, rest @ ..] = &mut words;
        *sum = sum_of(rest);
        words
    }
    /// Returns the flow of a slot; `None` for an empty slot, or one that was being written.
    fn of_words(slot: &[u64; WORDS]) -> Option<KeptFlow> {
        let [sum, rest @ ..] = slot;
        let [first, a, b, c, d, e, f, words @ ..] = *rest;
        if *sum != sum_of(rest) {
            return None;
        }
        let octets = |low: u64, high: u64| (u128::from(high) << 64 | u128::from(low)).to_le_bytes();
        let flow = Flow {
            local: octets(a, b),
            remote: octets(c, d),
            local_port: (first >> 16) as u16,
            remote_port: first as u16,
            label: SecrecyId::NONE,
        };
        let stage = match first >> 32 {
            1 => FlowStage::Waiting(claim_of_words(&flow, [e, f])),
            2 => FlowStage::HalfOpen(f as u32),
            _ => return None,
        };
        Some(KeptFlow { flow, stage, words })
    }
}

/// The slots.
pub(crate) struct KeptFlows {
    area: Arc<dyn KeptArea>,
    free: Mutex<Vec<usize>>,
    /// A successor has the slots.
    is_left: AtomicBool,
}

/// A slot of a flow. Its drop clears it.
pub(crate) struct KeptSlot {
    flows: Arc<KeptFlows>,
    place: usize,
}

impl KeptFlows {
    /// Takes over the slots of `area`. Returns them, and the flows that are there.
    pub(super) fn new(area: Arc<dyn KeptArea>) -> (Arc<KeptFlows>, Vec<(KeptFlow, KeptSlot)>) {
        let (first, end) = (area.length() / 2, area.length());
        let mut found = Vec::new();
        let mut free = Vec::new();
        for place in (first..end.saturating_sub(SLOT - 1)).step_by(SLOT).rev() {
            let mut bytes = [[0; 8]; WORDS];
            area.read(place, bytes.as_flattened_mut());
            match KeptFlow::of_words(&bytes.map(u64::from_le_bytes)) {
                Some(flow) => found.push((flow, place)),
                None => free.push(place),
            }
        }
        let free = Mutex::new(&SLOTS, free);
        let flows = Arc::new(KeptFlows { area, free, is_left: AtomicBool::new(false) });
        let with_slot = |(flow, place)| (flow, KeptSlot { flows: Arc::clone(&flows), place });
        let found = found.into_iter().map(with_slot).collect();
        (flows, found)
    }
    /// Keeps a flow for as long as the slot that is returned; `None` if there is no slot.
    pub(crate) fn keep(self: &Arc<KeptFlows>, kept: &KeptFlow) -> Option<KeptSlot> {
        let place = self.free.lock().pop()?;
        if !self.is_left.load(Ordering::Relaxed) {
            self.area.write(place, kept.words().map(u64::to_le_bytes).as_flattened());
        }
        Some(KeptSlot { flows: Arc::clone(self), place })
    }
    /// Leaves the slots as they are, for a successor.
    pub(super) fn leave(&self) {
        self.is_left.store(true, Ordering::Relaxed);
    }
}

impl Drop for KeptSlot {
    fn drop(&mut self) {
        if !self.flows.is_left.load(Ordering::Relaxed) {
            self.flows.area.write(self.place, &[0; 8]);
        }
        self.flows.free.lock().push(self.place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_slot_keeps_everything(
            (local, remote, local_port, remote_port) in any::<([u8; 16], [u8; 16], u16, u16)>(),
            words in any::<[u64; KEPT_WORDS]>(),
            (reuses_address, reuses_port, is_chosen, has_address) in any::<(bool, bool, bool, bool)>(),
            (interface, user, number) in any::<(Option<u32>, u32, u32)>(),
            (families, is_waiting) in (0..3usize, any::<bool>()),
        ) {
            let flow = Flow { local, remote, local_port, remote_port, label: SecrecyId::NONE };
            let all = [SocketFamilies::V4, SocketFamilies::V6, SocketFamilies::Both];
            let claim = PortClaim {
                families: all[families],
                address: has_address.then(|| ends::address(local)),
                interface, reuses_address, reuses_port, user,
                stage: PortStage::Waiting,
                origin: if is_chosen { PortOrigin::Chosen } else { PortOrigin::Bound },
                label: SecrecyId::NONE,
            };
            let stage =
                if is_waiting { FlowStage::Waiting(claim) } else { FlowStage::HalfOpen(number) };
            let kept = KeptFlow { flow, stage, words };
            let mut slot = kept.words();
            prop_assert_eq!(KeptFlow::of_words(&slot), Some(kept));
            slot[3] ^= 1;
            prop_assert_eq!(KeptFlow::of_words(&slot), None);
            prop_assert_eq!(KeptFlow::of_words(&[0; WORDS]), None);
        }
    }
}

//! The labels of packets, for the network stack: numbers of secrecies, and the monitor's rules for interfaces.
use super::{Label, SECURITY, Security, SecuritySubject, check, enforced, initial};
use crate::base::credentials::{Capabilities, Credentials};
use alloc::{sync::Arc, vec::Vec};
use core::num::NonZeroU32;
use interfaces::{
    monitor::{Initial, ObjectAccess, Privileges},
    sockets::{LabelFault, LabelOption, LinkLabel, PacketLabels},
};
use labels::{Secrecy, SecrecyId, SecrecyRange, wire::PacketLabel};

/// The greatest number of secrecies, of which packets from other hosts can take some: a peer must not take the numbers of sockets.
const SECRECIES_MAX: usize = 1 << 17;
const SECRECIES_OF_PACKETS: usize = 1 << 12;

/// The labels of packets by the monitor's policy.
struct NetworkLabels;

/// Returns the labels of packets, if the system has a monitor.
pub fn packet_labels() -> Option<Arc<dyn PacketLabels>> {
    SECURITY.get().map(|_| Arc::new(NetworkLabels) as Arc<dyn PacketLabels>)
}

/// Returns the label of packets from a socket with a label, as their receiver is told of it (SO_PEERSEC).
pub fn of_packets(socket: &Label) -> Option<&'static Label> {
    let security = enforced()?;
    let secrecy = security.secrecy(socket.secrecy())?;
    let context = security.monitor.context(security.monitor.initial(Initial::Packet).ok()?);
    super::label(&context.with_range(SecrecyRange::single(secrecy))).ok()
}

/// Returns whether a program may change the network: it writes objects with the label of `initial netif`.
pub fn may_configure_network(who: &Credentials) -> bool {
    let may_write = || {
        enforced().is_none_or(|_| {
            let label = initial(Initial::Interface);
            label.is_ok_and(|label| check(&who.subject, label, ObjectAccess::Write).is_ok())
        })
    };
    who.has(Capabilities::NET_ADMIN) && may_write()
}

/// Returns whether a subject may know of a socket whose packets have a secrecy.
pub fn sees_socket(subject: &SecuritySubject, socket: SecrecyId) -> bool {
    let own = subject.label().secrecy();
    let Some(security) = enforced() else { return true };
    security.dominates(own, socket) || {
        let range = *security.monitor.context(subject.context()).range();
        let secrecy = security.secrecy(socket);
        secrecy.is_some_and(|secrecy| range.high().dominates(&secrecy))
            && security.has(subject, Privileges::READ_UP)
    }
}

impl Security {
    /// Returns the number of a secrecy; none if there is no number for it.
    pub(super) fn secrecy_number(&self, secrecy: &Secrecy, most: usize) -> Option<SecrecyId> {
        let known = self.secrecies.read().find(secrecy);
        known.or_else(|| self.secrecies.write().intern(secrecy, most).ok())
    }
    /// Returns the number of the secrecy of objects and subjects with a context.
    pub(super) fn secrecy_of(&self, context: labels::ContextId) -> SecrecyId {
        let secrecy = *self.monitor.context(context).range().low();
        // There are fewer contexts than numbers.
        self.secrecy_number(&secrecy, SECRECIES_MAX).unwrap_or(SecrecyId::TOLD)
    }
    fn secrecy(&self, number: SecrecyId) -> Option<Secrecy> {
        self.secrecies.read().get(number).copied()
    }
    fn dominates(&self, one: SecrecyId, other: SecrecyId) -> bool {
        let secrecies = self.secrecies.read();
        let both = secrecies.get(one).zip(secrecies.get(other));
        both.is_some_and(|(one, other)| one.dominates(other))
    }
}

impl PacketLabels for NetworkLabels {
    fn link(&self, name: &str) -> LinkLabel {
        let Some(security) = SECURITY.get() else { return LinkLabel::default() };
        let rule = security.monitor.link(name);
        let number =
            |secrecy| security.secrecy_number(secrecy, SECRECIES_MAX).unwrap_or(SecrecyId::TOLD);
        let (low, high) = (number(rule.range.low()), number(rule.range.high()));
        match rule.domain {
            None => LinkLabel::Single(low),
            Some(domain) => LinkLabel::Told { low, high, domain },
        }
    }
    fn dominates(&self, one: SecrecyId, other: SecrecyId) -> bool {
        SECURITY.get().is_some_and(|security| security.dominates(one, other))
    }
    fn written(
        &self,
        label: SecrecyId,
        domain: NonZeroU32,
        option: LabelOption,
    ) -> Option<Vec<u8>> {
        let secrecy = SECURITY.get()?.secrecy(label)?;
        option.written(&PacketLabel { domain: domain.get(), secrecy })
    }
    fn read(
        &self,
        bytes: &[u8],
        domain: NonZeroU32,
        option: LabelOption,
    ) -> Result<SecrecyId, LabelFault> {
        let secrecy = option.read(bytes, domain)?;
        let security = SECURITY.get().ok_or(LabelFault::Full)?;
        let number = security.secrecy_number(&secrecy, SECRECIES_OF_PACKETS);
        number.ok_or(LabelFault::Full)
    }
}

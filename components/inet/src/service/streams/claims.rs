//! [`PortClaim`]: the right of a socket to a port, and the rules for two of them.
use crate::{sockets::bindings::LocalPlace, tables::interface::InterfaceIndex};
use core::net::IpAddr;
use interfaces::sockets::SocketFamilies;
use labels::SecrecyId;

/// The stage of a socket that has a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PortStage {
    /// Bound, or connected.
    Open,
    /// It takes connections.
    Listening,
    /// TIME-WAIT.
    Waiting,
}

/// The origin of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PortOrigin {
    /// A program bound the port, or its listener's child has it.
    Bound,
    /// A connect chose the port. Others to different peers may share it.
    Chosen,
}

/// The claim of a socket on a port. Claims on one port mostly differ in their first fields, which are compared first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PortClaim {
    pub(crate) stage: PortStage,
    pub(crate) origin: PortOrigin,
    pub(crate) families: SocketFamilies,
    /// The local address; `None` for all.
    pub(crate) address: Option<IpAddr>,
    /// `SO_BINDTODEVICE`.
    pub(crate) interface: Option<u32>,
    pub(crate) reuses_address: bool,
    pub(crate) reuses_port: bool,
    pub(crate) user: u32,
    /// The secrecy. Sockets of another one have ports of their own.
    pub(crate) label: SecrecyId,
}

/// The strictness of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strictness {
    /// The program names the port.
    Named,
    /// The stack looks for a port: none that others may use, too.
    Searched,
}

impl PortClaim {
    pub(super) fn place(&self) -> LocalPlace {
        let interface = self.interface.map(InterfaceIndex);
        LocalPlace { families: self.families, address: self.address, interface }
    }
    /// Returns whether this claim cannot stand beside `other`, which was there before.
    pub(super) fn conflicts(&self, other: &PortClaim, strictness: Strictness) -> bool {
        if self.label != other.label || !self.place().meets(&other.place()) {
            return false;
        }
        if strictness == Strictness::Searched {
            return true;
        }
        let share_port = self.reuses_port
            && other.reuses_port
            && (other.stage == PortStage::Waiting || other.user == self.user);
        let share_address =
            self.reuses_address && other.reuses_address && other.stage != PortStage::Listening;
        !share_address && !share_port
    }
}

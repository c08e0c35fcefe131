//! [`PacketLabels`]: the labels of packets, and what may be done with them.
//!
//! A stack knows a secrecy by its number alone. Equal numbers are equal secrecies; about others it asks.
use alloc::vec::Vec;
use core::num::NonZeroU32;
use interfaces_macro::interface;
use labels::{
    Secrecy, SecrecyId,
    wire::{PacketLabel, calipso, cipso},
};

/// The secrecies that the packets of an interface may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkLabel {
    /// All of them have this one.
    Single(SecrecyId),
    /// Each packet tells its own (CIPSO, CALIPSO).
    Told {
        /// The least.
        low: SecrecyId,
        /// The greatest.
        high: SecrecyId,
        /// The domain of interpretation.
        domain: NonZeroU32,
    },
}

impl LinkLabel {
    /// Returns the secrecy of its packets, or [`SecrecyId::TOLD`].
    #[inline]
    pub fn of_packets(&self) -> SecrecyId {
        match self {
            LinkLabel::Single(label) => *label,
            LinkLabel::Told { .. } => SecrecyId::TOLD,
        }
    }
    /// Returns the greatest secrecy of its packets.
    pub fn high(&self) -> SecrecyId {
        match self {
            LinkLabel::Single(label) | LinkLabel::Told { high: label, .. } => *label,
        }
    }
}

/// In a system without labels.
impl Default for LinkLabel {
    fn default() -> LinkLabel {
        LinkLabel::Single(SecrecyId::NONE)
    }
}

/// The reason why the option of a packet is no label of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabelFault {
    /// It is malformed, or names a secrecy that this host cannot have.
    Malformed,
    /// Its domain of interpretation is another one.
    Domain,
    /// There is no number for it.
    Full,
}

/// The option that carries a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LabelOption {
    /// CIPSO, of IPv4.
    Cipso,
    /// CALIPSO, of IPv6.
    Calipso,
}

impl LabelOption {
    /// Returns the option that carries a label; `None` if the label does not fit.
    pub fn written(self, label: &PacketLabel) -> Option<Vec<u8>> {
        let written = match self {
            LabelOption::Cipso => cipso::encode(label),
            LabelOption::Calipso => calipso::encode(label),
        };
        written.ok()
    }
    /// Returns the secrecy that an option tells in a domain of interpretation.
    ///
    /// # Errors
    /// [`LabelFault::Malformed`], [`LabelFault::Domain`].
    pub fn read(self, bytes: &[u8], domain: NonZeroU32) -> Result<Secrecy, LabelFault> {
        let told = match self {
            LabelOption::Cipso => cipso::decode(bytes),
            LabelOption::Calipso => calipso::decode(bytes),
        };
        let told = told.map_err(|_| LabelFault::Malformed)?;
        match told.domain == domain.get() {
            true => Ok(told.secrecy),
            false => Err(LabelFault::Domain),
        }
    }
}

/// The labels of packets.
#[interface(direct)]
pub trait PacketLabels: Send + Sync {
    /// Returns the label of the interface called `name`.
    fn link(&self, name: &str) -> LinkLabel;
    /// Returns whether one secrecy dominates another.
    fn dominates(&self, one: SecrecyId, other: SecrecyId) -> bool;
    /// Returns the option of a secrecy, with its kind and its length; `None` if it cannot be told.
    fn written(&self, label: SecrecyId, domain: NonZeroU32, option: LabelOption)
    -> Option<Vec<u8>>;
    /// Returns the secrecy that an option tells, which begins with its kind and its length.
    ///
    /// # Errors
    /// [`LabelFault`].
    fn read(
        &self,
        bytes: &[u8],
        domain: NonZeroU32,
        option: LabelOption,
    ) -> Result<SecrecyId, LabelFault>;
}

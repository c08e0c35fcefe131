//! A request that concerns the tables, and the types of messages.
use crate::{
    NetErrno,
    base::{ExplainedErrno, INET, INET6},
    request::Asker,
    wire::{NetlinkMessage, Reply, flag},
};
use alloc::vec::Vec;
use interfaces::sockets::{EntryMode, NetworkAdministration};

/// Types of messages. Those of a kind of object are new, delete, get and, of interfaces, set, in this order.
pub(crate) mod kind {
    pub(crate) const NEW_LINK: u16 = 16;
    pub(crate) const DELETE_LINK: u16 = 17;
    pub(crate) const GET_LINK: u16 = 18;
    pub(crate) const SET_LINK: u16 = 19;
    pub(crate) const NEW_ADDRESS: u16 = 20;
    pub(crate) const DELETE_ADDRESS: u16 = 21;
    pub(crate) const GET_ADDRESS: u16 = 22;
    pub(crate) const NEW_ROUTE: u16 = 24;
    pub(crate) const DELETE_ROUTE: u16 = 25;
    pub(crate) const GET_ROUTE: u16 = 26;
    pub(crate) const NEW_NEIGHBOUR: u16 = 28;
    pub(crate) const DELETE_NEIGHBOUR: u16 = 29;
    pub(crate) const GET_NEIGHBOUR: u16 = 30;
    pub(crate) const NEW_RULE: u16 = 32;
    pub(crate) const DELETE_RULE: u16 = 33;
    pub(crate) const GET_RULE: u16 = 34;
    pub(crate) const NEW_NEIGHBOUR_TABLE: u16 = 64;
    pub(crate) const GET_NEIGHBOUR_TABLE: u16 = 66;
    pub(crate) const NEW_SETTINGS: u16 = 80;
    pub(crate) const DELETE_SETTINGS: u16 = 81;
    pub(crate) const GET_SETTINGS: u16 = 82;
    pub(crate) const GET_NEXT_HOP: u16 = 106;
    pub(crate) const GET_NEXT_HOP_BUCKET: u16 = 118;
    /// `RTM_MAX`.
    pub(crate) const LAST: u16 = 123;
    /// The kind of request, in the lowest bits.
    pub(crate) const OPERATION: u16 = 3;
    /// A request for information.
    pub(crate) const GET: u16 = 2;
}

/// A request that concerns the tables: the message, its family, and the program that asks.
#[derive(Clone, Copy)]
pub(crate) struct Inquiry<'r> {
    pub(crate) message: &'r NetlinkMessage<'r>,
    pub(crate) family: u8,
    pub(crate) asker: &'r Asker,
    pub(crate) network: &'r dyn NetworkAdministration,
    pub(crate) reply: Reply,
}

impl<'r> Inquiry<'r> {
    /// Returns the fixed head of the message, of `bytes` bytes.
    ///
    /// # Errors
    /// `EINVAL` if it is shorter.
    pub(crate) fn head(&self, bytes: usize) -> Result<&'r [u8], ExplainedErrno> {
        self.message.body.get(..bytes).ok_or(NetErrno::EINVAL.into())
    }
    /// Returns the head of messages of a dump, which `filter`ed or not.
    pub(crate) fn dump(&self, filter: Filtering) -> Reply {
        let filtered = if filter == Filtering::Done { flag::DUMP_FILTERED } else { 0 };
        Reply { flags: flag::MULTI | filtered, ..self.reply }
    }
    /// Returns the treatment of an entry that is there.
    pub(crate) fn mode(&self) -> EntryMode {
        let has = |bit: u16| self.message.flags & bit != 0;
        match (has(flag::CREATE), has(flag::REPLACE)) {
            (true, _) if has(flag::EXCLUSIVE) => EntryMode::Create,
            (true, true) => EntryMode::Replace,
            (true, false) if has(flag::APPEND) => EntryMode::Append,
            (true, false) => EntryMode::Prepend,
            (false, _) => EntryMode::Change,
        }
    }
    /// Describes the entries of a dump that are of a wanted family, those of IPv4 first.
    pub(crate) fn list<'t, T: 't>(
        &self,
        all: impl Iterator<Item = &'t T> + Clone,
        family: impl Fn(&T) -> u8,
        describe: impl Fn(&T) -> Vec<u8>,
    ) -> Vec<Vec<u8>> {
        let wanted = [INET, INET6].into_iter().filter(|one| self.wants(*one));
        let entries = wanted.flat_map(|one| all.clone().map(move |entry| (one, entry)));
        let chosen = entries.filter(|(wanted, entry)| family(entry) == *wanted);
        chosen.map(|(_, entry)| describe(entry)).collect()
    }
    /// Returns whether objects of `family` are wanted.
    pub(crate) fn wants(&self, family: u8) -> bool {
        self.family == family || !matches!(self.family, INET | INET6)
    }
}

/// Tells whether a dump left entries out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Filtering {
    None,
    Done,
}

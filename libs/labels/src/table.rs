//! [`ContextTable`] and [`SecrecyTable`]: contexts and secrecies under numbers.
use crate::{Context, Secrecy};
use alloc::{collections::BTreeMap, sync::Arc, vec::Vec};

/// The number of a context in its table: small to keep beside a subject or an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ContextId(pub u32);

/// The table has as many contexts as it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableFull;

/// Contexts and their numbers. A context keeps its number for ever, so equal numbers are equal contexts.
#[derive(Debug)]
pub struct ContextTable {
    contexts: Vec<Arc<Context>>,
    numbers: BTreeMap<Arc<Context>, ContextId>,
    most: usize,
}

impl ContextTable {
    /// Makes an empty table for at most `most` contexts. A program that can make labels must not be able to fill the memory.
    pub fn new(most: usize) -> ContextTable {
        ContextTable { contexts: Vec::new(), numbers: BTreeMap::new(), most }
    }
    /// Returns the number of a context that the table has.
    pub fn find(&self, context: &Context) -> Option<ContextId> {
        self.numbers.get(context).copied()
    }
    /// Returns the number of a context, which is new if the table has it not.
    ///
    /// # Errors
    /// [`TableFull`].
    pub fn intern(&mut self, context: &Context) -> Result<ContextId, TableFull> {
        if let Some(number) = self.find(context) {
            return Ok(number);
        }
        let count = self.contexts.len();
        let number = u32::try_from(count).ok().filter(|_| count < self.most).ok_or(TableFull)?;
        let context = Arc::new(context.clone());
        self.contexts.push(Arc::clone(&context));
        self.numbers.insert(context, ContextId(number));
        Ok(ContextId(number))
    }
    /// Returns the context of a number.
    pub fn get(&self, number: ContextId) -> Option<&Arc<Context>> {
        self.contexts.get(usize::try_from(number.0).ok()?)
    }
    /// Returns the number of contexts.
    pub fn len(&self) -> usize {
        self.contexts.len()
    }
    /// Returns whether there is no context.
    pub fn is_empty(&self) -> bool {
        self.contexts.is_empty()
    }
}

/// The number of a secrecy in its table: small to keep beside a socket or a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SecrecyId(pub u32);

impl SecrecyId {
    /// No secrecy: everything has this number in a system without labels.
    pub const NONE: SecrecyId = SecrecyId(0);
    /// A secrecy that is told with each packet. No table gives this number.
    pub const TOLD: SecrecyId = SecrecyId(u32::MAX);
}

/// Secrecies and their numbers, which stay for ever. Equal numbers are equal secrecies.
#[derive(Debug, Default)]
pub struct SecrecyTable {
    secrecies: Vec<Secrecy>,
    numbers: BTreeMap<Secrecy, SecrecyId>,
}

impl SecrecyTable {
    /// Returns the number of a secrecy that the table has.
    pub fn find(&self, secrecy: &Secrecy) -> Option<SecrecyId> {
        self.numbers.get(secrecy).copied()
    }
    /// Returns the number of a secrecy, which is new if the table has it not. A table has `most` at most.
    ///
    /// # Errors
    /// [`TableFull`].
    pub fn intern(&mut self, secrecy: &Secrecy, most: usize) -> Result<SecrecyId, TableFull> {
        if let Some(number) = self.find(secrecy) {
            return Ok(number);
        }
        let count = self.secrecies.len();
        let number = u32::try_from(count + 1).ok().filter(|number| *number != SecrecyId::TOLD.0);
        let number = SecrecyId(number.filter(|_| count < most).ok_or(TableFull)?);
        self.secrecies.push(*secrecy);
        self.numbers.insert(*secrecy, number);
        Ok(number)
    }
    /// Returns the secrecy of a number.
    pub fn get(&self, number: SecrecyId) -> Option<&Secrecy> {
        self.secrecies.get(usize::try_from(number.0.checked_sub(1)?).ok()?)
    }
}

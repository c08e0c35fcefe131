//! [`ContextTable`]: contexts under numbers.
use crate::Context;
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

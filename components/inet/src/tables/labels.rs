//! [`LabelSource`]: the answers about labels that a configuration has.
use alloc::sync::Arc;
use interfaces::sockets::{LinkLabel, PacketLabels};
use labels::SecrecyId;

/// The answers about labels, if the system has labels.
#[derive(Clone, Default)]
pub struct LabelSource(Option<Arc<dyn PacketLabels>>);

impl LabelSource {
    /// Returns a source of these answers.
    pub fn new(labels: Arc<dyn PacketLabels>) -> LabelSource {
        LabelSource(Some(labels))
    }
    /// Returns the answers, if there are any.
    pub fn get(&self) -> Option<&dyn PacketLabels> {
        self.0.as_deref()
    }
    /// Returns whether one secrecy dominates another.
    #[inline]
    pub fn dominates(&self, one: SecrecyId, other: SecrecyId) -> bool {
        one == other || self.get().is_some_and(|labels| labels.dominates(one, other))
    }
    /// Returns the label of the interface called `name`.
    pub fn link(&self, name: &str) -> LinkLabel {
        self.get().map_or_else(LinkLabel::default, |labels| labels.link(name))
    }
}

impl core::fmt::Debug for LabelSource {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(if self.0.is_some() { "LabelSource" } else { "no labels" })
    }
}

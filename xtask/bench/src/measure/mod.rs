//! The floor of guests: a boot of a side, and the figures that its log and QEMU's plugins give.
pub mod card;
pub mod executed;
pub mod locks;
pub mod peer;
pub mod probes;
pub mod programs;
pub mod side;
pub mod split;
pub mod times;

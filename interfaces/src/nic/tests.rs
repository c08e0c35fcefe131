//! Tests of a network interface over rings: a model card, drivers that die and drivers that lie.
mod card;
mod lies;
mod lives;
mod traffic;

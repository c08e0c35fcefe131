//! Tests of the component: a stack over a model card.
mod acknowledging;
mod far;
mod merging;
mod model;
mod receiving;
mod sending;
mod settings;

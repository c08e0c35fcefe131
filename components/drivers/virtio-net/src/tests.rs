//! Tests of the driver against a model interface.
mod control;
mod hostile;
mod receive;
mod rig;
mod send;

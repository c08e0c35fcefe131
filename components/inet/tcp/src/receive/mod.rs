//! The receiving side: ranges that arrived, the window, and the time of acknowledgements.
pub(crate) mod acknowledge;
pub(crate) mod assembler;
pub(crate) mod window;

//! Buffers, addresses, random numbers: values that know nothing of the stack.
pub mod address;
pub mod bucket;
pub mod buffer;
pub mod cut;
pub mod frame_buffer;
pub mod packets;
pub mod payloads;
pub mod random;

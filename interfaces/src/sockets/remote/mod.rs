//! Sockets, taps and administration of a network stack in another world: what both sides need to put calls into messages.
#[cfg(test)]
mod codec_tests;
mod heads;
#[cfg(test)]
mod samples;

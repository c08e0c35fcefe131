//! The stack's end of a [`Stream`] whose client is in another world.
//!
//! It has the queue of bytes to be sent, whose frames the client keeps, and no queue of received ones. No world but the stack's pays
//! for it: in the kernel's there are no such ends.
#[cfg(all(target_os = "none", not(skerry_process)))]
mod way {
    use super::super::{Stream, StreamChange};
    use crate::nic::PacketSegment;
    use alloc::vec::Vec;

    /// The way to the client: there is none.
    #[derive(Default)]
    pub(crate) struct Way(());

    impl Stream {
        #[inline(always)]
        pub(in super::super) fn tell(&self, _: StreamChange) -> bool {
            let Way(()) = self.far;
            false
        }
        #[inline(always)]
        pub(in super::super) fn deliver_far(&self, _: &mut Vec<PacketSegment>) -> bool {
            false
        }
        /// Returns whether the client is in another world: no.
        #[inline(always)]
        pub fn is_far(&self) -> bool {
            false
        }
        #[inline(always)]
        pub(in super::super) fn keep_far<const N: usize>(&self, _: &[u64; N]) -> bool {
            false
        }
    }
}

#[cfg(any(not(target_os = "none"), skerry_process))]
mod way {
    use super::super::{Stream, StreamChange};
    use crate::{
        nic::PacketSegment,
        sockets::{EndNumber, FarEnd, ReadReport},
    };
    use alloc::vec::Vec;
    use core::sync::atomic::Ordering;

    /// The way to the client, if the client is in another world.
    #[derive(Default)]
    pub(crate) struct Way(Option<FarEnd>);

    impl Stream {
        /// Makes the stack's end of a stream, without bytes.
        pub fn at_stack(far: FarEnd) -> Stream {
            let observer = far.observer();
            Stream { far: Way(Some(far)), ..Stream::new(observer, 0, 0) }
        }
        /// Returns whether the client is in another world.
        #[inline]
        pub fn is_far(&self) -> bool {
            self.far.0.is_some()
        }
        /// Returns the number of the stream, if its client is in another world.
        pub fn end_number(&self) -> Option<EndNumber> {
            self.far.0.as_ref().map(FarEnd::number)
        }
        /// Takes bytes that the client has written, and empties `segments`. Their frames are the client's.
        pub fn accept(&self, segments: &mut Vec<PacketSegment>) {
            self.append(segments.drain(..));
        }
        /// Begins where the counters of a predecessor's end are: bytes before `acked` and `received` are done with.
        pub fn begin_at(
            &self,
            acked: u64,
            received: u64,
            kept: &[u64; crate::sockets::KEPT_WORDS],
        ) {
            self.acked.store(acked, Ordering::Release);
            self.written.store(acked, Ordering::Release);
            self.received.store(received, Ordering::Release);
            self.kept.store(kept);
        }
        /// Takes notice of the client's reads. Bytes that have not come to the client yet hold twice their length, as far as one
        /// can know.
        pub fn note_reads(&self, report: &ReadReport) {
            let ReadReport { read, received, held, limit, limit_max } = *report;
            let under_way = self.received.load(Ordering::Acquire).saturating_sub(received);
            let held = held.saturating_add((under_way as usize).saturating_mul(2));
            self.held_to_read.store(held, Ordering::Relaxed);
            self.receive_limit.store(limit, Ordering::Relaxed);
            self.receive_limit_max.store(limit_max, Ordering::Relaxed);
            self.read.fetch_max(read, Ordering::AcqRel);
        }
        /// Takes notice of state that a predecessor's end had.
        pub fn begin_in(&self, state: super::super::StreamState) {
            self.state.fetch_or(state.bits(), Ordering::AcqRel);
        }
        /// Tells the client of a change. Returns whether it is in another world: then that is all to be done.
        pub(in super::super) fn tell(&self, change: StreamChange) -> bool {
            if let Some(far) = &self.far.0 {
                far.changed(change);
            }
            self.far.0.is_some()
        }
        /// Delivers bytes to a client in another world. Returns whether it is there.
        pub(in super::super) fn deliver_far(&self, segments: &mut Vec<PacketSegment>) -> bool {
            let Some(far) = &self.far.0 else { return false };
            let bytes: u64 = segments.iter().map(|segment| u64::from(segment.length)).sum();
            if bytes > 0 {
                self.held_to_read.fetch_add((bytes as usize).saturating_mul(2), Ordering::Relaxed);
                self.received.fetch_add(bytes, Ordering::AcqRel);
                far.delivered(segments);
            }
            segments.clear();
            true
        }
        /// Keeps words at a client in another world, if they have changed. Returns whether it is there.
        pub(in super::super) fn keep_far<const N: usize>(&self, words: &[u64; N]) -> bool {
            if self.far.0.is_none() {
                return false;
            }
            let before = self.kept.load();
            self.kept.store(words);
            let now = self.kept.load();
            if now != before {
                self.tell(StreamChange::Kept(now));
            }
            true
        }
    }
}

pub(super) use way::Way;

use super::Stream;
use crate::sockets::ReadReport;
use core::sync::atomic::Ordering;

impl Stream {
    /// Returns the reads, as far as they are known here.
    pub fn read_report(&self) -> ReadReport {
        ReadReport {
            // `read` before `received`: never more than came.
            read: self.read.load(Ordering::Acquire),
            held: self.held_to_read.load(Ordering::Relaxed),
            received: self.received.load(Ordering::Acquire),
            limit: self.receive_limit.load(Ordering::Relaxed),
            limit_max: self.receive_limit_max.load(Ordering::Relaxed),
        }
    }
}

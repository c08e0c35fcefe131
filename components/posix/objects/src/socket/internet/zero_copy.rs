//! [`ZeroCopyNotices`]: the notices of MSG_ZEROCOPY (Linux's `Documentation/networking/msg_zerocopy.rst`).
//!
//! Each send with the flag has a number, and a notice in the queue of errors tells when its bytes are free. Here they are copied
//! before the call ends, so they are free then, and the notice says that they were copied (SO_EE_CODE_ZEROCOPY_COPIED), as Linux's
//! does on loopback. All notices that a program has not read yet are one, because their numbers follow each other.
use super::address::AddressFamily;
use crate::socket::interface::{Received, ReceivedControl};
use core::sync::atomic::{AtomicU64, Ordering};
use linux_raw_sys::net;

/// SO_EE_ORIGIN_ZEROCOPY and SO_EE_CODE_ZEROCOPY_COPIED of `struct sock_extended_err`.
const ORIGIN: u8 = 5;
const COPIED: u8 = 1;
/// Bytes of `struct sock_extended_err`, and of the address that follows it.
const ERROR_BYTES: usize = 16;
const NAME4_BYTES: usize = 16;
const NAME6_BYTES: usize = 28;

/// The notices of a socket: in the low half the number of the next send, in the high half that of the first without a notice read.
#[derive(Default)]
pub(super) struct ZeroCopyNotices(AtomicU64);

impl ZeroCopyNotices {
    fn ends(word: u64) -> (u32, u32) {
        ((word >> 32) as u32, word as u32)
    }
    /// Numbers a send, and tells that its bytes are free.
    pub(super) fn complete(&self) {
        let next = |word: u64| {
            let (first, end) = ZeroCopyNotices::ends(word);
            Some(u64::from(first) << 32 | u64::from(end.wrapping_add(1)))
        };
        let _ = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, next);
    }
    /// Returns whether there is a notice.
    pub(super) fn has_any(&self) -> bool {
        let (first, end) = ZeroCopyNotices::ends(self.0.load(Ordering::Acquire));
        first != end
    }
    /// Takes all notices as one message of the error queue of a socket of `family`.
    pub(super) fn take(&self, family: AddressFamily) -> Option<Received> {
        let read = |word: u64| {
            let (first, end) = ZeroCopyNotices::ends(word);
            (first != end).then_some(u64::from(end) << 32 | u64::from(end))
        };
        let word = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, read).ok()?;
        let (first, end) = ZeroCopyNotices::ends(word);
        let mut bytes = [0; ERROR_BYTES + NAME6_BYTES];
        let kind = [ORIGIN, 0, COPIED, 0];
        let parts = [[0; 4], kind, first.to_le_bytes(), end.wrapping_sub(1).to_le_bytes()];
        bytes.iter_mut().zip(parts.iter().flatten()).for_each(|(to, from)| *to = *from);
        let (level, number, name) = match family {
            AddressFamily::V4 => (net::IPPROTO_IP as u32, net::IP_RECVERR, NAME4_BYTES),
            AddressFamily::V6 => (net::IPPROTO_IPV6 as u32, net::IPV6_RECVERR, NAME6_BYTES),
        };
        let told = bytes.get(..ERROR_BYTES + name).unwrap_or_default();
        let control = [ReceivedControl::new(level, number, told)].into();
        Some(Received { flags: net::MSG_ERRQUEUE, control, ..Received::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notices_that_were_not_read_are_one() {
        let notices = ZeroCopyNotices::default();
        let range = |found: Option<Received>| {
            let found = found.unwrap();
            let data = found.control[0].data();
            assert_eq!((&data[..8], data.len()), (&[0, 0, 0, 0, 5, 0, 1, 0][..], 32));
            let word = |at: usize| u32::from_le_bytes(data[at..at + 4].try_into().unwrap());
            (word(8), word(12))
        };
        assert!(!notices.has_any() && notices.take(AddressFamily::V4).is_none());
        notices.complete();
        assert_eq!(range(notices.take(AddressFamily::V4)), (0, 0));
        notices.complete();
        notices.complete();
        assert!(notices.has_any());
        assert_eq!(range(notices.take(AddressFamily::V4)), (1, 2));
        assert!(!notices.has_any());
    }
}

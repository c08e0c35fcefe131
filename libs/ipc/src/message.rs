//! Messages, and the errors of a step.

/// The greatest number of words of a message.
pub const MESSAGE_WORDS: usize = 64;
/// Words that travel in registers; further words are in the parties' message areas.
pub const INLINE_WORDS: usize = 4;

/// The kind and length of a message: one word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Header(pub u64);

impl Header {
    const LENGTH: u64 = 0xff;
    const IS_NOTIFICATION: u64 = 1 << 8;
    const HAS_CAPABILITY: u64 = 1 << 9;

    /// Makes the header for `label` (48 bits, whose meaning the parties define) and `words` words, at
    /// most [`MESSAGE_WORDS`].
    pub const fn new(label: u64, words: usize) -> Header {
        let words = if words > MESSAGE_WORDS { MESSAGE_WORDS } else { words };
        Header(label << 16 | words as u64)
    }
    /// Makes the header of a notification.
    pub const fn notification() -> Header {
        Header(Header::IS_NOTIFICATION)
    }
    /// Returns the label that the sender gave.
    pub const fn label(self) -> u64 {
        self.0 >> 16
    }
    /// Returns the number of words, at most [`MESSAGE_WORDS`].
    pub const fn words(self) -> usize {
        let words = (self.0 & Header::LENGTH) as usize;
        if words > MESSAGE_WORDS { MESSAGE_WORDS } else { words }
    }
    /// Returns whether this is a notification, whose bits are in [`Message::badge`].
    pub const fn is_notification(self) -> bool {
        self.0 & Header::IS_NOTIFICATION != 0
    }
    /// Returns whether a capability goes along.
    pub const fn has_capability(self) -> bool {
        self.0 & Header::HAS_CAPABILITY != 0
    }
    /// Returns whether the whole message travels in registers, and nothing is marked that only [`Header::as_sent`] marks.
    #[inline(always)]
    pub const fn is_plain(self) -> bool {
        self.0 as u16 <= INLINE_WORDS as u16
    }
    /// Returns the header in the form that a sender may send: no notification, and marked as having a
    /// capability only if one goes along.
    pub const fn as_sent(self, has_capability: bool) -> Header {
        let plain = self.0 & !(Header::IS_NOTIFICATION | Header::HAS_CAPABILITY);
        Header(if has_capability { plain | Header::HAS_CAPABILITY } else { plain })
    }
}

/// The part of a message that travels in registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// The header.
    pub header: Header,
    /// The badge of the sender, which the receiver chose; for a notification, the bits.
    pub badge: u64,
    /// Its first words.
    pub words: [u64; INLINE_WORDS],
}

/// The reason why a step was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Error {
    /// The deadline passed.
    TimedOut = 1,
    /// The thread was kicked, or the server left the call unanswered.
    Cancelled,
    /// The endpoint has ended, and has no successor.
    Gone,
    /// The server died; its successor takes calls at the same endpoint.
    Restarted,
    /// There is no call to reply to.
    NoCaller,
}

//! Messages, and the reasons of their refusal.

/// Most words of a message.
pub const MESSAGE_WORDS: usize = 64;
/// Words that travel in registers; the rest lies in the parties' message areas.
pub const INLINE_WORDS: usize = 4;

/// The kind and length of a message: one word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Header(pub u64);

impl Header {
    const LENGTH: u64 = 0xff;
    const IS_NOTIFICATION: u64 = 1 << 8;
    const HAS_CAPABILITY: u64 = 1 << 9;

    /// `label` (48 bits: the parties' own affair) with `words` words, at most [`MESSAGE_WORDS`].
    pub const fn new(label: u64, words: usize) -> Header {
        let words = if words > MESSAGE_WORDS { MESSAGE_WORDS } else { words };
        Header(label << 16 | words as u64)
    }
    /// Of the bits of a notification.
    pub const fn notification() -> Header {
        Header(Header::IS_NOTIFICATION)
    }
    /// The label that the sender gave.
    pub const fn label(self) -> u64 {
        self.0 >> 16
    }
    /// Words, at most [`MESSAGE_WORDS`].
    pub const fn words(self) -> usize {
        let words = (self.0 & Header::LENGTH) as usize;
        if words > MESSAGE_WORDS { MESSAGE_WORDS } else { words }
    }
    /// No message but the bits signalled, which stand in [`Message::badge`].
    pub const fn is_notification(self) -> bool {
        self.0 & Header::IS_NOTIFICATION != 0
    }
    /// A capability goes along.
    pub const fn has_capability(self) -> bool {
        self.0 & Header::HAS_CAPABILITY != 0
    }
    /// The header as a sender may send it: no notification, and a capability only where one goes along.
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
    /// The sender, as the receiver named the capability; the bits of a notification.
    pub badge: u64,
    /// Its first words.
    pub words: [u64; INLINE_WORDS],
}

/// Why nothing was sent, received or answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Error {
    /// The deadline passed.
    TimedOut = 1,
    /// The thread was kicked, or the server let the call go unanswered.
    Cancelled,
    /// The endpoint is no more, and nobody will come in its place.
    Gone,
    /// The server died; its successor takes calls at the same endpoint.
    Restarted,
    /// There is no call to reply to.
    NoCaller,
}

//! The kinds of records, and what they carry. The parts that end a body are those of [`super::cells::put_parts`].

/// Records of the client.
pub(crate) mod forth {
    /// A stream has new bytes: their parts, behind a report of reads. The value is `written` with them.
    pub(crate) const WRITTEN: u8 = 1;
    /// Flag of the record before: more bytes follow soon.
    pub(crate) const MORE_SOON: u8 = 1;
    /// Flag of the record before: a call about the bytes follows, so they are not sent yet.
    pub(crate) const CALL_FOLLOWS: u8 = 2;
    /// A report of a stream's reads.
    pub(crate) const READ: u8 = 2;
    /// A packet came by a card: the state of its checksum, the way in which it was merged, and its parts, which are handed.
    pub(crate) const RECEIVED: u8 = 3;
    /// Packets of a card have ended: their tags.
    pub(crate) const SENT: u8 = 4;
    /// The link of a card is down (value 0) or up.
    pub(crate) const LINK: u8 = 5;
    /// The network of a card is to be told of the addresses.
    pub(crate) const ANNOUNCE: u8 = 6;
    /// A command of a card was done: the value is its number, the body a [`super::card::CardAnswer`].
    pub(crate) const DONE: u8 = 7;
    /// The filter of a stream or queue is the program of the body; none for an empty body.
    pub(crate) const FILTER: u8 = 9;
    /// The client refuses the connection of a stream that the stack made.
    pub(crate) const REFUSED: u8 = 8;
}

/// Records of the stack.
pub(crate) mod back {
    /// A stream has received bytes: their parts. The value is `received` before them.
    pub(crate) const DELIVERED: u8 = 1;
    /// Changes of a stream ([`crate::sockets::StreamChange`]); the value says which state, offset, error or number of bytes.
    pub(crate) const ACKNOWLEDGED: u8 = 2;
    pub(crate) const ENTERED: u8 = 3;
    pub(crate) const FAILED: u8 = 4;
    pub(crate) const URGENT: u8 = 5;
    pub(crate) const NOTIFIED: u8 = 6;
    /// The body is the words.
    pub(crate) const KEPT: u8 = 7;
    pub(crate) const AWAITS: u8 = 8;
    pub(crate) const GROWS: u8 = 9;
    /// A queue has a datagram: what is known of it, and its parts.
    pub(crate) const PUSHED: u8 = 10;
    /// The next call of a queue has the error of that value.
    pub(crate) const QUEUE_FAILED: u8 = 11;
    /// A queue has a report of an error.
    pub(crate) const REPORTED: u8 = 12;
    /// The stack has dropped its end.
    pub(crate) const DROPPED: u8 = 13;
    /// A listener, of that value, has made a stream for a connection.
    pub(crate) const MADE: u8 = 14;
    /// The connection of a stream of a listener, of that value, can be accepted. The body is its ends.
    pub(crate) const ARRIVED: u8 = 15;
    /// A packet for a card. The value is its tag.
    pub(crate) const PACKET: u8 = 16;
    /// Frames that were handed are dropped: number and times of handing, 4 bytes each.
    pub(crate) const RELEASED: u8 = 17;
    /// A command for a card. The value is its number.
    pub(crate) const COMMAND: u8 = 18;
    /// A notice of the administration.
    pub(crate) const NOTICE: u8 = 19;
    /// A frame for a tap.
    pub(crate) const SEEN: u8 = 20;
    /// The stack cannot read the client's records any more: it asks to be ended.
    pub(crate) const UNREADABLE: u8 = 21;
}

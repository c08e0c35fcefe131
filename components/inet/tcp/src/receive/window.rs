//! The receive window: the right edge that the peer may send up to. It never moves left (RFC 9293 section 3.8.6), and moves right
//! in steps that are worth a segment (RFC 1122 section 4.2.3.3).

/// The receive window of one connection, in stream offsets and bytes.
#[derive(Clone, Debug)]
pub(crate) struct ReceiveWindow {
    /// The greatest right edge that was advertised.
    edge: u64,
    /// Bytes that the socket can take beyond the data in order.
    room: u64,
    /// Shift of the window field (RFC 7323).
    scale: u8,
}

impl ReceiveWindow {
    #[inline]
    pub(crate) fn new(edge: u64, scale: u8) -> ReceiveWindow {
        ReceiveWindow { edge, room: edge, scale: scale.min(14) }
    }

    #[inline]
    pub(crate) fn edge(&self) -> u64 {
        self.edge
    }

    pub(crate) fn scale(&self) -> u8 {
        self.scale
    }

    pub(crate) fn set_scale(&mut self, scale: u8) {
        self.scale = scale.min(14);
    }

    #[inline]
    pub(crate) fn set_room(&mut self, room: u64) {
        self.room = room;
    }

    /// Takes `length` bytes of the room for data in order.
    #[inline]
    pub(crate) fn use_room(&mut self, length: u64) {
        self.room = self.room.saturating_sub(length);
    }

    /// The bytes that the peer may send beyond `received`.
    #[inline]
    pub(crate) fn size(&self, received: u64) -> u64 {
        self.edge.saturating_sub(received)
    }

    /// The edge that the next segment would advertise. `capacity` is the room plus the bytes that wait to be read.
    fn candidate(&self, received: u64, capacity: u64, mss: u32) -> u64 {
        let step = u64::from(mss).min(capacity / 2).max(1);
        let wanted = received.saturating_add(self.room);
        if self.room < step || wanted < self.edge.saturating_add(step) { self.edge } else { wanted }
    }

    /// Chooses the window field of a segment that is sent now and moves the edge as far.
    #[inline]
    pub(crate) fn advertise(&mut self, received: u64, unread: u64, mss: u32) -> u16 {
        let edge = self.candidate(received, self.room.saturating_add(unread), mss);
        let size = edge.saturating_sub(received);
        let field = (size >> self.scale).min(u64::from(u16::MAX)) as u16;
        self.edge = self.edge.max(received + (u64::from(field) << self.scale));
        field
    }

    /// Chooses the window field of a SYN or SYN-ACK, which is not scaled.
    pub(crate) fn advertise_unscaled(&mut self, received: u64) -> u16 {
        let field = self.room.max(self.size(received)).min(u64::from(u16::MAX)) as u16;
        self.edge = self.edge.max(received + u64::from(field));
        field
    }

    /// Returns whether a program's read opened the window so far that the peer should hear of it at once: twice the window
    /// that it knows, and at least one segment (Linux: tcp_cleanup_rbuf).
    pub(crate) fn is_update_due(&self, received: u64, unread: u64, mss: u32) -> bool {
        let now = self.size(received);
        let capacity = self.room.saturating_add(unread);
        let next = self.candidate(received, capacity, mss).saturating_sub(received);
        let next = next.min(u64::from(u16::MAX) << self.scale);
        next > now && next >= 2 * now && next >= u64::from(mss).min(capacity / 2)
    }
}

/// Returns the window scale for a buffer that may grow to `limit` bytes (Linux: tcp_select_initial_window).
pub(crate) fn scale_for(limit: u64) -> u8 {
    (0..14).find(|scale| limit >> scale <= u64::from(u16::MAX)).unwrap_or(14)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn scales_fit_the_limit() {
        assert_eq!([0, 65535, 65536, 6 << 20, u64::MAX].map(scale_for), [0, 0, 1, 7, 14]);
    }

    #[test]
    fn small_reads_do_not_move_the_edge_and_a_segment_does() {
        let mut window = ReceiveWindow::new(10_000, 0);
        window.set_room(0);
        assert_eq!(window.advertise(10_000, 10_000, 1000), 0);
        window.set_room(999);
        assert_eq!(window.advertise(10_000, 9001, 1000), 0);
        assert!(!window.is_update_due(10_000, 9001, 1000));
        window.set_room(1000);
        assert!(window.is_update_due(10_000, 9000, 1000));
        assert_eq!(window.advertise(10_000, 9000, 1000), 1000);
    }

    #[test]
    fn a_buffer_smaller_than_a_segment_opens_by_half() {
        let mut window = ReceiveWindow::new(500, 0);
        window.set_room(250);
        assert_eq!(window.advertise(500, 250, 1460), 250);
    }

    proptest! {
        #[test]
        fn the_edge_never_moves_left(scale in 0_u8..15, steps in prop::collection::vec((0_u64..5000, 0_u64..100_000), 1..50)) {
            let mut window = ReceiveWindow::new(65535, scale);
            let mut received = 0;
            for (more, room) in steps {
                received = (received + more).min(window.edge());
                window.set_room(room);
                let before = window.edge();
                let field = window.advertise(received, 0, 1000);
                prop_assert!(window.edge() >= before);
                prop_assert!(received + (u64::from(field) << scale) <= window.edge());
            }
        }
    }
}

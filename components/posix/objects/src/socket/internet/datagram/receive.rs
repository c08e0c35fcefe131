//! Receiving datagrams, and reading the queue of errors.
use super::{
    InternetDatagram,
    control::{self, ToldHeader},
};
use crate::socket::{
    common::wait,
    interface::{Receive, Received, Shut, SocketAddress},
    internet::{address, network::errno, options::LEVEL_UDP},
};
use core::{net::SocketAddr, sync::atomic::Ordering};
use interfaces::sockets::{Payload, ReceivedDatagram};
use linux_raw_sys::net;
use vfs::{Errno, io::Sink};

/// Copies the bytes of `payload` from `skip` on to `sink`, as many as there is room for. Returns their number.
fn write_payload(payload: &Payload, skip: usize, sink: &mut dyn Sink) -> Result<usize, Errno> {
    let wanted = payload.length().saturating_sub(skip).min(sink.remaining());
    let mut done = 0;
    match payload {
        _ if wanted == 0 => {}
        Payload::Bytes(bytes) => {
            done = sink.put(bytes.get(skip..skip + wanted).unwrap_or_default())?;
        }
        Payload::Segments(parts) => {
            let mut skip = skip;
            for part in parts {
                let length = part.length as usize;
                let count = length.saturating_sub(skip).min(wanted - done);
                if count > 0 {
                    done += sink.put_frame(&part.frame, part.offset as usize + skip, count)?;
                }
                skip = skip.saturating_sub(length);
            }
        }
    }
    if done < wanted { Err(Errno::EFAULT) } else { Ok(done) }
}

impl InternetDatagram {
    /// Receives a datagram into `sink`.
    ///
    /// # Errors
    /// The error that waits, `EAGAIN`, `EFAULT`, `EOPNOTSUPP` for urgent data except of UDP, which knows none, and for a signal
    /// `EINTR` or a restart.
    pub(super) fn receive_datagram(
        &self,
        sink: &mut dyn Sink,
        how: Receive,
        mut sender: Option<&mut SocketAddress>,
    ) -> Result<Received, Errno> {
        if how.is_error_queue {
            return self.receive_error(sink, sender);
        }
        if how.is_urgent && !self.protocol.has_ports() {
            return Err(Errno::EOPNOTSUPP);
        }
        let mut timeout = None;
        loop {
            let ticket = self.wakes.arrived.ticket();
            if let Some(found) = self.next(sink, how, sender.as_deref_mut())? {
                return Ok(found);
            }
            if how.is_nonblocking {
                return Err(Errno::EAGAIN);
            }
            if self.shut().contains(Shut::RECEIVE) {
                return Ok(Received::default());
            }
            let timeout = *timeout.get_or_insert_with(|| self.common.receive_deadline());
            wait(&self.wakes.arrived, ticket, timeout)?;
        }
    }
    /// Takes or looks at the next datagram, if there is one.
    #[inline]
    fn next(
        &self,
        sink: &mut dyn Sink,
        how: Receive,
        sender: Option<&mut SocketAddress>,
    ) -> Result<Option<Received>, Errno> {
        let mut skip = 0;
        let datagram = if how.is_peek {
            let offset = self.common.options.peek_offset.load(Ordering::Relaxed);
            skip = usize::try_from(offset).unwrap_or(0);
            let mut index = 0;
            loop {
                match self.queue.peek(index).map_err(errno)? {
                    Some(datagram) if skip > 0 && skip >= datagram.payload.length() => {
                        skip -= datagram.payload.length();
                        index += 1;
                    }
                    found => break found,
                }
            }
        } else {
            self.queue.take().map_err(errno)?
        };
        let Some(datagram) = datagram else { return Ok(None) };
        if !how.is_peek {
            // The datagram is gone then, even if an address is bad, as on Linux.
            sink.commit();
        }
        let count = write_payload(&datagram.payload, skip, sink)?;
        if let Some(sender) = sender {
            *sender = address::encode(self.family, self.shown_source(&datagram));
        }
        let length = datagram.payload.length() - skip;
        self.common.move_peek(how, if how.is_peek { count } else { length });
        let mut found = Received { count, length, ..Received::default() };
        self.tell(&datagram, &mut found);
        Ok(Some(found))
    }
    /// Returns the sender as a program sees it: only UDP has ports.
    fn shown_source(&self, datagram: &ReceivedDatagram) -> SocketAddr {
        let mut source = datagram.source;
        if !self.protocol.has_ports() {
            source.set_port(0);
        }
        if let SocketAddr::V6(address) = &mut source {
            let is_of_link = address::is_link_local(address.ip());
            address.set_scope_id(if is_of_link { datagram.interface } else { 0 });
        }
        source
    }
    /// Adds the control messages that the options ask for.
    #[inline]
    fn tell(&self, datagram: &ReceivedDatagram, found: &mut Received) {
        self.tell_time(Some(datagram.received_ns), found);
        let options = &self.common.options;
        if datagram.dropped > 0 && options.is_kept(net::SO_RXQ_OVFL) {
            let count = datagram.dropped.to_le_bytes();
            found.control.push(control::item(net::SOL_SOCKET, net::SO_RXQ_OVFL, &count));
        }
        if let Some(segment) = datagram.segment {
            let bytes = i32::from(segment).to_le_bytes();
            found.control.push(control::item(LEVEL_UDP, control::SEVERAL, &bytes));
        }
        let flags = self.flags();
        if flags.intersects(control::TOLD) {
            let header = ToldHeader::of_datagram(datagram);
            found.flags |= control::tell_header(flags, &header, self.family, &mut found.control);
        }
    }
    /// Tells a time of arrival by the monotonic clock, or the present, if the program asked for it.
    #[inline]
    fn tell_time(&self, received_ns: Option<u64>, found: &mut Received) {
        if let Some(time) = self.common.options.arrival_time() {
            // Only who asked for the time pays for the clocks. A step of the wall clock since the arrival counts, as for a packet
            // that came before the option was set on Linux.
            let ago_ns = received_ns.map_or(0, |ns| rt::time::now().0.saturating_sub(ns));
            let wall_ns = rt::time::wall_ns().saturating_sub(ago_ns);
            found.control.push(control::time_of(time, wall_ns));
        }
    }
    /// Reads the queue of errors (MSG_ERRQUEUE): the quoted bytes of a packet that was lost, its destination as the sender, the header
    /// of the message of ICMP that told it (`ip_recv_error`, `ipv6_recv_error`), and the reason.
    ///
    /// # Errors
    /// `EAGAIN` if it is empty, `EFAULT`.
    fn receive_error(
        &self,
        sink: &mut dyn Sink,
        sender: Option<&mut SocketAddress>,
    ) -> Result<Received, Errno> {
        let Some(report) = self.queue.take_report() else {
            return self.notices.take(self.family).ok_or(Errno::EAGAIN);
        };
        sink.commit();
        let count = write_payload(&report.payload, 0, sink)?;
        if let Some(sender) = sender {
            *sender = address::encode(self.family, report.destination);
        }
        let mut found = Received {
            count,
            length: report.payload.length(),
            flags: net::MSG_ERRQUEUE,
            ..Received::default()
        };
        self.tell_time(report.carrier.map(|carrier| carrier.received_ns), &mut found);
        if let Some(carrier) = &report.carrier {
            let (header, told) = ToldHeader::of_message(carrier, &report.payload);
            control::tell_header(self.flags() & told, &header, self.family, &mut found.control);
        }
        found.control.push(control::error_of(&report, self.family));
        Ok(found)
    }
}

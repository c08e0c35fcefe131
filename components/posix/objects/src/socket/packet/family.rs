//! A packet socket as the socket calls see it, and as a file.
use super::{
    FAMILY, PacketSocket,
    address::LinkAddress,
    options,
    receive::{QueuedFrame, option_bit},
    ring,
};
use crate::socket::{
    common::SocketCommon,
    interface::{
        Outgoing, Patience, Receive, Received, ReceivedControl, Send, Shut, Socket, SocketAddress,
        read_as_file,
    },
    internet::time_of,
    option_input::OptionInput,
};
use alloc::{sync::Arc, vec::Vec};
use bpf::PacketProgram;
use core::sync::atomic::Ordering;
use linux_raw_sys::net;
use process::Task;
use rt::PAGE_BYTES;
use vfs::{
    Errno, Principal,
    file::{File, IoFlags, Mappable, Ready, SignalSource},
    io::{Sink, Source},
    poll::PollTable,
};

impl PacketSocket {
    /// Takes or looks at the first frame, if there is one.
    fn next(
        &self,
        sink: &mut dyn Sink,
        how: Receive,
        sender: Option<&mut SocketAddress>,
    ) -> Result<Option<Received>, Errno> {
        let found = if how.is_peek { self.receiver.peek()? } else { self.receiver.take()? };
        let Some(frame) = found else { return Ok(None) };
        if !how.is_peek {
            sink.commit();
        }
        let wanted = frame.bytes.len().min(sink.remaining());
        let count = match wanted {
            0 => 0,
            _ => sink.put(frame.bytes.get(..wanted).unwrap_or_default())?,
        };
        if count < wanted {
            return Err(Errno::EFAULT);
        }
        if let Some(sender) = sender {
            *sender = frame.info.from.encode();
        }
        let mut received = Received { count, length: frame.bytes.len(), ..Received::default() };
        self.tell(&frame, &mut received.control);
        Ok(Some(received))
    }
    /// Adds the control messages that the options ask for.
    fn tell(&self, frame: &QueuedFrame, control: &mut Vec<ReceivedControl>) {
        let options = &self.common.options;
        if let Some(time) = options.arrival_time() {
            control.push(time_of(time, frame.info.at_ns));
        }
        if frame.dropped > 0 && options.is_kept(net::SO_RXQ_OVFL) {
            let count = frame.dropped.to_le_bytes();
            control.push(ReceivedControl::new(net::SOL_SOCKET, net::SO_RXQ_OVFL, &count));
        }
        if self.receiver.is_on(option_bit::AUXDATA) {
            // `struct tpacket_auxdata`: status, length, kept, link and network offset, VLAN tag and type.
            let info = &frame.info;
            let mut data = Vec::with_capacity(20);
            for word in [info.status, info.length as u32, frame.bytes.len() as u32] {
                data.extend(word.to_le_bytes());
            }
            for half in [0, info.link_length as u16, 0, 0] {
                data.extend(half.to_le_bytes());
            }
            control.push(ReceivedControl::new(options::LEVEL, options::AUXDATA, &data));
        }
    }
}

impl Socket for PacketSocket {
    fn common(&self) -> &SocketCommon {
        &self.common
    }
    fn family(&self) -> u16 {
        FAMILY
    }
    fn protocol_name(&self) -> &'static str {
        "PACKET"
    }
    fn bind(&self, _: &Task, address: &SocketAddress, _: u16) -> Result<(), Errno> {
        let given = LinkAddress::decode(address)?;
        if address.family() != Some(FAMILY) {
            return Err(Errno::EINVAL);
        }
        let before = self.control.lock().protocol;
        let protocol = if given.protocol == 0 { before } else { given.protocol };
        self.bind_to(given.interface, protocol)
    }
    fn connect(&self, _: &Task, _: &SocketAddress, _: Patience) -> Result<(), Errno> {
        Err(Errno::EOPNOTSUPP)
    }
    fn name(&self) -> SocketAddress {
        self.own_address().encode_cut()
    }
    fn peer_name(&self) -> Result<SocketAddress, Errno> {
        Err(Errno::EOPNOTSUPP)
    }
    fn shut_down(&self, _: Shut) -> Result<(), Errno> {
        Err(Errno::EOPNOTSUPP)
    }
    fn send(
        &self,
        _: &Task,
        source: &mut dyn Source,
        message: Outgoing<'_>,
        _: Send,
    ) -> Result<usize, Errno> {
        self.send_frame(source, message.to)
    }
    fn receive(
        &self,
        sink: &mut dyn Sink,
        how: Receive,
        mut sender: Option<&mut SocketAddress>,
    ) -> Result<Received, Errno> {
        if how.is_error_queue {
            return Err(Errno::EAGAIN);
        }
        if how.is_urgent || how.is_whole {
            return Err(Errno::EINVAL);
        }
        self.common.receive_when(&self.receiver.arrived, how, || {
            self.next(sink, how, sender.as_deref_mut())
        })
    }
    fn take_error(&self) -> Option<Errno> {
        self.receiver.take_error()
    }
    fn readable_bytes(&self) -> Result<usize, Errno> {
        Ok(self.receiver.first_length().unwrap_or(0))
    }
    /// Returns zero: a frame is the card's when the call that sends it ends.
    fn unsent_bytes(&self) -> Result<usize, Errno> {
        Ok(0)
    }
    fn send_buffer(&self) -> usize {
        self.send_limit.load(Ordering::Relaxed)
    }
    fn set_send_buffer(&self, bytes: usize) {
        self.send_limit.store(bytes, Ordering::Relaxed);
    }
    fn receive_buffer(&self) -> usize {
        self.receiver.limit()
    }
    fn set_receive_buffer(&self, bytes: usize) {
        self.receiver.set_limit(bytes);
    }
    fn has_peek_offset(&self) -> bool {
        false
    }
    fn set_filter(&self, program: Option<Arc<PacketProgram>>) -> Option<Arc<PacketProgram>> {
        self.receiver.filter.set(program.clone());
        self.common.filter.set(program)
    }
    fn set_option(
        &self,
        _: &Task,
        (level, number): (u32, u32),
        input: &OptionInput,
    ) -> Result<(), Errno> {
        match level {
            options::LEVEL => self.set_packet_option(number, input),
            _ => Err(Errno::ENOPROTOOPT),
        }
    }
    fn option(&self, (level, number): (u32, u32), _: usize) -> Result<Vec<u8>, Errno> {
        match level {
            options::LEVEL => self.packet_option(number),
            _ => Err(Errno::ENOPROTOOPT),
        }
    }
    fn takes_program(&self, place: (u32, u32)) -> bool {
        place == (options::LEVEL, options::FANOUT_DATA) && self.is_steered_by_program()
    }
    fn takes_argument(&self, place: (u32, u32)) -> bool {
        place == (options::LEVEL, options::HEADER_LENGTH)
    }
    fn option_of(&self, _: (u32, u32), argument: i32) -> Result<Vec<u8>, Errno> {
        PacketSocket::header_length(argument)
    }
}

impl File for PacketSocket {
    fn signal_source(&self) -> Option<SignalSource<'_>> {
        Some(SignalSource::Readiness)
    }
    fn read(&self, _: u64, sink: &mut dyn Sink, flags: IoFlags) -> Result<usize, Errno> {
        read_as_file(self, sink, flags)
    }
    fn write(&self, _: u64, source: &mut dyn Source, _: IoFlags) -> Result<(usize, u64), Errno> {
        Ok((self.send_frame(source, None)?, 0))
    }
    fn poll(&self, table: Option<&PollTable>, _: &dyn Principal) -> Ready {
        if let Some(table) = table {
            table.add(&self.receiver.arrived);
        }
        let (is_readable, has_error) = self.receiver.readiness();
        let mut ready = Ready::empty();
        ready.set(Ready::IN | Ready::READ_NORMAL, is_readable);
        ready.set(Ready::ERROR, has_error);
        // Frames leave at once, so there is always room for one that is not in a ring.
        ready |= Ready::OUT | Ready::WRITE_NORMAL;
        ready
    }
    /// Returns the pages of the rings, which programs map as a whole.
    fn mappable(&self) -> Result<Arc<dyn Mappable>, Errno> {
        let mut control = self.control.lock();
        if let Some(pages) = &control.mapped {
            return Ok(pages.clone());
        }
        let pages = {
            let state = self.receiver.state.lock();
            let received = state.ring.as_ref().map_or(&[][..], |ring| ring.pages());
            let sent = control.transmit.as_ref().map_or(&[][..], |ring| ring.pages());
            ring::mapped_pages([received, sent])?
        };
        control.mapped = Some(pages.clone());
        Ok(pages)
    }
    fn check_mapping(&self, first: u64, bytes: u64) -> Result<(), Errno> {
        let control = self.control.lock();
        let received =
            self.receiver.state.lock().ring.as_ref().map_or(0, |ring| ring.pages().len());
        let sent = control.transmit.as_ref().map_or(0, |ring| ring.pages().len());
        let all = ((received + sent) as u64).saturating_mul(PAGE_BYTES as u64);
        let is_whole = first == 0 && all > 0 && bytes.next_multiple_of(PAGE_BYTES as u64) == all;
        if is_whole { Ok(()) } else { Err(Errno::EINVAL) }
    }
    fn as_any(&self) -> &dyn core::any::Any {
        self
    }
    fn closed(&self) {
        self.end();
    }
}

//! A datagram socket as the socket calls see it, and as a file.
use super::InternetDatagram;
use crate::socket::{
    common::SocketCommon,
    interface::{
        Outgoing, Patience, Receive, Received, Send, Shut, Socket, SocketAddress, read_as_file,
    },
    internet::{
        address::{self, AddressFamily},
        network::errno,
    },
    option_input::OptionInput,
};
use alloc::{sync::Arc, vec::Vec};
use bpf::PacketProgram;
use core::sync::atomic::{AtomicI32, Ordering};
use interfaces::sockets::{DatagramProtocol, SocketEvents};
use linux_raw_sys::net;
use process::Task;
use vfs::{
    Capabilities, Errno, Principal,
    file::{File, IoFlags, Ready, SignalSource},
    io::{Sink, Source},
    poll::PollTable,
    security::{self, Label},
};

impl Socket for InternetDatagram {
    fn common(&self) -> &SocketCommon {
        &self.common
    }
    fn family(&self) -> u16 {
        self.family.number()
    }
    fn has_peek_offset(&self) -> bool {
        self.protocol.has_ports()
    }
    fn protocol(&self) -> i32 {
        match (self.protocol, self.family) {
            (DatagramProtocol::Udp, _) => net::IPPROTO_UDP as i32,
            (DatagramProtocol::UdpLite, _) => net::IPPROTO_UDPLITE as i32,
            (DatagramProtocol::Ping, AddressFamily::V4) => net::IPPROTO_ICMP as i32,
            (DatagramProtocol::Ping, AddressFamily::V6) => net::IPPROTO_ICMPV6 as i32,
            (DatagramProtocol::Raw(number), _) => i32::from(number),
        }
    }
    fn protocol_name(&self) -> &'static str {
        match (self.protocol, self.family) {
            (DatagramProtocol::Udp, AddressFamily::V4) => "UDP",
            (DatagramProtocol::Udp, AddressFamily::V6) => "UDPv6",
            (DatagramProtocol::UdpLite, AddressFamily::V4) => "UDP-Lite",
            (DatagramProtocol::UdpLite, AddressFamily::V6) => "UDPLITEv6",
            (DatagramProtocol::Ping, AddressFamily::V4) => "PING",
            (DatagramProtocol::Ping, AddressFamily::V6) => "PINGv6",
            (DatagramProtocol::Raw(_), AddressFamily::V4) => "RAW",
            (DatagramProtocol::Raw(_), AddressFamily::V6) => "RAWv6",
        }
    }
    fn bind(&self, task: &Task, address: &SocketAddress, _: u16) -> Result<(), Errno> {
        self.bind_to(&task.credentials(), address)
    }
    fn connect(&self, _: &Task, address: &SocketAddress, _: Patience) -> Result<(), Errno> {
        self.connect_to(address)
    }
    fn name(&self) -> SocketAddress {
        let mut local = self.local();
        if let DatagramProtocol::Raw(number) = self.protocol {
            // Linux tells the protocol in the place of the port.
            local.set_port(u16::from(number));
        }
        address::encode(self.family, local)
    }
    fn peer_name(&self) -> Result<SocketAddress, Errno> {
        let peer = self.socket().peer().ok_or(Errno::ENOTCONN)?;
        Ok(address::encode(self.family, peer))
    }
    fn peer_label(&self) -> Option<&'static Label> {
        // Only packets of the own secrecy come.
        self.socket().peer().and_then(|_| security::of_packets(self.label))
    }
    fn shut_down(&self, directions: Shut) -> Result<(), Errno> {
        self.end_directions(directions)
    }
    fn send(
        &self,
        task: &Task,
        source: &mut dyn Source,
        mut message: Outgoing<'_>,
        how: Send,
    ) -> Result<usize, Errno> {
        if !message.control.is_empty() {
            message.may_send_raw = task.credentials().has(Capabilities::NET_RAW);
        }
        let sent = self.send_datagram(source, &message, how)?;
        if sent > 0 && how.is_zero_copy && self.common.options.is_kept(net::SO_ZEROCOPY) {
            self.notices.complete();
            self.wakes.arrived.wake();
        }
        Ok(sent)
    }
    fn receive(
        &self,
        sink: &mut dyn Sink,
        how: Receive,
        sender: Option<&mut SocketAddress>,
    ) -> Result<Received, Errno> {
        self.receive_datagram(sink, how, sender)
    }
    fn take_error(&self) -> Option<Errno> {
        self.queue.take_error().map(errno)
    }
    fn readable_bytes(&self) -> Result<usize, Errno> {
        Ok(self.queue.first_length().unwrap_or(0))
    }
    fn unsent_bytes(&self) -> Result<usize, Errno> {
        // A datagram has left the socket when the call that sent it ends.
        Ok(0)
    }
    fn send_buffer(&self) -> usize {
        self.send_limit.load(Ordering::Relaxed)
    }
    fn set_send_buffer(&self, bytes: usize) {
        self.send_limit.store(bytes, Ordering::Relaxed);
    }
    fn receive_buffer(&self) -> usize {
        self.receive_limit.load(Ordering::Relaxed)
    }
    fn set_receive_buffer(&self, bytes: usize) {
        self.receive_limit.store(bytes, Ordering::Relaxed);
        self.queue.set_limit(bytes);
    }
    fn set_filter(&self, program: Option<Arc<PacketProgram>>) -> Option<Arc<PacketProgram>> {
        self.queue.filter().set(program.clone());
        self.common.filter.set(program)
    }
    fn has_zero_copy(&self) -> bool {
        self.protocol == DatagramProtocol::Udp
    }
    fn incoming_processor(&self) -> &AtomicI32 {
        &self.wakes.processor
    }
    fn options_changed(&self) {
        let _control = self.control.lock();
        self.configure();
    }
    fn set_option(
        &self,
        task: &Task,
        (level, number): (u32, u32),
        input: &OptionInput,
    ) -> Result<(), Errno> {
        self.set_internet_option(&task.credentials(), (level, number), input)
    }
    fn option(&self, (level, number): (u32, u32), room: usize) -> Result<Vec<u8>, Errno> {
        self.internet_option((level, number), room)
    }
}

impl File for InternetDatagram {
    fn signal_source(&self) -> Option<SignalSource<'_>> {
        Some(SignalSource::Readiness)
    }
    fn read(&self, _: u64, sink: &mut dyn Sink, flags: IoFlags) -> Result<usize, Errno> {
        read_as_file(self, sink, flags)
    }
    fn write(
        &self,
        _: u64,
        source: &mut dyn Source,
        flags: IoFlags,
    ) -> Result<(usize, u64), Errno> {
        let how = Send { is_nonblocking: flags.is_nonblocking, ..Send::default() };
        Ok((self.send_datagram(source, &Outgoing::default(), how)?, 0))
    }
    /// See Linux's `datagram_poll`.
    fn poll(&self, table: Option<&PollTable>, _: &dyn Principal) -> Ready {
        if let Some(table) = table {
            self.wakes.watch(table);
        }
        let shut = self.shut();
        let events = self.queue.events();
        let mut ready = Ready::empty();
        let is_readable = events.contains(SocketEvents::READABLE) || shut.contains(Shut::RECEIVE);
        ready.set(Ready::IN | Ready::READ_NORMAL, is_readable);
        ready.set(Ready::READ_HANGUP, shut.contains(Shut::RECEIVE));
        ready.set(Ready::HANGUP, shut == Shut::all());
        let has_error = events.contains(SocketEvents::ERROR) || self.notices.has_any();
        ready.set(Ready::ERROR, has_error);
        let selects = has_error && self.common.options.is_kept(net::SO_SELECT_ERR_QUEUE);
        ready.set(Ready::PRIORITY, selects);
        ready | Ready::OUT | Ready::WRITE_NORMAL
    }
    fn as_any(&self) -> &dyn core::any::Any {
        self
    }
    fn closed(&self) {
        self.close();
    }
}

//! TCP as the socket calls see it, and as a file.
use super::{InternetStream, StreamPhase, UnsentShare};
use crate::socket::{
    common::SocketCommon,
    interface::{
        Outgoing, Party, Patience, Receive, Received, Send, Shut, Socket, SocketAddress,
        control_items, read_as_file,
    },
    internet::{address, network::errno, settings::Flags},
    option_input::OptionInput,
};
use alloc::{sync::Arc, vec::Vec};
use bpf::PacketProgram;
use core::sync::atomic::{AtomicI32, Ordering};
use interfaces::sockets::StreamState;
use linux_raw_sys::{ioctl as request, net};
use process::Task;
use vfs::{
    Errno, Principal,
    file::{File, IoFlags, Ready, SignalSource, Survey},
    io::{Sink, Source},
    poll::{PollTable, WaitQueue},
    security::{self, Label},
};

/// Request for the bytes that were written and not sent, a number that the bindings of the kernel's headers lack.
const SIOCOUTQNSD: u32 = 0x894b;

impl Socket for InternetStream {
    fn common(&self) -> &SocketCommon {
        &self.common
    }
    fn family(&self) -> u16 {
        self.family.number()
    }
    fn protocol(&self) -> i32 {
        net::IPPROTO_TCP as i32
    }
    fn protocol_name(&self) -> &'static str {
        if self.family == address::AddressFamily::V4 { "TCP" } else { "TCPv6" }
    }
    fn bind(&self, task: &Task, address: &SocketAddress, _: u16) -> Result<(), Errno> {
        self.bind_to(&task.credentials(), address)
    }
    fn listen(&self, _: &Task, limit: usize) -> Result<(), Errno> {
        self.listen_for(limit)
    }
    fn connect(&self, _: &Task, address: &SocketAddress, patience: Patience) -> Result<(), Errno> {
        self.connect_to(address, patience)
    }
    fn accept(&self, patience: Patience) -> Result<Arc<dyn Socket>, Errno> {
        let made: Arc<dyn Socket> = self.take_connection(patience)?;
        Ok(made)
    }
    fn name(&self) -> SocketAddress {
        address::encode(self.family, self.local())
    }
    fn peer_name(&self) -> Result<SocketAddress, Errno> {
        self.connected_name()
    }
    fn accepted_from(&self) -> SocketAddress {
        // A connection that has ended meanwhile is still told.
        let peer = self.socket().peer();
        peer.map_or(SocketAddress::NONE, |peer| address::encode(self.family, peer))
    }
    fn peer(&self) -> Option<Party> {
        None
    }
    fn peer_label(&self) -> Option<&'static Label> {
        // Only packets of the own secrecy come.
        let label = (self.phase() == StreamPhase::Connected).then_some(self.maker.label)?;
        security::of_packets(label)
    }
    fn is_listening(&self) -> bool {
        self.phase() == StreamPhase::Listening
    }
    fn shut_down(&self, directions: Shut) -> Result<(), Errno> {
        self.end_directions(directions)
    }
    fn send(
        &self,
        _: &Task,
        source: &mut dyn Source,
        message: Outgoing<'_>,
        how: Send,
    ) -> Result<usize, Errno> {
        // Of the control messages, only those of SOL_SOCKET are looked at, and of these none is known but what AF_UNIX sends.
        for item in control_items(message.control) {
            let item = item?;
            let is_known = matches!(item.kind as u32, net::SCM_RIGHTS | net::SCM_CREDENTIALS);
            if item.level == net::SOL_SOCKET as i32 && !is_known {
                return Err(Errno::EINVAL);
            }
        }
        let sent = match how.is_fast_open {
            true => self.send_opening(source, message.to, how)?,
            false => 0,
        };
        if sent > 0 && source.remaining() == 0 {
            return Ok(sent);
        }
        self.send_rest(source, how, sent)
    }
    fn receive(
        &self,
        sink: &mut dyn Sink,
        how: Receive,
        _: Option<&mut SocketAddress>,
    ) -> Result<Received, Errno> {
        if how.is_error_queue {
            return self.notices.take(self.family).ok_or(Errno::EAGAIN);
        }
        self.receive_bytes(sink, how)
    }
    fn take_error(&self) -> Option<Errno> {
        self.stream().take_error().map(errno)
    }
    fn readable_bytes(&self) -> Result<usize, Errno> {
        match self.phase() {
            StreamPhase::Listening => Err(Errno::EINVAL),
            _ => Ok(self.readable_before_mark()),
        }
    }
    fn unsent_bytes(&self) -> Result<usize, Errno> {
        match self.phase() {
            StreamPhase::Listening => Err(Errno::EINVAL),
            _ if self.is_connecting(self.stream().state()) => Ok(0),
            _ => Ok(self.stream().unacknowledged()),
        }
    }
    fn request(&self, command: u32) -> Result<u32, Errno> {
        match command {
            request::SIOCATMARK => Ok(u32::from(self.is_at_mark())),
            SIOCOUTQNSD if self.phase() == StreamPhase::Listening => Err(Errno::EINVAL),
            SIOCOUTQNSD => Ok(self.socket().info().notsent_bytes),
            _ => Err(Errno::ENOTTY),
        }
    }
    fn send_buffer(&self) -> usize {
        self.send_limit.load(Ordering::Relaxed)
    }
    fn set_send_buffer(&self, bytes: usize) {
        let _control = self.control.lock();
        self.note_buffer(Flags::SEND_BUFFER_SET);
        self.send_limit.store(bytes, Ordering::Relaxed);
        self.stream().set_send_limit(bytes);
    }
    fn receive_buffer(&self) -> usize {
        self.stream().receive_limit()
    }
    fn set_receive_buffer(&self, bytes: usize) {
        let _control = self.control.lock();
        self.note_buffer(Flags::RECEIVE_BUFFER_SET);
        self.receive_limit.store(bytes, Ordering::Relaxed);
        let stream = self.stream();
        stream.set_receive_limit_max(0);
        stream.set_receive_limit(bytes);
    }
    fn has_peek_offset(&self) -> bool {
        false
    }
    fn set_filter(&self, program: Option<Arc<PacketProgram>>) -> Option<Arc<PacketProgram>> {
        let _control = self.control.lock();
        self.stream().filter().set(program.clone());
        self.common.filter.set(program)
    }
    fn has_zero_copy(&self) -> bool {
        true
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

impl File for InternetStream {
    fn signal_source(&self) -> Option<SignalSource<'_>> {
        Some(SignalSource::Readiness)
    }
    fn urgent_source(&self) -> Option<&WaitQueue> {
        Some(&self.wakes.urgent)
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
        Ok((self.send_bytes(source, how)?, 0))
    }
    /// See Linux's `tcp_poll`.
    fn poll(&self, table: Option<&PollTable>, _: &dyn Principal) -> Ready {
        if let Some(table) = table {
            self.wakes.watch(table);
        }
        let mut ready = Ready::empty();
        if self.phase() == StreamPhase::Listening {
            let has_any = self.queue.get().is_some_and(|queue| queue.has_any());
            ready.set(Ready::IN | Ready::READ_NORMAL, has_any);
            return ready;
        }
        let stream = self.stream();
        let state = stream.state();
        let ends = self.ends(state);
        let is_connecting = self.is_connecting(state);
        let is_closed = !state.contains(StreamState::CONNECTED) && !is_connecting;
        ready.set(Ready::HANGUP, ends == Shut::all() || is_closed);
        ready.set(Ready::READ_HANGUP, ends.contains(Shut::RECEIVE));
        ready.set(Ready::IN | Ready::READ_NORMAL, ends.contains(Shut::RECEIVE));
        ready.set(Ready::ERROR, stream.has_error() || self.notices.has_any());
        if is_connecting {
            let is_deferred = self.phase() == StreamPhase::Deferred;
            ready.set(Ready::OUT | Ready::WRITE_NORMAL, is_deferred);
            return ready;
        }
        let least = usize::try_from(self.common.options.low_water.load(Ordering::Relaxed));
        let readable = stream.readable();
        if readable > 0 {
            let mut least = least.unwrap_or(1).max(1);
            if self.is_at_mark() {
                // The urgent byte itself is not one to read, unless it stands in the stream.
                least += usize::from(!self.common.options.is_kept(net::SO_OOBINLINE));
            }
            let has_enough = readable >= least || stream.receive_room() == 0;
            ready |= if has_enough { Ready::IN | Ready::READ_NORMAL } else { Ready::empty() };
        }
        let has_room = || stream.is_writable() && self.has_unsent_room(UnsentShare::Half);
        let is_writable = ends.contains(Shut::SEND) || has_room();
        ready.set(Ready::OUT | Ready::WRITE_NORMAL, is_writable);
        ready.set(Ready::PRIORITY, self.has_urgent_byte());
        ready
    }
    /// Returns the bytes that were sent and not acknowledged, and those that were received and not read.
    fn held_bytes(&self, _: &mut Survey) -> usize {
        let stream = self.stream();
        let received = stream.receive_limit().saturating_sub(stream.receive_room());
        stream.unacknowledged().saturating_add(received)
    }
    fn as_any(&self) -> &dyn core::any::Any {
        self
    }
    fn closed(&self) {
        self.close_last();
    }
}

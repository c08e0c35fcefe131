//! A netlink socket as the socket calls see it, and as a file.
use super::{
    AuditCaller, FAMILY, NetlinkAddress, NetlinkSender, NetlinkSocket, Parcel, group_bit, hub,
    options, world::LocalWorld,
};
use crate::socket::{
    common::{SEND_DEFAULT, SocketCommon},
    interface::{
        Identity, Outgoing, Patience, Receive, Received, ReceivedControl, Send, Shut, Socket,
        SocketAddress, read_as_file,
    },
    option_input::OptionInput,
};
use alloc::{vec, vec::Vec};
use core::sync::atomic::Ordering;
use netadmin::session::{Asker, NetlinkProtocol, Quote, answer};
use process::{Task, tree};
use vfs::{
    Errno, Principal,
    file::{File, IoFlags, Ready, SignalSource},
    io::{Sink, Source},
    poll::PollTable,
};

/// Bytes of the send buffer that a message cannot use.
const RESERVED: usize = 32;
/// The longest message that is copied at all.
const BYTES_MAX: usize = 1 << 20;

impl NetlinkSocket {
    /// Answers a message to the kernel.
    fn ask(&self, sender: &NetlinkSender<'_>, port: u32, bytes: &[u8]) -> Result<(), Errno> {
        if matches!(self.protocol, NetlinkProtocol::Users | NetlinkProtocol::Policy) {
            // The kernel does not listen.
            return Err(Errno::ECONNREFUSED);
        }
        let asker = Asker {
            port,
            may_administer: sender.may_administer,
            is_strict: self.is_on(options::STRICT),
            quote: if self.is_on(options::CAP_ACK) { Quote::Header } else { Quote::Whole },
            wants_texts: self.is_on(options::EXT_ACK),
            user: sender.identity.user,
        };
        let audit = AuditCaller { task: sender.task, port };
        let world = LocalWorld::of(&sender.subject, audit);
        let answers = answer(self.protocol, bytes, &asker, &world);
        for bytes in answers.prompt {
            self.deliver(Parcel::of_kernel(bytes, 0));
        }
        let mut dumped = answers.dumped;
        dumped.retain_mut(|bytes| {
            let kept = self.admitted(bytes);
            bytes.truncate(kept);
            kept > 0
        });
        if !dumped.is_empty() {
            self.state.lock().queue.dump(dumped);
            self.arrived.wake();
        }
        Ok(())
    }
    fn send_bytes(
        &self,
        sender: &NetlinkSender<'_>,
        source: &mut dyn Source,
        to: Option<NetlinkAddress>,
        stated: Option<Identity>,
    ) -> Result<usize, Errno> {
        let (port, group) = match to {
            Some(to) => {
                self.check_send(sender, to.port, to.groups)?;
                (to.port, to.group())
            }
            None => self.state.lock().peer,
        };
        let own = self.port(sender)?;
        let length = source.remaining();
        if length > self.send_buffer().saturating_sub(RESERVED).min(BYTES_MAX) {
            return Err(Errno::EMSGSIZE);
        }
        if length == 0 {
            return Err(Errno::ENODATA);
        }
        let mut bytes = vec![0; length];
        source.take_whole(&mut bytes)?;
        if port == 0 && group == 0 {
            self.ask(sender, own, &bytes)?;
            return Ok(length);
        }
        let identity = stated.unwrap_or(sender.identity);
        let parcel = Parcel { bytes: bytes.into(), port: own, group, identity };
        if group != 0 {
            hub::broadcast(self.protocol, &parcel, (own, Some(self.label)));
            if port == 0 {
                return Ok(length);
            }
        }
        let receiver = hub::find(self.protocol, port).filter(|other| other.label == self.label);
        let receiver = receiver.ok_or(Errno::ECONNREFUSED)?;
        receiver.deliver(Parcel { group: 0, ..parcel });
        Ok(length)
    }
    /// Takes or looks at the first message, if there is one.
    fn next(
        &self,
        sink: &mut dyn Sink,
        how: Receive,
        sender: Option<&mut SocketAddress>,
    ) -> Result<Option<Received>, Errno> {
        let parcel = {
            let mut state = self.state.lock();
            if state.queue.take_loss() {
                return Err(Errno::ENOBUFS);
            }
            if how.is_peek { state.queue.first().cloned() } else { state.queue.take() }
        };
        let parcel = parcel.or_else(|| self.record(how.is_peek));
        let Some(parcel) = parcel else { return Ok(None) };
        if !how.is_peek {
            sink.commit();
        }
        let wanted = parcel.bytes.len().min(sink.remaining());
        let count = sink.put(parcel.bytes.get(..wanted).unwrap_or_default())?;
        if count < wanted {
            return Err(Errno::EFAULT);
        }
        if let Some(sender) = sender {
            let groups = group_bit(parcel.group);
            *sender = NetlinkAddress { port: parcel.port, groups }.encode();
        }
        let mut found = Received {
            count,
            length: parcel.bytes.len(),
            identity: parcel.identity,
            ..Received::default()
        };
        if self.is_on(options::GROUP_INFO) {
            let group = parcel.group.to_le_bytes();
            let item = ReceivedControl::new(options::LEVEL, options::GROUP_INFO, &group);
            found.control.push(item);
        }
        Ok(Some(found))
    }
}

impl Socket for NetlinkSocket {
    fn common(&self) -> &SocketCommon {
        &self.common
    }
    fn family(&self) -> u16 {
        FAMILY
    }
    fn protocol(&self) -> i32 {
        self.protocol as i32
    }
    fn protocol_name(&self) -> &'static str {
        "NETLINK"
    }
    fn bind(&self, task: &Task, address: &SocketAddress, _: u16) -> Result<(), Errno> {
        self.name_to(task, NetlinkAddress::decode(address)?)
    }
    fn connect(&self, task: &Task, address: &SocketAddress, _: Patience) -> Result<(), Errno> {
        if address.is_unspecified() {
            self.state.lock().peer = (0, 0);
            return Ok(());
        }
        let to = NetlinkAddress::decode(address)?;
        let sender = NetlinkSender::of(task);
        self.check_send(&sender, to.port, to.groups)?;
        self.port(&sender)?;
        self.state.lock().peer = (to.port, to.group());
        Ok(())
    }
    fn name(&self) -> SocketAddress {
        let state = self.state.lock();
        NetlinkAddress { port: state.port, groups: state.groups as u32 }.encode()
    }
    fn peer_name(&self) -> Result<SocketAddress, Errno> {
        let (port, group) = self.state.lock().peer;
        Ok(NetlinkAddress { port, groups: group_bit(group) }.encode())
    }
    fn shut_down(&self, _: Shut) -> Result<(), Errno> {
        Err(Errno::EOPNOTSUPP)
    }
    fn send(
        &self,
        task: &Task,
        source: &mut dyn Source,
        message: Outgoing<'_>,
        how: Send,
    ) -> Result<usize, Errno> {
        if how.is_urgent {
            return Err(Errno::EOPNOTSUPP);
        }
        let to = message.to.map(NetlinkAddress::decode).transpose()?;
        self.send_bytes(&NetlinkSender::of(task), source, to, message.identity)
    }
    fn receive(
        &self,
        sink: &mut dyn Sink,
        how: Receive,
        mut sender: Option<&mut SocketAddress>,
    ) -> Result<Received, Errno> {
        if how.is_urgent {
            return Err(Errno::EOPNOTSUPP);
        }
        self.common.receive_when(&self.arrived, how, || self.next(sink, how, sender.as_deref_mut()))
    }
    fn take_error(&self) -> Option<Errno> {
        self.state.lock().queue.take_loss().then_some(Errno::ENOBUFS)
    }
    fn readable_bytes(&self) -> Result<usize, Errno> {
        Err(Errno::ENOTTY)
    }
    fn unsent_bytes(&self) -> Result<usize, Errno> {
        Err(Errno::ENOTTY)
    }
    fn send_buffer(&self) -> usize {
        match self.send_limit.load(Ordering::Relaxed) {
            0 => SEND_DEFAULT.size(),
            bytes => bytes,
        }
    }
    fn set_send_buffer(&self, bytes: usize) {
        self.send_limit.store(bytes, Ordering::Relaxed);
    }
    fn has_peek_offset(&self) -> bool {
        false
    }
    fn set_option(&self, task: &Task, place: (u32, u32), input: &OptionInput) -> Result<(), Errno> {
        options::set(self, task, place, input)
    }
    fn option(&self, place: (u32, u32), room: usize) -> Result<Vec<u8>, Errno> {
        options::get(self, place, room)
    }
}

impl File for NetlinkSocket {
    fn signal_source(&self) -> Option<SignalSource<'_>> {
        Some(SignalSource::Readiness)
    }
    fn read(&self, _: u64, sink: &mut dyn Sink, flags: IoFlags) -> Result<usize, Errno> {
        read_as_file(self, sink, flags)
    }
    fn write(&self, _: u64, source: &mut dyn Source, _: IoFlags) -> Result<(usize, u64), Errno> {
        // The source is the caller's and is changed by the send, so the task is looked up.
        let id = Task::of(source.caller()).ok_or(Errno::EPERM)?.id();
        let task = tree::task(id).ok_or(Errno::EPERM)?;
        Ok((self.send_bytes(&NetlinkSender::of(&task), source, None, None)?, 0))
    }
    fn poll(&self, table: Option<&PollTable>, _: &dyn Principal) -> Ready {
        if let Some(table) = table {
            table.add(&self.arrived);
        }
        let state = self.state.lock();
        let mut ready = Ready::OUT | Ready::WRITE_NORMAL;
        let is_readable = state.queue.first().is_some() || self.has_record(state.port);
        ready.set(Ready::IN | Ready::READ_NORMAL, is_readable);
        ready.set(Ready::ERROR, state.queue.has_lost());
        ready
    }
    fn as_any(&self) -> &dyn core::any::Any {
        self
    }
    fn closed(&self) {
        self.end();
    }
}

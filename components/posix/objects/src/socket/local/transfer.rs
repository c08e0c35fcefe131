//! Sending and receiving messages.
use super::{
    Address, LocalSocket, SocketLink, SocketState,
    message::{Along, SocketMessage},
    rights::Rights,
};
use crate::pipe::broken_pipe;
use crate::socket::{
    common::wait,
    interface::{Identity, Receive, Received, Send, Shut, SocketAddress, SocketKind},
};
use alloc::{sync::Arc, vec::Vec};
use bpf::PacketFacts;
use core::sync::atomic::Ordering;
use linux_raw_sys::net;
use process::Task;
use vfs::{
    Caller, Errno, OpenFile, Principal,
    io::{Sink, Source},
    security::{Label, flows},
};

/// The greatest number of bytes of a piece of a stream: as many as Linux puts into one buffer whose parts are single pages
/// (`SKB_MAX_HEAD(0) + UNIX_SKB_FRAGS_SZ`). A piece is sent as a whole or not at all, so programs see it where memory faults. It
/// is at most half of SO_SNDBUF less [`PIECE_MARGIN`], too.
const PIECE_MAX: usize = 3776 + (32 << 10);
/// The part of half of SO_SNDBUF that a piece of a stream may not use.
const PIECE_MARGIN: usize = 64;
/// The part of SO_SNDBUF that a datagram may not use.
const MARGIN: usize = 32;

/// Returns the identity of the sender: its process with its real ids, as Linux fills it in.
pub fn identity_of(sender: &dyn Principal) -> Identity {
    let Some(task) = Task::of(sender) else { return Identity::default() };
    let who = task.credentials();
    Identity { process: task.process.id(), user: who.user.real, group: who.group.real }
}

/// The reason why a message was not put into an inbox.
enum Why {
    Error(Errno),
    /// The inbox is full.
    Full,
}

impl LocalSocket {
    /// Sends the bytes of `source` to the peer or to an address. Returns the number of bytes sent.
    ///
    /// # Errors
    /// `ENOTCONN`, `EPIPE` (with a signal, for a stream), `ECONNREFUSED`, `ECONNRESET`, `EMSGSIZE`, `EAGAIN`, `EFAULT`, and
    /// errors of the lookup of the address.
    pub(super) fn send_to(
        &self,
        source: &mut dyn Source,
        to: Option<(&Caller<'_>, &Address)>,
        along: Along,
        how: Send,
    ) -> Result<usize, Errno> {
        match self.common.kind() {
            SocketKind::Stream => self.send_stream(source, along, how),
            SocketKind::Packet => {
                let peer = self.connected()?;
                self.send_message(source, &peer, along, how)
            }
            SocketKind::Datagram | SocketKind::Raw => {
                let to = match to {
                    Some((caller, address)) => self.find(caller, address)?,
                    None => self.destination()?,
                };
                self.send_message(source, &to, along, how)
            }
        }
    }
    /// Returns the error of a stream that is to send to an address.
    pub(super) fn refuses_address(&self) -> Errno {
        let is_linked = matches!(self.state.lock().link, SocketLink::To(..));
        if is_linked { Errno::EISCONN } else { Errno::EOPNOTSUPP }
    }
    /// Returns the destination of a datagram without an address; a peer that has ended does not count.
    fn destination(&self) -> Result<Arc<LocalSocket>, Errno> {
        let mut state = self.state.lock();
        let SocketLink::To(peer, _) = &state.link else { return Err(Errno::ENOTCONN) };
        let found = peer.upgrade();
        if found.is_none() {
            state.link = SocketLink::Free;
        }
        found.ok_or(Errno::ECONNREFUSED)
    }
    /// Returns the peer of a connection.
    fn connected(&self) -> Result<Arc<LocalSocket>, Errno> {
        let mut state = self.state.lock();
        match &state.link {
            SocketLink::To(peer, _) => match peer.upgrade() {
                Some(peer) => Ok(peer),
                None => Err(state.error.take().unwrap_or(Errno::EPIPE)),
            },
            _ => Err(Errno::ENOTCONN),
        }
    }
    fn send_stream(
        &self,
        source: &mut dyn Source,
        along: Along,
        how: Send,
    ) -> Result<usize, Errno> {
        let mut sent = 0;
        let result = self.send_pieces(source, along, how, &mut sent);
        match result {
            Err(Errno::EPIPE) if sent == 0 && !how.is_silent => {
                broken_pipe(source.caller());
                Err(Errno::EPIPE)
            }
            Err(error) if sent == 0 => Err(error),
            _ => Ok(sent),
        }
    }
    fn send_pieces(
        &self,
        source: &mut dyn Source,
        along: Along,
        how: Send,
        sent: &mut usize,
    ) -> Result<(), Errno> {
        let is_shut = self.state.lock().shut.contains(Shut::SEND);
        let peer = match self.connected() {
            Err(Errno::ENOTCONN) => return Err(Errno::ENOTCONN),
            _ if is_shut => return Err(Errno::EPIPE),
            peer => peer?,
        };
        flows::moves(|| (self.label(), peer.label()));
        let (identity, mut rights) =
            (self.identity_to(&peer, along.identity, source), along.rights);
        while source.remaining() > 0 {
            self.wait_for_budget(how)?;
            let most = (self.budget.limit() / 2).saturating_sub(PIECE_MARGIN).min(PIECE_MAX);
            let length = source.remaining().min(most);
            let along = (identity, rights.take());
            let message = SocketMessage::read(source, length, &self.budget, along)?;
            let count = message.left();
            match peer.put(&mut Some(message), |_| Ok(())) {
                Ok(()) => *sent += count,
                Err(Why::Error(error)) => return Err(error),
                Err(Why::Full) => return Err(Errno::EAGAIN),
            }
        }
        Ok(())
    }
    /// Waits until more bytes may be under way; a pending error comes first.
    fn wait_for_budget(&self, how: Send) -> Result<(), Errno> {
        let timeout = self.common.send_deadline();
        loop {
            let ticket = self.budget.freed.ticket();
            {
                let mut state = self.state.lock();
                if let Some(error) = state.error.take() {
                    return Err(error);
                }
                if state.shut.contains(Shut::SEND) {
                    return Err(Errno::EPIPE);
                }
            }
            if self.budget.has_room() {
                return Ok(());
            }
            self.budget.want_room();
            if how.is_nonblocking {
                return Err(Errno::EAGAIN);
            }
            wait(&self.budget.freed, ticket, timeout)?;
        }
    }
    fn send_message(
        &self,
        source: &mut dyn Source,
        to: &Arc<LocalSocket>,
        along: Along,
        how: Send,
    ) -> Result<usize, Errno> {
        flows::moves(|| (self.label(), to.label()));
        let length = source.remaining();
        if length > self.budget.limit().saturating_sub(MARGIN) {
            return Err(Errno::EMSGSIZE);
        }
        self.wait_for_budget(how)?;
        let along = (self.identity_to(to, along.identity, source), along.rights);
        let mut message = SocketMessage::read(source, length, &self.budget, along)?;
        if let Some(program) = to.common.filter.get() {
            // The sender is not told of a message that the receiver's filter drops.
            match program.admit(&message, &PacketFacts::default()) {
                None => return Ok(length),
                Some(kept) => message.cut(kept),
            }
        }
        let mut message = Some(message);
        let timeout = self.common.send_deadline();
        loop {
            let ticket = to.room.ticket();
            let check = |state: &SocketState| match &state.link {
                SocketLink::To(peer, _) if self.common.kind() == SocketKind::Datagram => {
                    match peer.ptr_eq(&self.this) {
                        true => Ok(()),
                        false => Err(Why::Error(Errno::EPERM)),
                    }
                }
                SocketLink::To(..) => Ok(()),
                _ if state.is_full() => Err(Why::Full),
                _ => Ok(()),
            };
            match to.put(&mut message, check) {
                Ok(()) => return Ok(length),
                Err(Why::Full) => {}
                Err(Why::Error(Errno::ECONNREFUSED)) => return Err(self.refused_by(to)),
                Err(Why::Error(error)) => return Err(error),
            }
            if how.is_nonblocking {
                return Err(Errno::EAGAIN);
            }
            wait(&to.room, ticket, timeout)?;
        }
    }
    /// Returns the credentials for a message from `source` to `other`: those that the sender states, or its own if either end
    /// passes them (SO_PASSCRED) or if the other end was not accepted yet and so might.
    fn identity_to(
        &self,
        other: &LocalSocket,
        said: Option<Identity>,
        source: &dyn Source,
    ) -> Identity {
        let passes = |end: &LocalSocket| end.common.options.passes_identity.load(Ordering::Relaxed);
        match said {
            Some(identity) => identity,
            None if passes(self) || passes(other) || other.is_waiting.load(Ordering::Relaxed) => {
                identity_of(source.caller())
            }
            None => Identity::UNKNOWN,
        }
    }
    /// Handles a destination that was closed: a datagram socket loses its peer. Returns the error.
    fn refused_by(&self, to: &Arc<LocalSocket>) -> Errno {
        if self.common.kind() == SocketKind::Packet {
            return Errno::EPIPE;
        }
        let mut state = self.state.lock();
        if matches!(&state.link, SocketLink::To(peer, _) if peer.ptr_eq(&to.this)) {
            state.link = SocketLink::Free;
        }
        Errno::ECONNREFUSED
    }
    /// Returns whether `from` can put a datagram here without waiting.
    pub(super) fn has_place_for(&self, from: &LocalSocket) -> bool {
        let state = self.state.lock();
        let is_peer = matches!(&state.link, SocketLink::To(peer, _) if peer.ptr_eq(&from.this));
        is_peer || !state.is_full()
    }
    /// Moves `message` into the inbox if `check` allows it; otherwise it stays in its place.
    fn put(
        &self,
        message: &mut Option<SocketMessage>,
        check: impl Fn(&SocketState) -> Result<(), Why>,
    ) -> Result<(), Why> {
        let put = |state: &mut SocketState, message: &mut Option<SocketMessage>| {
            let gone = if self.common.kind() == SocketKind::Stream {
                Errno::EPIPE
            } else {
                Errno::ECONNREFUSED
            };
            if state.is_closed {
                return Err(Why::Error(gone));
            }
            if state.shut.contains(Shut::RECEIVE) {
                return Err(Why::Error(Errno::EPIPE));
            }
            check(state)?;
            if let Some(message) = message.take() {
                state.inbox.push_back(message);
            }
            Ok(())
        };
        let has_rights = message.as_ref().is_some_and(|message| message.rights.is_some());
        if has_rights {
            Rights::launch(|launch| {
                let mut state = self.state.lock();
                put(&mut state, message)?;
                let sent = state.inbox.back_mut();
                sent.into_iter().for_each(|message| launch.count(&mut message.rights));
                Ok(())
            })?;
        } else {
            put(&mut self.state.lock(), message)?;
        }
        self.note_arrival();
        Ok(())
    }

    /// Receives into `sink`.
    ///
    /// # Errors
    /// `EINVAL` or `ENOTCONN` for a socket without a peer, `EAGAIN`, `ECONNRESET`, `EFAULT`, and for a signal as [`wait`].
    pub(super) fn receive_from(
        &self,
        sink: &mut dyn Sink,
        how: Receive,
        sender: Option<&mut SocketAddress>,
    ) -> Result<Received, Errno> {
        let is_linked = matches!(self.state.lock().link, SocketLink::To(..));
        match self.common.kind() {
            SocketKind::Stream if !is_linked => Err(Errno::EINVAL),
            SocketKind::Packet if !is_linked => Err(Errno::ENOTCONN),
            SocketKind::Stream => self.receive_stream(sink, how, sender),
            _ => self.receive_message(sink, how, sender),
        }
    }
    /// Returns the number of bytes that a peek skips; `None` if peeks do not move.
    fn peek_offset(&self, how: Receive) -> Option<usize> {
        let offset = self.common.options.peek_offset.load(Ordering::Relaxed);
        usize::try_from(offset).ok().filter(|_| how.is_peek)
    }
    fn receive_stream(
        &self,
        sink: &mut dyn Sink,
        how: Receive,
        mut sender: Option<&mut SocketAddress>,
    ) -> Result<Received, Errno> {
        let timeout = self.common.receive_deadline();
        let room = sink.remaining();
        let least =
            usize::try_from(self.common.options.low_water.load(Ordering::Relaxed)).unwrap_or(1);
        let wanted = if how.is_whole { room } else { least.min(room) }.max(1);
        let mut found = Received::default();
        loop {
            let ticket = self.arrived.ticket();
            let is_complete = {
                let _reading = self.reading.lock();
                match self.read_pieces(sink, how, &mut found, sender.as_deref_mut()) {
                    Err(error) if found.count == 0 => return Err(error),
                    Err(_) => true,
                    Ok(is_complete) => is_complete,
                }
            };
            if is_complete || found.count >= wanted || how.is_peek && found.count > 0 {
                break;
            }
            match self.ended_or_error() {
                Some(Err(error)) if found.count == 0 => return Err(error),
                Some(_) => break,
                None => {}
            }
            if how.is_nonblocking {
                if found.count == 0 {
                    return Err(Errno::EAGAIN);
                }
                break;
            }
            match wait(&self.arrived, ticket, timeout) {
                Err(error) if found.count == 0 => return Err(error),
                Err(_) => break,
                Ok(()) => {}
            }
        }
        found.length = found.count;
        self.common.move_peek(how, found.count);
        Ok(found)
    }
    /// Called when the inbox is empty: returns a pending error, or the end of the stream, if no more data can come.
    fn ended_or_error(&self) -> Option<Result<(), Errno>> {
        let mut state = self.state.lock();
        if !state.inbox.is_empty() {
            return None;
        }
        if let Some(error) = state.error.take() {
            return Some(Err(error));
        }
        state.shut.contains(Shut::RECEIVE).then_some(Ok(()))
    }
    /// Moves the available bytes to `sink`. Returns whether the call must end after them (descriptors, another sender). The
    /// caller holds `reading`.
    fn read_pieces(
        &self,
        sink: &mut dyn Sink,
        how: Receive,
        found: &mut Received,
        mut sender: Option<&mut SocketAddress>,
    ) -> Result<bool, Errno> {
        let tells_identity = self.common.options.passes_identity.load(Ordering::Relaxed);
        let mut skip = self.peek_offset(how).unwrap_or(0);
        let mut peeked = Vec::new();
        let mut result = Ok(false);
        // A read without room for bytes takes only the other parts of the first message.
        let mut is_first = found.count == 0 && found.files.is_empty();
        while is_first || sink.remaining() > 0 {
            let Some(mut message) = self.state.lock().inbox.pop_front() else { break };
            if message.left() > 0 && message.left() <= skip {
                skip -= message.left();
                peeked.push(message);
                continue;
            }
            if !is_first && tells_identity && message.identity != found.identity {
                peeked.push(message);
                result = Ok(true);
                break;
            }
            let moved = message.write(skip, sink);
            let Ok(count) = moved else {
                peeked.push(message);
                result = moved.map(|_| true);
                break;
            };
            if is_first {
                found.identity = message.identity;
                found.label = self.label_of(&message);
                message.tell_sender(sender.take());
                is_first = false;
            }
            found.count += count;
            let has_rights = message.rights.is_some();
            if has_rights {
                found.files.extend(take_rights(&mut message, how));
            }
            let is_used_up = count + skip >= message.left();
            skip = 0;
            if how.is_peek {
                peeked.push(message);
            } else {
                message.consume(count);
                if message.left() > 0 {
                    peeked.push(message);
                }
            }
            if has_rights || !is_used_up {
                result = Ok(has_rights || sink.remaining() == 0);
                break;
            }
        }
        self.put_back(peeked);
        result
    }
    /// Returns the label of a message, if the socket is to tell it (SO_PASSSEC).
    fn label_of(&self, message: &SocketMessage) -> Option<&'static Label> {
        self.common.options.is_kept(net::SO_PASSSEC).then(|| message.label())
    }
    /// Puts removed messages back before the others, in their order.
    fn put_back(&self, messages: Vec<SocketMessage>) {
        if messages.is_empty() {
            return;
        }
        let dropped = {
            let mut state = self.state.lock();
            if state.is_closed {
                messages
            } else {
                messages.into_iter().rev().for_each(|message| state.inbox.push_front(message));
                Vec::new()
            }
        };
        drop(dropped);
        // A reader may have found the inbox empty meanwhile.
        self.arrived.wake();
    }
    fn receive_message(
        &self,
        sink: &mut dyn Sink,
        how: Receive,
        mut sender: Option<&mut SocketAddress>,
    ) -> Result<Received, Errno> {
        let timeout = self.common.receive_deadline();
        loop {
            let ticket = self.arrived.ticket();
            {
                let _reading = self.reading.lock();
                if let Some(found) = self.read_message(sink, how, sender.as_deref_mut())? {
                    return Ok(found);
                }
            }
            match self.ended_or_error() {
                Some(Err(error)) => return Err(error),
                Some(Ok(())) if self.common.kind() == SocketKind::Packet || !how.is_nonblocking => {
                    return Ok(Received::default());
                }
                _ => {}
            }
            if how.is_nonblocking {
                return Err(Errno::EAGAIN);
            }
            wait(&self.arrived, ticket, timeout)?;
        }
    }
    /// Reads one message, if there is one. The caller holds `reading`.
    fn read_message(
        &self,
        sink: &mut dyn Sink,
        how: Receive,
        sender: Option<&mut SocketAddress>,
    ) -> Result<Option<Received>, Errno> {
        let mut skip = self.peek_offset(how).unwrap_or(0);
        let mut passed = Vec::new();
        let message = loop {
            let Some(message) = self.state.lock().inbox.pop_front() else { break None };
            if message.left() == 0 || message.left() > skip {
                break Some(message);
            }
            skip -= message.left();
            passed.push(message);
        };
        let Some(mut message) = message else {
            self.put_back(passed);
            return Ok(None);
        };
        // The message is gone then, even if an address is bad, as on Linux.
        if !how.is_peek {
            sink.commit();
        }
        let moved = message.write(skip, sink);
        let mut found = Received {
            length: message.left() - skip.min(message.left()),
            identity: message.identity,
            label: self.label_of(&message),
            ..Received::default()
        };
        message.tell_sender(sender);
        if moved.is_ok() && message.rights.is_some() {
            found.files = take_rights(&mut message, how);
        }
        if how.is_peek {
            passed.push(message);
        } else {
            drop(message);
            self.room.wake();
        }
        self.put_back(passed);
        found.count = moved?;
        self.common.move_peek(how, if how.is_peek { found.count } else { found.length });
        Ok(Some(found))
    }
}

/// Returns the files of a message that is in no inbox now; they stay in it if the message is put back.
fn take_rights(message: &mut SocketMessage, how: Receive) -> Vec<Arc<OpenFile>> {
    Rights::launch(|launch| match how.is_peek {
        true => launch.copy(&message.rights),
        false => launch.land(message.rights.take()),
    })
}

impl SocketState {
    fn is_full(&self) -> bool {
        self.inbox.len() > self.inbox_most
    }
}

//! AF_UNIX as the socket calls see it.
use super::{
    Address, LocalSocket, SocketLink,
    message::{Along, SocketMessage},
    rights::{self, Rights},
};
use crate::socket::{
    common::SocketCommon,
    interface::{
        Identity, Outgoing, Party, Patience, Receive, Received, Send, Shut, Socket, SocketAddress,
        SocketKind,
    },
};
use alloc::{sync::Arc, vec::Vec};
use core::sync::atomic::Ordering;
use linux_raw_sys::net;
use process::{
    Task,
    files::{Scope, install::descriptor_limit},
};
use vfs::{
    Capabilities, Errno, OpenFile,
    io::{Sink, Source},
    security::Label,
};

/// Returns the identity of a caller that a peer sees (SO_PEERCRED): effective ids and groups.
pub fn party(task: &Task) -> Party {
    let who = task.credentials();
    let identity = Identity {
        process: task.process.id(),
        user: who.user.effective,
        group: who.group.effective,
    };
    (identity, who.groups.to_vec())
}

/// Puts descriptions into a message; a user may not have more under way than a process may have open.
fn pass(task: &Task, files: Vec<Arc<OpenFile>>) -> Result<Option<Rights>, Errno> {
    if files.is_empty() {
        return Ok(None);
    }
    let who = task.credentials();
    let is_free = who.has(Capabilities::SYS_RESOURCE) || who.has(Capabilities::SYS_ADMIN);
    if !is_free && rights::count_of(who.user.real) > descriptor_limit(task) {
        return Err(Errno::ETOOMANYREFS);
    }
    rights::collect_at_send();
    Ok(Some(Rights::new(files, who.user.real)))
}

impl LocalSocket {
    /// Gives a name to a socket that passes its identity, so that it can be answered (SO_PASSCRED, unix(7)).
    fn name_if_told(&self, task: &Task) -> Result<(), Errno> {
        let passes = self.common.options.passes_identity.load(Ordering::Relaxed);
        if passes && self.address() == Address::None {
            self.bind_to(&Scope::of(task).caller(), Address::None, 0)?;
        }
        Ok(())
    }
}

impl Socket for LocalSocket {
    fn common(&self) -> &SocketCommon {
        &self.common
    }
    fn family(&self) -> u16 {
        net::AF_UNIX as u16
    }
    fn protocol_name(&self) -> &'static str {
        if self.common.kind() == SocketKind::Stream { "UNIX-STREAM" } else { "UNIX" }
    }
    fn bind(&self, task: &Task, address: &SocketAddress, mode: u16) -> Result<(), Errno> {
        self.bind_to(&Scope::of(task).caller(), Address::parse(address.bytes())?, mode)
    }
    fn listen(&self, task: &Task, limit: usize) -> Result<(), Errno> {
        self.listen_for(limit, party(task))
    }
    fn connect(
        &self,
        task: &Task,
        address: &SocketAddress,
        patience: Patience,
    ) -> Result<(), Errno> {
        if address.is_unspecified() && self.common.kind() == SocketKind::Datagram {
            self.disconnect();
            return Ok(());
        }
        let address = Address::parse(address.bytes())?;
        self.name_if_told(task)?;
        self.connect_to(&Scope::of(task).caller(), &address, party(task), patience)
    }
    fn accept(&self, patience: Patience) -> Result<Arc<dyn Socket>, Errno> {
        let made: Arc<dyn Socket> = self.take_connection(patience)?;
        Ok(made)
    }
    fn name(&self) -> SocketAddress {
        self.address().encode()
    }
    fn peer_name(&self) -> Result<SocketAddress, Errno> {
        self.peer_address().map(|name| name.encode())
    }
    fn peer(&self) -> Option<Party> {
        self.state.lock().peer.clone()
    }
    fn peer_label(&self) -> Option<&'static Label> {
        self.state.lock().peer_label
    }
    fn is_listening(&self) -> bool {
        matches!(self.state.lock().link, SocketLink::Listening { .. })
    }
    fn shut_down(&self, directions: Shut) -> Result<(), Errno> {
        self.end(directions);
        Ok(())
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
        // Streams and packets are sent to the peer for any address.
        let to = match (message.to, self.common.kind()) {
            (Some(_), SocketKind::Stream) => return Err(self.refuses_address()),
            (Some(to), SocketKind::Datagram) => Some(Address::parse(to.bytes())?),
            _ => None,
        };
        self.name_if_told(task)?;
        let along = Along { identity: message.identity, rights: pass(task, message.files)? };
        match to {
            None => self.send_to(source, None, along, how),
            Some(to) => {
                let scope = Scope::of(task);
                self.send_to(source, Some((&scope.caller(), &to)), along, how)
            }
        }
    }
    fn receive(
        &self,
        sink: &mut dyn Sink,
        how: Receive,
        sender: Option<&mut SocketAddress>,
    ) -> Result<Received, Errno> {
        match (how.is_urgent, self.common.kind()) {
            (true, SocketKind::Stream) => Err(Errno::EINVAL),
            (true, _) => Err(Errno::EOPNOTSUPP),
            (false, _) => self.receive_from(sink, how, sender),
        }
    }
    fn take_error(&self) -> Option<Errno> {
        self.state.lock().error.take()
    }
    fn readable_bytes(&self) -> Result<usize, Errno> {
        let state = self.state.lock();
        match (&state.link, self.common.kind()) {
            (SocketLink::Listening { .. }, _) => Err(Errno::EINVAL),
            (_, SocketKind::Datagram) => Ok(state.inbox.front().map_or(0, SocketMessage::left)),
            _ => Ok(state.inbox.iter().map(SocketMessage::left).sum()),
        }
    }
    fn unsent_bytes(&self) -> Result<usize, Errno> {
        Ok(self.budget.used())
    }
    fn send_buffer(&self) -> usize {
        self.budget.limit()
    }
    fn set_send_buffer(&self, bytes: usize) {
        self.budget.set_limit(bytes);
    }
}

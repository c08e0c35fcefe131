//! Connections: listen, connect, accept.
use super::{Address, LocalSocket, SocketLink, SocketState};
use crate::socket::{
    common::{BACKLOG_MAX, wait},
    interface::{Party, Patience, Shut, SocketKind},
};
use alloc::{
    collections::VecDeque,
    sync::{Arc, Weak},
};
use core::sync::atomic::Ordering;
use vfs::{Caller, Errno, Principal};

/// The way in which the other end of a connection was closed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum HangUp {
    /// It had read all.
    End,
    /// It had not read all: ECONNRESET.
    Reset,
}

/// The close of a socket.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Close {
    /// Its last description was closed.
    Last,
    /// It was never accepted, and so never had a description.
    Unaccepted,
}

impl LocalSocket {
    /// Makes the socket accept connections (listen(2)).
    ///
    /// # Errors
    /// `EOPNOTSUPP` for datagrams, `EINVAL` if it has no name or has a peer.
    pub(super) fn listen_for(&self, limit: usize, who: Party) -> Result<(), Errno> {
        if self.common.kind() == SocketKind::Datagram {
            return Err(Errno::EOPNOTSUPP);
        }
        let mut state = self.state.lock();
        if state.name == Address::None {
            return Err(Errno::EINVAL);
        }
        match &mut state.link {
            SocketLink::To(..) => return Err(Errno::EINVAL),
            SocketLink::Listening { limit: before, .. } => *before = limit.min(BACKLOG_MAX.size()),
            link => {
                let limit = limit.min(BACKLOG_MAX.size());
                *link = SocketLink::Listening { limit, waiting: VecDeque::new() };
            }
        }
        state.peer = Some(who.clone());
        state.listener = who;
        drop(state);
        self.room.wake();
        Ok(())
    }
    /// Connects to an address (connect(2)). A datagram socket only records the destination.
    ///
    /// # Errors
    /// `ECONNREFUSED`, `EISCONN`, `EINVAL`, `EAGAIN` if too many connections wait, `EPROTOTYPE`, `EPERM` for a datagram
    /// socket with another peer, and errors of the lookup of the name.
    pub(super) fn connect_to(
        &self,
        caller: &Caller<'_>,
        address: &Address,
        who: Party,
        patience: Patience,
    ) -> Result<(), Errno> {
        if self.common.kind() == SocketKind::Datagram {
            let to = self.find(caller, address)?;
            to.check_takes(self)?;
            self.relink(SocketLink::To(Arc::downgrade(&to), address.clone()));
            return Ok(());
        }
        let timeout = self.common.send_deadline();
        loop {
            // That a socket listens there is checked before the state of this one.
            let to = self.find(caller, address)?;
            let ticket = to.room.ticket();
            to.state.lock().takes_connection()?;
            match self.state.lock().link {
                SocketLink::Free => {}
                SocketLink::To(..) => return Err(Errno::EISCONN),
                SocketLink::Listening { .. } => return Err(Errno::EINVAL),
            }
            match to.offer(self, &who, caller.task)? {
                Some(other) => {
                    let listener = to.state.lock().listener.clone();
                    return self.enter(&other, address, listener);
                }
                None if patience == Patience::None => return Err(Errno::EAGAIN),
                None => wait(&to.room, ticket, timeout)?,
            }
        }
    }
    /// Removes the destination of a datagram socket (connect(2) to AF_UNSPEC).
    pub(super) fn disconnect(&self) {
        if self.common.kind() == SocketKind::Datagram {
            self.relink(SocketLink::Free);
        }
    }
    /// Sets or removes the peer of a datagram socket. Messages of the previous peer are dropped, and that peer is told.
    fn relink(&self, link: SocketLink) {
        let (before, dropped) = {
            let mut state = self.state.lock();
            let is_same = |peer: &Weak<LocalSocket>| match &link {
                SocketLink::To(new, _) => new.ptr_eq(peer),
                _ => false,
            };
            let before = match &state.link {
                SocketLink::To(peer, _) if !is_same(peer) => Some(peer.clone()),
                _ => None,
            };
            state.link = link;
            let dropped = match before {
                Some(_) => core::mem::take(&mut state.inbox),
                None => VecDeque::new(),
            };
            (before, dropped)
        };
        if !dropped.is_empty() {
            self.room.wake();
        }
        drop(dropped);
        self.budget.freed.wake();
        let Some(before) = before.and_then(|before| before.upgrade()) else { return };
        {
            let mut state = before.state.lock();
            let is_mutual =
                matches!(&state.link, SocketLink::To(peer, _) if peer.ptr_eq(&self.this));
            if !is_mutual || state.is_closed {
                return;
            }
            state.error = Some(Errno::ECONNRESET);
        }
        before.wake_all();
        before.told.wake();
    }
    /// Checks that the socket accepts messages of `from`: a datagram socket with a peer accepts only the peer's.
    fn check_takes(&self, from: &LocalSocket) -> Result<(), Errno> {
        let state = self.state.lock();
        match &state.link {
            SocketLink::To(peer, _) if !peer.ptr_eq(&from.this) => Err(Errno::EPERM),
            _ => Ok(()),
        }
    }
    /// Adds a connection of `from` to those that wait. Returns the socket that is its other end; `None` if too many wait.
    fn offer(
        &self,
        from: &LocalSocket,
        who: &Party,
        maker: &dyn Principal,
    ) -> Result<Option<Arc<LocalSocket>>, Errno> {
        if !self.state.lock().takes_connection()? {
            return Ok(None);
        }
        let made = self.other_end(from, who, maker);
        let mut state = self.state.lock();
        let takes = state.takes_connection();
        match (&takes, &mut state.link) {
            (Ok(true), SocketLink::Listening { waiting, .. }) => waiting.push_back(made.clone()),
            _ => {
                drop(state);
                // It never became the other end of `from`, which must not be told of its end.
                made.state.lock().link = SocketLink::Free;
                return takes.map(|_| None);
            }
        }
        drop(state);
        self.note_arrival();
        Ok(Some(made))
    }
    /// Makes the socket that accept(2) returns for a connection that `maker` makes from `from`; it has this one's name.
    fn other_end(
        &self,
        from: &LocalSocket,
        who: &Party,
        maker: &dyn Principal,
    ) -> Arc<LocalSocket> {
        let made = LocalSocket::labelled(self.common.kind(), maker, self.label());
        made.is_waiting.store(true, Ordering::Relaxed);
        let from_name = from.address();
        let (name, place) = {
            let state = self.state.lock();
            (state.name.clone(), state.place.clone())
        };
        let passes = self.common.options.passes_identity.load(Ordering::Relaxed);
        made.common.options.passes_identity.store(passes, Ordering::Relaxed);
        let mut state = made.state.lock();
        state.link = SocketLink::To(from.this.clone(), from_name);
        state.peer = Some(who.clone());
        state.peer_label = Some(from.label());
        made.budget.set_name(name.clone());
        (state.name, state.place) = (name, place);
        drop(state);
        made
    }
    /// Records the established connection to `other`.
    fn enter(&self, other: &Arc<LocalSocket>, name: &Address, whose: Party) -> Result<(), Errno> {
        let mut state = self.state.lock();
        if !matches!(state.link, SocketLink::Free) || state.is_closed {
            drop(state);
            other.hang_up(HangUp::Reset);
            return Err(Errno::EISCONN);
        }
        state.link = SocketLink::To(Arc::downgrade(other), name.clone());
        state.peer = Some(whose);
        state.peer_label = Some(other.label());
        drop(state);
        self.budget.freed.wake();
        Ok(())
    }
    /// Returns the other end of the first waiting connection (accept(2)).
    ///
    /// # Errors
    /// `EOPNOTSUPP` for datagrams, `EINVAL` if it does not listen, `EAGAIN`, and for a signal as [`wait`].
    pub(super) fn take_connection(&self, patience: Patience) -> Result<Arc<LocalSocket>, Errno> {
        if self.common.kind() == SocketKind::Datagram {
            return Err(Errno::EOPNOTSUPP);
        }
        let timeout = self.common.receive_deadline();
        loop {
            let ticket = self.arrived.ticket();
            {
                let mut state = self.state.lock();
                let is_shut = state.shut.contains(Shut::RECEIVE);
                let SocketLink::Listening { waiting, .. } = &mut state.link else {
                    return Err(Errno::EINVAL);
                };
                let first = waiting.pop_front();
                drop(state);
                if let Some(first) = first {
                    first.is_waiting.store(false, Ordering::Relaxed);
                    self.room.wake();
                    return Ok(first);
                }
                if is_shut {
                    return Err(Errno::EINVAL);
                }
            }
            if patience == Patience::None {
                return Err(Errno::EAGAIN);
            }
            wait(&self.arrived, ticket, timeout)?;
        }
    }
}

impl SocketState {
    /// Returns whether another connection may wait here; `false` if too many do.
    ///
    /// # Errors
    /// `ECONNREFUSED` if it accepts none.
    fn takes_connection(&self) -> Result<bool, Errno> {
        match &self.link {
            SocketLink::Listening { limit, waiting } if !self.shut.contains(Shut::RECEIVE) => {
                Ok(waiting.len() <= *limit)
            }
            _ => Err(Errno::ECONNREFUSED),
        }
    }
}

//! AF_UNIX sockets (unix(7)): [`LocalSocket`], its states, and connections.
//!
//! A message is made whole before it is put into the receiver's inbox, and is removed or held by `reading` while its
//! bytes are copied to a program: user memory is never touched under `socket.state`. Two locks `socket.state` are never
//! held at once: the reference to a peer is weak, and the peer may have ended at any time. Locks: `socket.reading` (a
//! stream's reader) > `socket.flight` > `socket.state` (guards all of a socket but its options) > wait queues. Parts:
//! [`address`], `connection`, `family` (what the socket calls see), [`message`], [`rights`], `transfer` (send and receive).
pub mod address;
mod connection;
mod family;
pub mod message;
mod records;
pub mod rights;
#[cfg(test)]
mod tests;
mod transfer;

pub use address::Address;
pub use family::party;
pub use records::records;
pub(super) use transfer::identity_of;

use super::{
    common::{SocketCommon, level_of},
    interface::{Identity, Party, Send, Shut, SocketKind, read_as_file},
};
use alloc::{
    collections::{BTreeMap, VecDeque},
    format,
    string::String,
    sync::{Arc, Weak},
    vec::Vec,
};
use connection::{Close, HangUp};
use core::{mem, sync::atomic::AtomicBool};
use interfaces::{file_system::FileType, monitor::ObjectAccess};
use memory::setting::Setting;
use message::{Budget, SocketMessage};
use process::{Task, audit};
use rt::{lock_class, sync::Mutex};
use vfs::{
    Base, Caller, Errno, Path, Principal, Walk,
    file::{File, IoFlags, Ready, SignalSource, Survey},
    io::{Sink, Source},
    permission::{self, Want},
    poll::{PollTable, WaitQueue},
    security::{self, Label},
};

lock_class! {
    static STATE = "socket.state";
    static READING = "socket.reading";
    static ALL = "socket.all";
}

/// Number of datagrams in the inbox of a new socket above which a sender that is not its peer waits
/// (`net.unix.max_dgram_qlen`).
pub static DATAGRAMS_MAX: Setting = Setting::int(10);

/// The relation of a socket to others.
enum SocketLink {
    /// The socket has no relation, or none any more.
    Free,
    /// It takes connections.
    Listening { limit: usize, waiting: VecDeque<Arc<LocalSocket>> },
    /// The socket's messages go to this one.
    To(Weak<LocalSocket>, Address),
}

struct SocketState {
    link: SocketLink,
    inbox: VecDeque<SocketMessage>,
    /// Number of messages in the inbox above which a sender that is not its peer waits.
    inbox_most: usize,
    shut: Shut,
    is_closed: bool,
    error: Option<Errno>,
    name: Address,
    /// Path of the node that bears the socket's name; kept as long as the name.
    place: Option<Path>,
    /// The peer, as reported by SO_PEERCRED.
    peer: Option<(Identity, Vec<u32>)>,
    /// The process that listens.
    listener: (Identity, Vec<u32>),
    /// The label of the peer, as reported by SO_PEERSEC.
    peer_label: Option<&'static Label>,
}

/// A socket of AF_UNIX.
pub struct LocalSocket {
    this: Weak<LocalSocket>,
    common: SocketCommon,
    state: Mutex<SocketState>,
    /// accept(2) has not returned it yet.
    is_waiting: AtomicBool,
    /// Held by a reader of a stream, so that readers take turns.
    reading: Mutex<()>,
    /// Wait queue for arrivals: data or a connection came, or none will come any more.
    arrived: WaitQueue,
    /// The same as `arrived` for owners that get a signal.
    told: WaitQueue,
    /// A place in the inbox or among the waiting connections is free.
    room: WaitQueue,
    budget: Arc<Budget>,
}

static ALL_SOCKETS: Mutex<BTreeMap<u64, Weak<LocalSocket>>> = Mutex::new(&ALL, BTreeMap::new());

impl LocalSocket {
    /// Makes a socket without name and peer for `maker`.
    pub fn new(kind: SocketKind, maker: &dyn Principal) -> Arc<LocalSocket> {
        let label = match Task::of(maker).filter(|_| security::is_enforced()) {
            Some(task) => task.credentials().label_of_socket(),
            None => Label::of_new_object(),
        };
        LocalSocket::labelled(kind, maker, label)
    }
    fn labelled(
        kind: SocketKind,
        maker: &dyn Principal,
        label: &'static Label,
    ) -> Arc<LocalSocket> {
        let state = SocketState {
            link: SocketLink::Free,
            inbox: VecDeque::new(),
            inbox_most: DATAGRAMS_MAX.size(),
            shut: Shut::empty(),
            is_closed: false,
            error: None,
            name: Address::None,
            place: None,
            peer: None,
            listener: Party::default(),
            peer_label: None,
        };
        let socket = Arc::new_cyclic(|this| LocalSocket {
            this: this.clone(),
            common: SocketCommon::new(kind, level_of(maker)),
            state: Mutex::new(&STATE, state),
            is_waiting: AtomicBool::new(false),
            reading: Mutex::new(&READING, ()),
            arrived: WaitQueue::new(),
            told: WaitQueue::new(),
            room: WaitQueue::new(),
            budget: Budget::new(maker, label),
        });
        ALL_SOCKETS.lock().insert(socket.common.number(), Arc::downgrade(&socket));
        socket
    }
    /// Makes two sockets that are each other's peers (socketpair(2)).
    pub fn pair(
        kind: SocketKind,
        who: &Party,
        maker: &dyn Principal,
    ) -> (Arc<LocalSocket>, Arc<LocalSocket>) {
        let (first, second) = (LocalSocket::new(kind, maker), LocalSocket::new(kind, maker));
        for (one, other) in [(&first, &second), (&second, &first)] {
            let mut state = one.state.lock();
            state.link = SocketLink::To(Arc::downgrade(other), Address::None);
            state.peer = Some(who.clone());
            state.peer_label = Some(other.label());
        }
        (first, second)
    }
    /// Returns the budget of its messages under way.
    pub fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }
    /// Returns its label: that of its maker's subject, or the one that the maker asked for.
    pub fn label(&self) -> &'static Label {
        self.budget.label()
    }
    /// Returns its name.
    pub(super) fn address(&self) -> Address {
        self.state.lock().name.clone()
    }
    /// Returns its peer's name.
    ///
    /// # Errors
    /// `ENOTCONN`.
    fn peer_address(&self) -> Result<Address, Errno> {
        let peer = match &self.state.lock().link {
            SocketLink::To(peer, known) => peer.upgrade().ok_or_else(|| known.clone()),
            _ => return Err(Errno::ENOTCONN),
        };
        Ok(peer.map_or_else(|known| known, |peer| peer.address()))
    }
    /// Returns the peer; `None` if it has ended.
    fn to(&self) -> Option<Arc<LocalSocket>> {
        match &self.state.lock().link {
            SocketLink::To(peer, _) => peer.upgrade(),
            _ => None,
        }
    }

    /// Sets its name (bind(2)). A node is made with the permissions `mode`, before the mask.
    ///
    /// # Errors
    /// `EINVAL` if it has a name, `EADDRINUSE`, and errors of making its node.
    fn bind_to(&self, caller: &Caller<'_>, address: Address, mode: u16) -> Result<(), Errno> {
        if self.state.lock().name != Address::None {
            return match &address {
                Address::None => Ok(()),
                Address::Abstract(_) => Err(Errno::EINVAL),
                Address::Path(path) => Err(match caller.walk(Base::Cwd, path, Walk::empty()) {
                    // The node is made before the check that the socket has no name, and removed again if it has one.
                    Ok(_) => Errno::EADDRINUSE,
                    Err(Errno::ENOENT) => match caller.check_parent(Base::Cwd, path) {
                        Ok(()) => Errno::EINVAL,
                        Err(error) => error,
                    },
                    Err(error) => error,
                }),
            };
        }
        let who = caller.credentials;
        let (name, place) = match address {
            Address::None => (Address::Abstract(address::take_any(self, who)?), None),
            Address::Abstract(name) => {
                address::take(self, &name, who)?;
                (Address::Abstract(name), None)
            }
            Address::Path(path) => {
                let place = self.make_node(caller, &path, mode)?;
                (Address::Path(path), Some(place))
            }
        };
        let mut state = self.state.lock();
        if state.name != Address::None {
            drop(state);
            if let Address::Abstract(name) = &name {
                address::give_back(self, name);
            }
            return Err(Errno::EINVAL);
        }
        self.budget.set_name(name.clone());
        (state.name, state.place) = (name, place);
        Ok(())
    }
    fn make_node(&self, caller: &Caller<'_>, path: &[u8], mode: u16) -> Result<Path, Errno> {
        let new = (FileType::Socket, mode);
        let made = caller.make_node(Base::Cwd, path, new, (0, 0));
        let place = made.map_err(|error| match error {
            Errno::EEXIST => Errno::EADDRINUSE,
            error => error,
        })?;
        *place.vnode().pipe().lock() = Some(Arc::new(self.this.clone()));
        Ok(place)
    }
    /// Returns the socket with this address, if the caller may write to it. For a connection that suffices for both directions: what
    /// can be written is of the caller's own secrecy.
    ///
    /// # Errors
    /// `EINVAL`, `ECONNREFUSED`, `EPROTOTYPE`, `EACCES`, and errors of the walk.
    fn find(&self, caller: &Caller<'_>, address: &Address) -> Result<Arc<LocalSocket>, Errno> {
        let found = match address {
            Address::None => return Err(Errno::EINVAL),
            Address::Abstract(name) => address::find(self.common.kind(), name, caller.credentials),
            Address::Path(path) => {
                let place = caller.walk(Base::Cwd, path, Walk::FOLLOW)?;
                permission::check_path(&place, caller.credentials, Want::WRITE)?;
                let slot = place.vnode().pipe().lock();
                let kept = slot.as_ref().and_then(|kept| kept.downcast_ref::<Weak<LocalSocket>>());
                kept.and_then(Weak::upgrade)
            }
        };
        let found = found.ok_or(Errno::ECONNREFUSED)?;
        if found.common.kind() != self.common.kind() {
            return Err(Errno::EPROTOTYPE);
        }
        let (subject, access) = (&caller.credentials.subject, ObjectAccess::Write);
        security::check(subject, found.label(), access).inspect_err(|_| {
            let class = match found.common.kind() {
                SocketKind::Datagram => "unix_dgram_socket",
                _ => "unix_stream_socket",
            };
            audit::refused_object(class, access, found.label(), subject);
        })?;
        Ok(found)
    }
    /// Ends directions of the connection (shutdown(2)).
    fn end(&self, directions: Shut) {
        let peer = {
            let mut state = self.state.lock();
            state.shut |= directions;
            match &state.link {
                SocketLink::To(peer, _) if self.common.kind() != SocketKind::Datagram => {
                    peer.upgrade()
                }
                _ => None,
            }
        };
        self.wake_all();
        if let Some(peer) = peer {
            let mut theirs = Shut::empty();
            theirs.set(Shut::SEND, directions.contains(Shut::RECEIVE));
            theirs.set(Shut::RECEIVE, directions.contains(Shut::SEND));
            peer.state.lock().shut |= theirs;
            peer.wake_all();
            if !theirs.is_empty() {
                peer.told.wake();
            }
        }
    }
    /// Wakes the threads that wait for arrivals, and signals the owner.
    #[inline]
    fn note_arrival(&self) {
        self.arrived.wake();
        if self.told.is_watched() {
            self.told.wake();
        }
    }
    fn wake_all(&self) {
        self.arrived.wake();
        self.room.wake();
        self.budget.freed.wake();
    }
    /// Called when the other end was closed.
    fn hang_up(&self, how: HangUp) {
        {
            let mut state = self.state.lock();
            state.shut = Shut::all();
            if how == HangUp::Reset {
                state.error = Some(Errno::ECONNRESET);
            }
        }
        self.wake_all();
        self.told.wake();
    }
    /// Called when the last description was closed, or when the socket that it waits in was.
    fn close(&self, how: Close) {
        let (link, inbox, name, place) = {
            let mut state = self.state.lock();
            state.is_closed = true;
            self.budget.abandon();
            state.shut = Shut::all();
            let link = mem::replace(&mut state.link, SocketLink::Free);
            (link, mem::take(&mut state.inbox), mem::take(&mut state.name), state.place.take())
        };
        match link {
            SocketLink::Listening { waiting, .. } => {
                waiting.iter().for_each(|made| made.close(Close::Unaccepted))
            }
            SocketLink::To(peer, _) if self.common.kind() != SocketKind::Datagram => {
                if let Some(peer) = peer.upgrade() {
                    let has_lost = how == Close::Unaccepted || !inbox.is_empty();
                    peer.hang_up(if has_lost { HangUp::Reset } else { HangUp::End });
                }
            }
            _ => {}
        }
        if let (Address::Abstract(name), Close::Last) = (&name, how) {
            address::give_back(self, name);
        }
        self.wake_all();
        drop((inbox, place));
    }
    /// Calls `visit` with the descriptors in its inbox, and in those of connections that wait in it.
    fn each_rights(&self, visit: &mut dyn FnMut(&rights::Rights)) {
        let waiting: Vec<Arc<LocalSocket>> = {
            let state = self.state.lock();
            state.inbox.iter().filter_map(|message| message.rights.as_ref()).for_each(&mut *visit);
            match &state.link {
                SocketLink::Listening { waiting, .. } => waiting.iter().cloned().collect(),
                _ => Vec::new(),
            }
        };
        for made in waiting {
            let state = made.state.lock();
            state.inbox.iter().filter_map(|message| message.rights.as_ref()).for_each(&mut *visit);
        }
    }
    /// Removes all messages from its inbox and from those of connections that wait in it.
    fn take_messages(&self) -> Vec<SocketMessage> {
        let mut state = self.state.lock();
        let mut all: Vec<SocketMessage> = mem::take(&mut state.inbox).into();
        let waiting: Vec<Arc<LocalSocket>> = match &state.link {
            SocketLink::Listening { waiting, .. } => waiting.iter().cloned().collect(),
            _ => Vec::new(),
        };
        drop(state);
        for made in &waiting {
            all.extend(mem::take(&mut made.state.lock().inbox));
        }
        all
    }
    /// Returns its line in `/proc/net/unix`.
    fn describe(&self) -> String {
        const ACCEPTS: u32 = 1 << 16;
        const UNCONNECTED: u32 = 1;
        const CONNECTED: u32 = 3;
        let state = self.state.lock();
        let (flags, stage) = match &state.link {
            SocketLink::Listening { .. } => (ACCEPTS, UNCONNECTED),
            SocketLink::To(..) => (0, CONNECTED),
            SocketLink::Free => (0, UNCONNECTED),
        };
        let (kind, number, name) =
            (self.common.kind() as u32, self.common.number(), state.name.describe());
        format!(
            "{:016x}: 00000002 00000000 {flags:08x} {kind:04x} {stage:02x} {number:5}{name}\n",
            0
        )
    }
}

/// Returns the content of `/proc/net/unix`: the sockets that `reader` may read.
pub fn table(reader: &dyn Principal) -> String {
    let mut all: Vec<Arc<LocalSocket>> =
        ALL_SOCKETS.lock().values().filter_map(Weak::upgrade).collect();
    if let Some(reader) = Task::of(reader).filter(|_| security::is_enforced()) {
        let who = reader.credentials();
        all.retain(|socket| {
            security::check(&who.subject, socket.label(), ObjectAccess::Read).is_ok()
        });
    }
    let head = "Num       RefCount Protocol Flags    Type St Inode Path\n";
    let mut text = String::from(head);
    for socket in &all {
        if !socket.state.lock().is_closed {
            text.push_str(&socket.describe());
        }
    }
    text
}

impl Drop for LocalSocket {
    /// Closes a connection that was never accepted.
    fn drop(&mut self) {
        ALL_SOCKETS.lock().remove(&self.common.number());
        if !self.state.get_mut().is_closed {
            self.close(Close::Unaccepted);
        }
    }
}

impl File for LocalSocket {
    fn signal_source(&self) -> Option<SignalSource<'_>> {
        let (arrived, freed) = (&self.told, &self.budget.freed);
        Some(SignalSource::Messages { arrived, freed, room: self.budget.clone() })
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
        Ok((self.send_to(source, None, message::Along::default(), how)?, 0))
    }
    fn poll(&self, table: Option<&PollTable>, _: &dyn Principal) -> Ready {
        let peer = if self.common.kind() == SocketKind::Datagram { self.to() } else { None };
        if let Some(table) = table {
            table.add(&self.arrived);
            table.add(&self.budget.freed);
            if let Some(peer) = &peer {
                table.add(&peer.room);
            }
        }
        let is_held_up = peer.is_some_and(|peer| !peer.has_place_for(self));
        let state = self.state.lock();
        let mut ready = Ready::empty();
        let has_come = match &state.link {
            SocketLink::Listening { waiting, .. } => !waiting.is_empty(),
            _ => !state.inbox.is_empty(),
        };
        let is_over = state.shut.contains(Shut::RECEIVE);
        let is_linked = matches!(state.link, SocketLink::To(..));
        let is_listening = matches!(state.link, SocketLink::Listening { .. });
        let has_ended = self.common.kind() != SocketKind::Datagram && !is_linked && !is_listening;
        ready.set(Ready::IN | Ready::READ_NORMAL, has_come || is_over);
        ready.set(Ready::READ_HANGUP, is_over);
        ready.set(Ready::HANGUP, state.shut == Shut::all() || has_ended);
        ready.set(Ready::ERROR, state.error.is_some());
        let is_writable = !is_listening && !is_held_up && self.budget.is_writable();
        ready.set(Ready::OUT | Ready::WRITE_NORMAL, is_writable);
        ready
    }
    /// Returns the bytes of messages that the socket sent and that were not received yet, and of those that wait in it
    /// from senders that have ended, including the files in them.
    fn held_bytes(&self, survey: &mut Survey) -> usize {
        let sent = self.budget.used();
        let Some(state) = self.state.try_lock() else { return sent };
        let mut waiting = 0;
        if let SocketLink::Listening { waiting: connections, .. } = &state.link {
            for made in connections.iter().filter_map(|made| made.state.try_lock()) {
                waiting +=
                    made.inbox.iter().map(|message| message.held_bytes(survey)).sum::<usize>();
            }
        }
        waiting += state.inbox.iter().map(|message| message.held_bytes(survey)).sum::<usize>();
        sent + waiting
    }
    fn as_any(&self) -> &dyn core::any::Any {
        self
    }
    fn closed(&self) {
        self.close(Close::Last);
        rights::collect_at_close();
    }
}

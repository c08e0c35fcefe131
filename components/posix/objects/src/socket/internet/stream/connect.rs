//! Names, connections and their ends: bind, connect, shutdown, close.
use super::{InternetStream, StreamPhase};
use crate::socket::{
    common::wait,
    interface::{Patience, Shut, SocketAddress},
    internet::{
        address::{self, AddressFamily, AddressUse, GivenAddress},
        network::{errno, is_local},
        settings::{Flags, UNPRIVILEGED_PORT_START},
    },
};
use core::{
    net::{IpAddr, SocketAddr},
    sync::atomic::Ordering,
};
use interfaces::sockets::{CloseKind, ConnectionState, StreamState};
use rt::memory::Frame;
use vfs::{
    Capabilities, Credentials, Errno,
    io::{SliceSource, Source},
};

/// Checks that `who` may bind a socket to `port`.
///
/// # Errors
/// `EACCES`.
fn check_port(who: &Credentials, port: u16) -> Result<(), Errno> {
    let is_free = port == 0 || i64::from(port) >= UNPRIVILEGED_PORT_START.get();
    match is_free || who.has(Capabilities::NET_BIND_SERVICE) {
        true => Ok(()),
        false => Err(Errno::EACCES),
    }
}

/// Checks an address that a socket of `family` is to be bound to, in Linux's order: IPv4 looks whether this host has the address
/// first, IPv6 last.
///
/// # Errors
/// `EACCES` for a port that needs a privilege, `EADDRNOTAVAIL`, `EINVAL` for a mapped address if the socket takes only IPv6.
pub(in crate::socket::internet) fn check_name(
    who: &Credentials,
    (family, is_only_v6): (AddressFamily, bool),
    given: GivenAddress,
) -> Result<(), Errno> {
    let allowed = check_port(who, given.address.port());
    match family {
        // The stack tells whether the address is of this host, unless the call fails before it.
        AddressFamily::V4 if allowed.is_err() && !is_local(given.address) => {
            return Err(Errno::EADDRNOTAVAIL);
        }
        _ => allowed?,
    }
    if given.is_mapped && is_only_v6 { Err(Errno::EINVAL) } else { Ok(()) }
}

impl InternetStream {
    /// Binds the socket (bind(2)).
    ///
    /// # Errors
    /// Those of the address, and as [`check_name`]; `EINVAL` if it is bound, `EADDRINUSE`.
    pub(super) fn bind_to(&self, who: &Credentials, address: &SocketAddress) -> Result<(), Errno> {
        let given = address::parse(self.family, address, AddressUse::Bind)?.ok_or(Errno::EINVAL)?;
        if matches!(given.address.ip(), IpAddr::V6(ip) if ip.is_multicast()) {
            return Err(Errno::EINVAL);
        }
        let _control = self.control.lock();
        check_name(who, (self.family, self.has_flag(Flags::ONLY_V6)), given)?;
        if self.phase() != StreamPhase::Free {
            return Err(Errno::EINVAL);
        }
        let address = self.with_link(given.address, AddressUse::Bind)?;
        self.socket().bind(address).map_err(errno)
    }
    /// Gives a link-local address the link that the socket is bound to, and binds the socket to the link of the address, as
    /// SO_BINDTODEVICE does. A bind may name another link than the one before, a connect may not (`__inet6_bind`,
    /// `tcp_v6_connect`). The caller holds `control`.
    ///
    /// # Errors
    /// `EINVAL` if there is none, or another one.
    fn with_link(&self, address: SocketAddr, purpose: AddressUse) -> Result<SocketAddr, Errno> {
        let SocketAddr::V6(mut address) = address else { return Ok(address) };
        if !address::is_link_local(address.ip()) {
            return Ok(address.into());
        }
        let bound = &self.common.options.interface;
        let known = bound.load(Ordering::Relaxed);
        let link = match (address.scope_id(), known) {
            (0, 0) => return Err(Errno::EINVAL),
            (0, known) => known,
            (told, known) if known != 0 && told != known && purpose == AddressUse::Connect => {
                return Err(Errno::EINVAL);
            }
            (told, _) => told,
        };
        if link != known {
            bound.store(link, Ordering::Relaxed);
            self.configure();
        }
        address.set_scope_id(link);
        Ok(address.into())
    }
    /// Connects (connect(2)); an address of AF_UNSPEC ends a connection.
    ///
    /// # Errors
    /// `EISCONN`, `EALREADY`, `EINPROGRESS`, those of the address and the route, the one for which the attempt failed, and for a
    /// signal `EINTR` or a restart.
    pub(super) fn connect_to(&self, to: &SocketAddress, patience: Patience) -> Result<(), Errno> {
        if to.family().ok_or(Errno::EINVAL)? == 0 {
            let _control = self.control.lock();
            self.disconnect();
            return Ok(());
        }
        let under_way = {
            let _control = self.control.lock();
            match self.phase() {
                StreamPhase::Connected | StreamPhase::Listening => return Err(Errno::EISCONN),
                StreamPhase::Deferred => return Err(Errno::EISCONN),
                StreamPhase::Connecting => Errno::EALREADY,
                StreamPhase::Free if self.defer(to) => return Ok(()),
                StreamPhase::Free => {
                    self.start(to, None)?;
                    Errno::EINPROGRESS
                }
            }
        };
        if patience == Patience::None && under_way == Errno::EINPROGRESS {
            // Linux does not look for the end of an attempt that it has just begun.
            return Err(under_way);
        }
        self.await_attempt(patience, under_way)
    }
    /// Waits for the end of an attempt to connect; `under_way` is the error if it takes too long.
    ///
    /// # Errors
    /// `under_way`, the error for which the attempt failed, and for a signal `EINTR` or a restart.
    pub(super) fn await_attempt(&self, patience: Patience, under_way: Errno) -> Result<(), Errno> {
        let timeout = self.common.send_deadline();
        loop {
            let ticket = self.wakes.arrived.ticket();
            if let Some(end) = self.end_of_attempt() {
                return end;
            }
            if patience == Patience::None {
                return Err(under_way);
            }
            match wait(&self.wakes.arrived, ticket, timeout) {
                Err(Errno::EAGAIN) => return Err(under_way),
                waited => waited?,
            }
        }
    }
    /// Starts to connect; with Fast Open, if `first` gives the first bytes to send. The caller holds `control`.
    pub(super) fn start(&self, to: &SocketAddress, first: Option<&[u8]>) -> Result<(), Errno> {
        let given = address::parse(self.family, to, AddressUse::Connect)?;
        let given = given.ok_or(Errno::EAFNOSUPPORT)?;
        if given.is_mapped && self.has_flag(Flags::ONLY_V6) {
            return Err(Errno::ENETUNREACH);
        }
        let peer = address::or_loopback(given.address, || self.socket().local());
        let is_group = match peer.ip() {
            IpAddr::V4(ip) => ip.is_multicast() || ip.is_broadcast(),
            IpAddr::V6(ip) => ip.is_multicast(),
        };
        if is_group {
            return Err(Errno::ENETUNREACH);
        }
        let peer = self.with_link(peer, AddressUse::Connect)?;
        if self.ends(self.stream().state()) != Shut::empty() {
            // The bytes and errors of an earlier use do not belong to this one.
            self.refresh();
        }
        match first {
            None => self.socket().connect(peer),
            Some(first) => {
                let mut source = SliceSource::new(first);
                let copy = |frames: &[Frame], offset, length| {
                    source.take_into_frames(frames, offset, length)
                };
                self.stream().write(first.len(), copy)?;
                self.socket().connect_with_data(peer)
            }
        }
        .map_err(errno)?;
        self.set_phase(StreamPhase::Connecting);
        Ok(())
    }
    /// Returns the end of an attempt to connect; `None` if it goes on.
    fn end_of_attempt(&self) -> Option<Result<(), Errno>> {
        let _control = self.control.lock();
        let state = self.stream().state();
        match self.phase() {
            _ if self.is_connecting(state) => None,
            StreamPhase::Connecting if state.contains(StreamState::CONNECTED) => {
                self.set_phase(StreamPhase::Connected);
                self.grow_send_limit();
                Some(Ok(()))
            }
            StreamPhase::Connecting => {
                let error = self.stream().take_error().map_or(Errno::ECONNABORTED, errno);
                self.disconnect();
                Some(Err(error))
            }
            StreamPhase::Connected => Some(Ok(())),
            // shutdown(2) has ended the attempt.
            _ => Some(Err(Errno::ECONNABORTED)),
        }
    }
    /// Gives the socket a fresh stream. The caller holds `control`.
    fn refresh(&self) {
        let fresh = self.fresh_stream(self.wakes.clone());
        self.streams.replace(fresh.clone());
        self.own_stream();
        self.socket().disconnect(fresh);
        self.urgent_taken.store(0, Ordering::Relaxed);
    }
    /// Ends connection and listening, so that the socket can be used again. The caller holds `control`.
    pub(super) fn disconnect(&self) {
        self.set_phase(StreamPhase::Free);
        self.refresh();
        self.shut.store(0, Ordering::Release);
        self.wakes.wake_all();
        drop(self.queue.get().map(|queue| queue.drain()));
    }
    /// Ends directions (shutdown(2)).
    ///
    /// # Errors
    /// `ENOTCONN`.
    pub(super) fn end_directions(&self, directions: Shut) -> Result<(), Errno> {
        let _control = self.control.lock();
        let state = self.stream().state();
        match self.phase() {
            StreamPhase::Listening => {
                if directions.contains(Shut::RECEIVE) {
                    self.disconnect();
                }
                return Ok(());
            }
            _ if self.is_connecting(state) => {
                self.disconnect();
                return Ok(());
            }
            _ => {}
        }
        let before =
            Shut::from_bits_truncate(self.shut.fetch_or(directions.bits(), Ordering::AcqRel));
        let is_open = state.contains(StreamState::CONNECTED)
            && self.ends_of_stack(state) != Shut::all()
            && !self.is_over();
        if is_open && directions.contains(Shut::SEND) && !before.contains(Shut::SEND) {
            self.socket().shut_down_send();
        }
        self.wakes.wake_all();
        if is_open { Ok(()) } else { Err(Errno::ENOTCONN) }
    }
    /// Returns the directions that the connection itself has ended.
    fn ends_of_stack(&self, state: StreamState) -> Shut {
        let mut ends = Shut::empty();
        ends.set(Shut::RECEIVE, state.contains(StreamState::RECEIVE_ENDED));
        ends.set(Shut::SEND, state.contains(StreamState::SEND_ENDED));
        ends
    }
    /// Returns whether the connection is closed in both directions, so that Linux has no state of it but TIME-WAIT.
    fn is_over(&self) -> bool {
        matches!(self.socket().info().state, ConnectionState::Closed | ConnectionState::TimeWait)
    }
    /// Returns the peer's name (getpeername(2)).
    ///
    /// # Errors
    /// `ENOTCONN`.
    pub(super) fn connected_name(&self) -> Result<SocketAddress, Errno> {
        let state = self.stream().state();
        let is_open = state.contains(StreamState::CONNECTED)
            && self.ends_of_stack(state) != Shut::all()
            && !(self.ends(state) == Shut::all() && self.is_over());
        let peer = self.socket().peer().filter(|_| is_open).ok_or(Errno::ENOTCONN)?;
        Ok(address::encode(self.family, peer))
    }
    /// Ends the use of the socket by programs; later calls do nothing.
    pub(super) fn close(&self, kind: CloseKind) {
        if self.is_closed.swap(true, Ordering::AcqRel) {
            return;
        }
        self.socket().close(kind);
        self.wakes.wake_all();
        // Connections that nobody has accepted are reset.
        drop(self.queue.get().map(|queue| queue.drain()));
    }
    /// Closes after the last description: at once with a reset if SO_LINGER is 0, else in order, for which it waits as long as
    /// SO_LINGER says.
    pub(super) fn close_last(&self) {
        let seconds = self.common.options.linger_seconds.load(Ordering::Relaxed);
        if seconds == 0 {
            return self.close(CloseKind::Abort);
        }
        self.close(CloseKind::Orderly);
        let Ok(seconds @ 1..) = u64::try_from(seconds) else { return };
        let until = rt::time::now().after_ns(seconds.saturating_mul(1_000_000_000));
        loop {
            let ticket = self.wakes.arrived.ticket();
            if !self.socket().is_closing() {
                return;
            }
            let woken = self.wakes.arrived.wait(ticket, Some(until));
            if woken == rt::thread::Woken::Kicked || rt::time::now() >= until {
                return;
            }
        }
    }
}

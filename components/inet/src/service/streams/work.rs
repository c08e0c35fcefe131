//! Work on a socket under its lock: the backlog that comes with the lock, the port, and the timers.
use super::{
    arrival::TcpArrival,
    claims::PortClaim,
    socket::{SocketRole, SocketState, TcpSocket},
};
use crate::{
    ip::events::PacketEvent,
    service::{inet::Inet, passage::Passage},
};
use alloc::{boxed::Box, sync::Arc};
use core::sync::atomic::{Ordering, fence};
use rt::sync::MutexGuard;

/// Segments in the backlog of a socket, at most.
const BACKLOG_MAX: usize = 1024;

impl TcpSocket {
    /// Does `work` with the state, then takes the segments of the backlog.
    pub(crate) fn with<T>(
        self: &Arc<TcpSocket>,
        inet: &Inet,
        passage: &mut Passage,
        work: impl FnOnce(&mut SocketState, &mut Passage) -> T,
    ) -> T {
        let mut state = self.state.lock();
        let result = work(&mut state, passage);
        self.release(inet, passage, state);
        result
    }
    /// Looks at the state, then takes the segments that came meanwhile. No passage of the caller is in use.
    pub(crate) fn look<T>(
        self: &Arc<TcpSocket>,
        inet: &Inet,
        look: impl FnOnce(&SocketState) -> T,
    ) -> T {
        let (result, has_backlog) = self.look_within(look);
        if has_backlog {
            inet.pass(|passage| self.with(inet, passage, |_, _| ()));
        }
        result
    }
    /// Looks at the state. Returns also whether segments came meanwhile: then the caller sees to it that [`TcpSocket::with`] follows.
    pub(crate) fn look_within<T>(&self, look: impl FnOnce(&SocketState) -> T) -> (T, bool) {
        let result = look(&self.state.lock());
        (result, self.has_backlog())
    }
    /// Returns whether segments wait that came while the lock was held. It is asked after the release.
    #[inline]
    pub(crate) fn has_backlog(&self) -> bool {
        // A thread that found the lock held either sees the release, or has counted its segment before.
        fence(Ordering::SeqCst);
        self.waiting.load(Ordering::SeqCst) > 0
    }
    /// Takes a segment, now or when the holder of the lock releases it.
    pub(crate) fn take(
        self: &Arc<TcpSocket>,
        inet: &Inet,
        passage: &mut Passage,
        arrival: Box<TcpArrival>,
    ) {
        if let Some(mut state) = self.state.try_lock() {
            state.input(inet, passage, self, arrival);
            return self.release(inet, passage, state);
        }
        {
            let mut backlog = self.backlog.lock();
            if backlog.len() >= BACKLOG_MAX {
                passage.worker.events().add(PacketEvent::TcpBacklogDrop, 1);
                self.dropped.fetch_add(1, Ordering::Relaxed);
                return;
            }
            backlog.push_back(arrival);
            self.waiting.fetch_add(1, Ordering::SeqCst);
        }
        // The holder may have looked at the backlog before. Then it has released the lock, or looks again.
        fence(Ordering::SeqCst);
        if let Some(state) = self.state.try_lock() {
            self.release(inet, passage, state);
        }
    }
    fn release<'s>(
        self: &'s Arc<TcpSocket>,
        inet: &Inet,
        passage: &mut Passage,
        mut state: MutexGuard<'s, SocketState>,
    ) {
        loop {
            while self.waiting.load(Ordering::SeqCst) > 0 {
                let Some(arrival) = self.backlog.lock().pop_front() else { break };
                self.waiting.fetch_sub(1, Ordering::SeqCst);
                state.input(inet, passage, self, arrival);
            }
            drop(state);
            if !self.has_backlog() {
                return;
            }
            match self.state.try_lock() {
                Some(again) => state = again,
                None => return,
            }
        }
    }
}

impl SocketState {
    /// Ends the claim on the port.
    pub(crate) fn release_port(&mut self, inet: &Inet) {
        let Some(claim) = self.claim.take() else { return };
        let (ports, port) = (&inet.streams().ports, self.local.port());
        match self.shared_claim.take() {
            Some(shared) => ports.leave(port, shared),
            None => ports.release(port, &claim),
        }
    }
    /// Changes the claim `old` on the port to `new`.
    pub(crate) fn change_claim(
        &mut self,
        inet: &Inet,
        (old, new): (&PortClaim, &PortClaim),
        socket: &Arc<TcpSocket>,
    ) {
        let (ports, port) = (&inet.streams().ports, self.local.port());
        self.claim = Some(*new);
        match self.shared_claim.take() {
            Some(shared) => ports.turn(port, (old, Some(shared)), new),
            None => ports.replace(port, (old, new), socket),
        }
        self.end_children_claim(inet);
    }
    /// Ends a listener's part in the claim of its children, which have the listener's options when they are made.
    pub(crate) fn end_children_claim(&mut self, inet: &Inet) {
        if let SocketRole::Listening(listening) = &mut self.role
            && let Some(shared) = listening.children_claim.take()
        {
            inet.streams().ports.leave(self.local.port(), shared);
        }
    }
    /// Sets the time at which the timers look at the socket to `deadline_ns`, unless they do so earlier.
    pub(crate) fn arm(&mut self, inet: &Inet, socket: &Arc<TcpSocket>, deadline_ns: Option<u64>) {
        let Some(deadline_ns) = deadline_ns.filter(|at| *at < self.armed_ns) else { return };
        inet.streams().timers.arm(socket, self.armed_ns, deadline_ns);
        self.armed_ns = deadline_ns;
        inet.arm(deadline_ns);
    }
    /// Ends the timers.
    pub(crate) fn disarm(&mut self, inet: &Inet, socket: &Arc<TcpSocket>) {
        if self.armed_ns != u64::MAX {
            inet.streams().timers.arm(socket, self.armed_ns, u64::MAX);
            self.armed_ns = u64::MAX;
        }
    }
    /// Does what time demands.
    pub(crate) fn expire(&mut self, inet: &Inet, passage: &mut Passage, socket: &Arc<TcpSocket>) {
        if self.armed_ns <= passage.now_ns {
            self.armed_ns = u64::MAX;
        }
        match &mut self.role {
            SocketRole::Idle => {}
            SocketRole::Live(live) => {
                let events = live.connection.expired(passage.now_ns);
                self.after(inet, passage, socket, events);
            }
            SocketRole::Listening(listening) => {
                listening.expire(inet, passage, &self.options);
                let deadline = listening.listener.deadline();
                self.arm(inet, socket, deadline);
            }
        }
    }
}

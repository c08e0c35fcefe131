//! Listeners: [`AcceptQueue`], and listen and accept.
use super::{InternetStream, StreamPhase};
use crate::socket::{
    common::{BACKLOG_MAX, SocketCommon, wait},
    interface::{Patience, SocketKind},
    internet::{network::errno, wakes::SocketWakes},
};
use alloc::{
    collections::VecDeque,
    sync::{Arc, Weak},
};
use core::{any::Any, sync::atomic::Ordering};
use interfaces::sockets::{Acceptor, Stream, StreamSocket};
use rt::{lock_class, sync::Mutex};
use vfs::Errno;

lock_class! {
    static BACKLOG = "internet.backlog";
}

/// Connections of a listener that no call has accepted yet.
type Waiting = VecDeque<Arc<InternetStream>>;

/// The place where the stack puts the connections of a listener.
pub(super) struct AcceptQueue {
    listener: Weak<InternetStream>,
    waiting: Mutex<Waiting>,
}

impl AcceptQueue {
    fn new(listener: Weak<InternetStream>) -> Arc<AcceptQueue> {
        Arc::new(AcceptQueue { listener, waiting: Mutex::new(&BACKLOG, VecDeque::new()) })
    }
    /// Removes and returns the connections that wait; they end when they are dropped. Called after the stack was told that the
    /// socket does not listen any more, so that no connection comes later.
    pub(super) fn drain(&self) -> Waiting {
        core::mem::take(&mut *self.waiting.lock())
    }
    fn take(&self) -> Option<Arc<InternetStream>> {
        self.waiting.lock().pop_front()
    }
    /// Returns whether there is a connection to accept.
    pub(super) fn has_any(&self) -> bool {
        !self.waiting.lock().is_empty()
    }
}

impl Acceptor for AcceptQueue {
    fn stream(&self) -> Option<Arc<Stream>> {
        let listener = self.listener.upgrade()?;
        Some(listener.fresh_stream(SocketWakes::new()))
    }
    fn arrived(&self, stream: Arc<Stream>, socket: Arc<dyn StreamSocket>) {
        let Some(listener) = self.listener.upgrade() else { return };
        let observer: Arc<dyn Any + Send + Sync> = stream.observer().clone();
        // Every stream of this listener has such an observer.
        let Ok(wakes) = observer.downcast::<SocketWakes>() else { return };
        let child = listener.child((wakes, stream), socket);
        self.waiting.lock().push_back(child);
        listener.wakes.arrived.wake();
    }
}

impl InternetStream {
    /// Makes the socket of a connection of this listener, with the listener's options (SO_PRIORITY excepted).
    fn child(
        &self,
        (wakes, stream): (Arc<SocketWakes>, Arc<Stream>),
        socket: Arc<dyn StreamSocket>,
    ) -> Arc<InternetStream> {
        let common = SocketCommon::new(SocketKind::Stream, self.common.level());
        common.options.inherit(&self.common.options);
        common.filter.follow(&self.common.filter);
        let parts = (common, self.family, self.maker);
        let child = InternetStream::assemble(parts, (wakes, stream), socket);
        let mut settings = self.settings.lock().clone();
        // A connection has the options that answer those of its SYN.
        settings.stream.ip.header_options = None;
        child.publish(&settings);
        *child.settings.lock() = settings;
        child.send_limit.store(self.send_limit.load(Ordering::Relaxed), Ordering::Relaxed);
        child.receive_limit.store(self.receive_limit.load(Ordering::Relaxed), Ordering::Relaxed);
        child.set_phase(StreamPhase::Connected);
        child
    }
    /// Takes connections (listen(2)), of which at most `limit` wait.
    ///
    /// # Errors
    /// `EINVAL` if it is connected or connects, `EADDRINUSE`.
    pub(super) fn listen_for(&self, limit: usize) -> Result<(), Errno> {
        let _control = self.control.lock();
        match self.phase() {
            StreamPhase::Free | StreamPhase::Listening => {}
            _ => return Err(Errno::EINVAL),
        }
        let limit = u32::try_from(limit.min(BACKLOG_MAX.size())).unwrap_or(u32::MAX);
        let queue = self.queue.get_or_init(|| AcceptQueue::new(self.this.clone())).clone();
        self.socket().listen(limit, queue).map_err(errno)?;
        self.set_phase(StreamPhase::Listening);
        Ok(())
    }
    /// Returns the first connection that waits (accept(2)).
    ///
    /// # Errors
    /// `EINVAL` if it does not listen, `EAGAIN`, and for a signal `EINTR` or a restart.
    pub(super) fn take_connection(&self, patience: Patience) -> Result<Arc<InternetStream>, Errno> {
        let timeout = self.common.receive_deadline();
        loop {
            let ticket = self.wakes.arrived.ticket();
            if self.phase() != StreamPhase::Listening {
                return Err(Errno::EINVAL);
            }
            if let Some(child) = self.queue.get().and_then(|queue| queue.take()) {
                self.socket().accepted();
                child.own_stream();
                child.grow_send_limit();
                return Ok(child);
            }
            if patience == Patience::None {
                return Err(Errno::EAGAIN);
            }
            wait(&self.wakes.arrived, ticket, timeout)?;
        }
    }
}

//! [`Listening`]: the state of a listening socket.
use alloc::sync::Arc;
use interfaces::sockets::{Acceptor, StreamOptions};
use tcp::{Listener, ListenerSettings};

/// A listener.
pub(crate) struct Listening {
    pub(crate) listener: Listener,
    pub(crate) acceptor: Arc<dyn Acceptor>,
    pub(crate) backlog: u32,
}

impl Listening {
    pub(crate) fn new(
        backlog: u32,
        options: &StreamOptions,
        acceptor: Arc<dyn Acceptor>,
    ) -> Listening {
        let settings =
            ListenerSettings { backlog: backlog as usize, ..ListenerSettings::default() };
        let mut listening = Listening { listener: Listener::new(settings), acceptor, backlog };
        listening.configure(options);
        listening
    }
    /// Sets the options.
    pub(crate) fn configure(&mut self, options: &StreamOptions) {
        let settings = self.listener.settings_mut();
        settings.defer_timeouts = tcp::timeouts_for(options.defer_accept_s.into());
        settings.fast_open_limit = options.fast_open_max as usize;
    }
}

//! [`Listening`]: the state of a listening socket.
use super::parameters::StreamParameters;
use alloc::sync::Arc;
use interfaces::sockets::{Acceptor, StreamOptions};
use tcp::{Listener, ListenerSettings, Settings};

/// A listener.
pub(crate) struct Listening {
    pub(crate) listener: Listener,
    pub(crate) acceptor: Arc<dyn Acceptor>,
    pub(crate) backlog: u32,
    /// TCP_FASTOPEN.
    fast_open_max: usize,
}

impl Listening {
    pub(crate) fn new(
        backlog: u32,
        options: &StreamOptions,
        acceptor: Arc<dyn Acceptor>,
    ) -> Listening {
        let settings =
            ListenerSettings { backlog: backlog as usize, ..ListenerSettings::default() };
        let listener = Listener::new(settings);
        let mut listening = Listening { listener, acceptor, backlog, fast_open_max: 0 };
        listening.configure(options);
        listening
    }
    /// Sets the options.
    pub(crate) fn configure(&mut self, options: &StreamOptions) {
        let settings = self.listener.settings_mut();
        settings.defer_timeouts = tcp::timeouts_for(options.defer_accept_s.into());
        self.fast_open_max = options.fast_open_max as usize;
    }
    /// Takes the settings of the stack as they are now.
    pub(crate) fn follow(&mut self, child: Settings, parameters: &StreamParameters) {
        let is_fast = parameters.may_accept_fast();
        let settings = self.listener.settings_mut();
        settings.child = child;
        settings.fast_open_limit = if is_fast { self.fast_open_max } else { 0 };
        settings.cookies = parameters.cookies();
        settings.abort_on_overflow = parameters.aborts_on_overflow();
    }
}

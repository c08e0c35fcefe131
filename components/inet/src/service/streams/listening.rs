//! [`Listening`]: the state of a listening socket.
use super::{
    arrival::TcpArrival,
    output::{bare_request, find_path},
    parameters::StreamParameters,
    path::StreamPath,
};
use crate::{
    base::address::Family,
    service::{inet::Inet, passage::Passage},
    tables::interface::InterfaceIndex,
};
use alloc::sync::Arc;
use interfaces::sockets::{Acceptor, StreamOptions};
use tcp::{Listener, ListenerSettings, Settings};

/// The path of the last answer, and what the segment had that it was for.
#[derive(Clone, Copy)]
struct AnswerPath {
    local: [u8; 16],
    remote: [u8; 16],
    interface: InterfaceIndex,
    path: StreamPath,
}

/// A listener.
pub(crate) struct Listening {
    pub(crate) listener: Listener,
    pub(crate) acceptor: Arc<dyn Acceptor>,
    pub(crate) backlog: u32,
    /// TCP_FASTOPEN.
    fast_open_max: usize,
    answer_path: Option<AnswerPath>,
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
        let mut listening =
            Listening { listener, acceptor, backlog, fast_open_max: 0, answer_path: None };
        listening.configure(options);
        listening
    }
    /// Sets the options.
    pub(crate) fn configure(&mut self, options: &StreamOptions) {
        let settings = self.listener.settings_mut();
        settings.defer_timeouts = tcp::timeouts_for(options.defer_accept_s.into());
        self.fast_open_max = options.fast_open_max as usize;
        self.answer_path = None;
    }
    /// Returns the path of answers to a segment, for a socket with those options and user. A handshake and those after it between
    /// the same addresses share one, until the options or the tables change.
    pub(crate) fn path_to(
        &mut self,
        inet: &Inet,
        passage: &mut Passage,
        arrival: &TcpArrival,
        socket: (&StreamOptions, u32),
    ) -> Option<StreamPath> {
        let (flow, interface) = (&arrival.flow, arrival.interface);
        let versions = inet.stack().refresh(&mut passage.worker);
        if let Some(known) = &self.answer_path
            && known.path.versions == versions
            && (known.local, known.remote) == (flow.local, flow.remote)
            && known.interface == interface
        {
            return Some(known.path);
        }
        let path = find_path(inet, passage, bare_request((flow, interface), socket)).ok()?;
        let (local, remote) = (flow.local, flow.remote);
        // Rules may look at ports.
        let rules = passage.worker.view().configuration.rules();
        let has_rules =
            [Family::V4, Family::V6].iter().any(|family| rules.changed(*family).is_some());
        self.answer_path = (!has_rules).then_some(AnswerPath { local, remote, interface, path });
        Some(path)
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

//! [`Listening`]: the state of a listening socket.
use super::{
    arrival::TcpArrival,
    claims::PortClaim,
    parameters::StreamParameters,
    path::{SettingsOrigin, StreamPath},
    ports::TcpPorts,
};
use crate::{
    ip::options::answer_to,
    service::kept::flows::{FlowStage, KeptFlow, KeptFlows, KeptSlot},
    tables::interface::InterfaceIndex,
};
use alloc::{collections::BTreeMap, sync::Arc};
use core::net::IpAddr;
use interfaces::sockets::{Acceptor, IpOptions, Ipv4OptionList, StreamOptions};
use packet::ipv4::Ipv4;
use tcp::{Flow, Listener, ListenerSettings, Settings, TcpFlags};

/// The flow of a segment, and the interface by which it came.
pub(crate) type Came<'f> = (&'f Flow, InterfaceIndex);

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
    /// The claim that the last child shares.
    pub(crate) children_claim: Option<Arc<PortClaim>>,
    /// The origin of the settings of children, until the options change.
    followed: Option<SettingsOrigin>,
    /// The slots of half-open connections, for a successor.
    kept: BTreeMap<Flow, KeptSlot>,
    /// The options of IPv4 that answer those of half-open connections, if they have any.
    answers: BTreeMap<Flow, Ipv4OptionList>,
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
        let mut listening = Listening {
            listener,
            acceptor,
            backlog,
            fast_open_max: 0,
            answer_path: None,
            children_claim: None,
            followed: None,
            kept: BTreeMap::new(),
            answers: BTreeMap::new(),
        };
        listening.configure(options);
        listening
    }
    /// Sets the options.
    pub(crate) fn configure(&mut self, options: &StreamOptions) {
        let settings = self.listener.settings_mut();
        settings.defer_timeouts = tcp::timeouts_for(options.defer_accept_s.into());
        self.fast_open_max = options.fast_open_max as usize;
        self.answer_path = None;
        self.followed = None;
    }
    /// Returns the path of the last answer, if a segment with the same addresses gets that until the options or the tables, whose
    /// versions those are, change.
    pub(crate) fn answer_path(&self, came: Came<'_>, versions: (u64, u64)) -> Option<StreamPath> {
        let (flow, interface) = came;
        let known = self.answer_path.filter(|known| {
            known.path.versions == versions
                && (known.local, known.remote) == (flow.local, flow.remote)
                && known.interface == interface
        });
        known.map(|known| known.path)
    }
    /// Keeps the path of an answer.
    pub(crate) fn keep_answer_path(&mut self, (flow, interface): Came<'_>, path: StreamPath) {
        let (local, remote) = (flow.local, flow.remote);
        self.answer_path = Some(AnswerPath { local, remote, interface, path });
    }
    /// Returns a part in `claim` of a child on `port`: the claim of the last child if that is equal, else a new one.
    pub(crate) fn share_claim(
        &mut self,
        ports: &TcpPorts,
        port: u16,
        claim: &PortClaim,
    ) -> Arc<PortClaim> {
        if let Some(shared) = self.children_claim.as_ref().filter(|shared| ***shared == *claim) {
            return Arc::clone(shared);
        }
        ports.add(port, claim);
        let shared = Arc::new(*claim);
        if let Some(last) = self.children_claim.replace(Arc::clone(&shared)) {
            ports.leave(port, last);
        }
        shared
    }
    /// Takes the settings of the stack as they are now, for a child with that path. `options` are the listener's.
    pub(crate) fn follow(
        &mut self,
        path: &StreamPath,
        options: &StreamOptions,
        parameters: &StreamParameters,
    ) {
        let origin = path.settings_origin(parameters);
        if self.followed.replace(origin) == Some(origin) {
            return;
        }
        self.set_child(path.settings(options, parameters), parameters);
    }
    /// Sets the settings of children.
    pub(crate) fn set_child(&mut self, child: Settings, parameters: &StreamParameters) {
        let is_fast = parameters.may_accept_fast();
        let settings = self.listener.settings_mut();
        settings.child = child;
        settings.fast_open_limit = if is_fast { self.fast_open_max } else { 0 };
        settings.cookies = parameters.cookies();
        settings.abort_on_overflow = parameters.aborts_on_overflow();
    }
    /// Keeps a half-open connection for a successor, after a segment that came so. Returns the slot of one that is half-open no
    /// more: its drop ends the keeping, which must be once its client knows of the connection.
    #[must_use]
    pub(crate) fn keep(
        &mut self,
        flows: &Arc<KeptFlows>,
        (flow, interface): Came<'_>,
    ) -> Option<KeptSlot> {
        let Some(words) = self.listener.request_words(flow) else {
            return self.kept.remove(flow);
        };
        if !self.kept.contains_key(flow) {
            let stage = FlowStage::HalfOpen(interface.0);
            let slot = flows.keep(&KeptFlow { flow: *flow, stage, words });
            self.kept.extend(slot.map(|slot| (*flow, slot)));
        }
        None
    }
    /// Gives a half-open connection of a predecessor its slot.
    pub(crate) fn keep_on(&mut self, flow: Flow, slot: KeptSlot) {
        self.kept.insert(flow, slot);
    }
    /// Notes the options of the header of a SYN, which the answers and the connection will have.
    #[inline]
    pub(crate) fn note_options(&mut self, arrival: &TcpArrival) {
        if let Some(headers) = &arrival.headers
            && arrival.segment.flags.contains(TcpFlags::SYN)
            && let Some(answer) = answer_of(headers)
        {
            let listener = &self.listener;
            self.answers.retain(|flow, _| listener.has_request(flow));
            self.answers.insert(arrival.flow, answer);
        }
    }
    /// Returns the listener's options as those of answers in a flow, if they are others.
    #[inline]
    pub(crate) fn answering(&self, flow: &Flow, options: &StreamOptions) -> Option<StreamOptions> {
        if self.answers.is_empty() && options.ip.header_options.is_none() {
            return None;
        }
        let header_options = self.answers.get(flow).copied();
        Some(StreamOptions { ip: IpOptions { header_options, ..options.ip }, ..*options })
    }
    /// Returns the options of the connection of a flow, and forgets what it needed.
    #[inline]
    pub(crate) fn take_answering(&mut self, flow: &Flow, options: &StreamOptions) -> StreamOptions {
        let found = self.answering(flow, options);
        if !self.answers.is_empty() {
            self.answers.remove(flow);
        }
        found.unwrap_or(*options)
    }
    /// Ends the keeping of half-open connections that are no more.
    pub(crate) fn keep_less(&mut self) {
        let listener = &self.listener;
        self.kept.retain(|flow, _| listener.has_request(flow));
    }
}

/// Returns the options that answer those of a packet; `None` if there are none.
#[cold]
fn answer_of(headers: &[u8]) -> Option<Ipv4OptionList> {
    let packet = Ipv4::parse_quoted(headers).ok().filter(|packet| !packet.options.is_empty())?;
    let came = Ipv4OptionList::padded(packet.options)?;
    answer_to(&came, IpAddr::V4(packet.header.source())).filter(|answer| !answer.is_empty())
}

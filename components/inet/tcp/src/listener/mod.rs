//! A listening socket (RFC 9293 section 3.10.7.2): half-open requests, children that wait for accept, SYN cookies, Fast Open.
//!
//! A half-open request is a copy of the peer's SYN and a timer. The connection is made by the acknowledgement that ends the
//! handshake, so that a flood of SYNs costs little memory.
mod cookie;
mod direct;
mod request;

use crate::{
    clock::SECOND,
    connection::{Connection, kept_words::KEPT_WORDS, settings::Settings, types::Arrival},
    wire::{
        secret::{Flow, Secret},
        segment::{FastOpenCookie, TcpFlags, TcpSegment},
    },
};
use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet, VecDeque},
};
use request::HalfOpen;

/// The options of a listening socket.
#[derive(Clone, Copy, Debug)]
pub struct ListenerSettings {
    /// The backlog of listen(): the children and the half-open requests that may wait.
    pub backlog: usize,
    /// Use of SYN cookies.
    pub cookies: Cookies,
    /// Reset a connection for which the accept queue has no room (`tcp_abort_on_overflow`).
    pub abort_on_overflow: bool,
    /// TCP_DEFER_ACCEPT: the number of SYN-ACK timeouts for which a connection waits for its first data.
    pub defer_timeouts: u32,
    /// TCP_FASTOPEN: children of Fast Open that may wait for the end of their handshake. 0 switches Fast Open off.
    pub fast_open_limit: usize,
    /// The options of children.
    pub child: Settings,
}

impl Default for ListenerSettings {
    fn default() -> ListenerSettings {
        ListenerSettings {
            backlog: 4096,
            cookies: Cookies::WhenFull,
            abort_on_overflow: false,
            defer_timeouts: 0,
            fast_open_limit: 0,
            child: Settings::default(),
        }
    }
}

/// Use of SYN cookies (RFC 4987; `tcp_syncookies`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cookies {
    /// Never: SYNs that find the queue full are dropped.
    Off,
    /// For SYNs that find the queue of half-open requests full.
    WhenFull,
    /// For every SYN.
    Always,
}

/// The listener's answer to a segment.
#[derive(Debug)]
pub enum ListenerReply {
    /// Nothing.
    Drop,
    /// Send this segment.
    Send(TcpSegment),
    /// A new connection. The segment was its first, with this effect. It waits in the accept queue.
    Child(Box<Connection>, Arrival),
}

/// Returns the number of SYN-ACK timeouts that cover a time in seconds: 1, 3, 7, 15 and so on (Linux: secs_to_retrans).
pub fn timeouts_for(seconds: u64) -> u32 {
    u64::BITS - seconds.min(255).leading_zeros()
}

/// The state of a listening socket.
#[derive(Debug)]
pub struct Listener {
    settings: ListenerSettings,
    requests: BTreeMap<Flow, HalfOpen>,
    /// The deadlines of the requests.
    timers: BTreeSet<(u64, Flow)>,
    /// The children that no program has accepted, in order.
    ready: VecDeque<Flow>,
    /// Time up to which SYN cookies are accepted.
    cookies_until_ns: u64,
}

/// A half-open request, as users see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HalfOpenView {
    /// The ends of the connection to be.
    pub flow: Flow,
    /// Time of the next SYN-ACK in nanoseconds.
    pub deadline_ns: u64,
    /// SYN-ACKs that were repeated.
    pub timeouts: u32,
}

/// The outside of a call: time, ends of the segment, key, and room of a child's receive buffer.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// Time in nanoseconds.
    pub now_ns: u64,
    /// The ends of the segment.
    pub flow: Flow,
    /// The key of the stack.
    pub secret: &'a Secret,
    /// Size of a child's receive buffer in bytes.
    pub room: u64,
    /// The headers of IP and TCP of a SYN, which its child keeps (TCP_SAVE_SYN).
    pub headers: Option<&'a [u8]>,
}

impl Listener {
    /// Starts to listen.
    pub fn new(settings: ListenerSettings) -> Listener {
        Listener {
            settings,
            requests: BTreeMap::new(),
            timers: BTreeSet::new(),
            ready: VecDeque::new(),
            cookies_until_ns: 0,
        }
    }

    /// Returns the options, to change them.
    pub fn settings_mut(&mut self) -> &mut ListenerSettings {
        &mut self.settings
    }

    /// Takes the oldest child from the accept queue.
    pub fn accept(&mut self) -> Option<Flow> {
        self.ready.pop_front()
    }

    /// Returns the number of children that wait for accept.
    pub fn ready(&self) -> usize {
        self.ready.len()
    }

    /// Returns the number of half-open requests.
    pub fn half_open(&self) -> usize {
        self.requests.len()
    }

    /// Returns the half-open requests, by their ends.
    pub fn requests(&self) -> impl Iterator<Item = HalfOpenView> {
        self.requests.iter().map(|(flow, request)| HalfOpenView {
            flow: *flow,
            deadline_ns: request.deadline_ns,
            timeouts: request.timeouts,
        })
    }

    /// Returns whether there is a half-open request.
    pub fn has_request(&self, flow: &Flow) -> bool {
        self.requests.contains_key(flow)
    }

    /// Returns words of a half-open request, of which a successor makes it again ([`Listener::resume_request`]).
    pub fn request_words(&self, flow: &Flow) -> Option<[u64; KEPT_WORDS]> {
        self.requests.get(flow).map(HalfOpen::words)
    }

    /// Makes a half-open request of a predecessor again. Its SYN-ACK is due at `now_ns`.
    pub fn resume_request(
        &mut self,
        now_ns: u64,
        (flow, secret): (&Flow, &Secret),
        words: &[u64; KEPT_WORDS],
    ) {
        self.remove(flow);
        let request = HalfOpen::of_words(words, secret.timestamps_offset(flow), now_ns);
        self.timers.insert((request.deadline_ns, *flow));
        self.requests.insert(*flow, request);
    }

    /// Puts a child, which a predecessor of this listener made, at the end of the accept queue.
    pub fn adopt(&mut self, flow: Flow) {
        self.ready.push_back(flow);
    }

    /// Forgets a child that waits for accept, because its connection is gone. Returns whether it waited.
    pub fn forget(&mut self, flow: &Flow) -> bool {
        let before = self.ready.len();
        self.ready.retain(|one| one != flow);
        before != self.ready.len()
    }

    /// Takes a segment for which no connection exists. `iss` is the initial sequence number that TIME-WAIT chose, if the flow was
    /// in this state.
    pub fn input(
        &mut self,
        context: &Context<'_>,
        segment: &TcpSegment,
        iss: Option<u32>,
    ) -> ListenerReply {
        if self.requests.contains_key(&context.flow) {
            return self.input_request(context, segment);
        }
        if segment.has(TcpFlags::RST) {
            return ListenerReply::Drop;
        }
        if segment.has(TcpFlags::ACK) {
            return self.input_cookie(context, segment);
        }
        if !segment.has(TcpFlags::SYN) || segment.has(TcpFlags::FIN) {
            return ListenerReply::Drop;
        }
        self.input_syn(context, segment, iss)
    }

    /// Whether the accept queue takes no further child (Linux: sk_acceptq_is_full).
    fn is_full(&self) -> bool {
        self.ready.len() > self.settings.backlog
    }

    fn input_syn(
        &mut self,
        context: &Context<'_>,
        syn: &TcpSegment,
        iss: Option<u32>,
    ) -> ListenerReply {
        if self.is_full() {
            return ListenerReply::Drop;
        }
        let is_crowded = self.requests.len() >= self.settings.backlog.max(1);
        match self.settings.cookies {
            Cookies::Always => return self.answer_by_cookie(context, syn),
            Cookies::WhenFull if is_crowded => return self.answer_by_cookie(context, syn),
            Cookies::Off if is_crowded => return ListenerReply::Drop,
            _ => {}
        }
        let iss =
            iss.unwrap_or_else(|| context.secret.initial_sequence(&context.flow, context.now_ns));
        let shown = syn.options.fast_open.filter(|_| self.settings.fast_open_limit > 0);
        let Some(shown) = shown else { return self.open_half(context, syn, iss, None) };
        let cookie = context.secret.fast_open_cookie(&context.flow);
        if shown == cookie {
            return self.open_fast(context, syn, iss);
        }
        self.open_half(context, syn, iss, Some(cookie))
    }

    /// Makes a child of a SYN with the right Fast Open cookie.
    fn open_fast(&mut self, context: &Context<'_>, syn: &TcpSegment, iss: u32) -> ListenerReply {
        if self.ready.len() >= self.settings.fast_open_limit {
            return self.open_half(context, syn, iss, None);
        }
        let offset = context.secret.timestamps_offset(&context.flow);
        let settings = &self.settings.child;
        let mut child =
            Connection::answer(context.now_ns, settings, syn, iss, offset, context.room);
        child.keep_syn(context.headers.map(Box::from));
        let arrival = child.take_syn_data(context.now_ns, syn);
        self.ready.push_back(context.flow);
        ListenerReply::Child(child, arrival)
    }

    fn open_half(
        &mut self,
        context: &Context<'_>,
        syn: &TcpSegment,
        iss: u32,
        cookie: Option<FastOpenCookie>,
    ) -> ListenerReply {
        let offset = context.secret.timestamps_offset(&context.flow);
        let request = HalfOpen::new(context, syn, iss, offset, cookie);
        let segment = request.syn_ack(context.now_ns, &self.settings.child);
        self.timers.insert((request.deadline_ns, context.flow));
        self.requests.insert(context.flow, request);
        ListenerReply::Send(segment)
    }

    /// Removes a request.
    fn remove(&mut self, flow: &Flow) {
        if let Some(request) = self.requests.remove(flow) {
            self.timers.remove(&(request.deadline_ns, *flow));
        }
    }

    /// Handles a segment of a half-open request (Linux: tcp_check_req).
    fn input_request(&mut self, context: &Context<'_>, segment: &TcpSegment) -> ListenerReply {
        let Some(request) = self.requests.get_mut(&context.flow) else {
            return ListenerReply::Drop;
        };
        let is_syn = segment.has(TcpFlags::SYN) && !segment.has(TcpFlags::ACK);
        if is_syn && segment.seq == request.syn.seq && !segment.has(TcpFlags::RST) {
            request.note_repeated(context.now_ns);
            return ListenerReply::Send(request.syn_ack(context.now_ns, &self.settings.child));
        }
        if !request.is_inside(segment) {
            let is_reset = segment.has(TcpFlags::RST);
            let ack = request.acknowledgement(context.now_ns, &self.settings.child);
            return if is_reset { ListenerReply::Drop } else { ListenerReply::Send(ack) };
        }
        if segment.flags.intersects(TcpFlags::RST | TcpFlags::SYN) {
            self.remove(&context.flow);
            return segment.reset_reply().map_or(ListenerReply::Drop, ListenerReply::Send);
        }
        if !segment.has(TcpFlags::ACK) {
            return ListenerReply::Drop;
        }
        if segment.ack != request.iss.wrapping_add(1) {
            return segment.reset_reply().map_or(ListenerReply::Drop, ListenerReply::Send);
        }
        let is_bare = segment.sequence_len() == 0;
        if is_bare && request.timeouts < self.settings.defer_timeouts {
            request.is_acked = true;
            return ListenerReply::Drop;
        }
        self.finish_request(context, segment)
    }

    /// Makes the child of a request whose handshake ended.
    fn finish_request(&mut self, context: &Context<'_>, segment: &TcpSegment) -> ListenerReply {
        if self.is_full() {
            if !self.settings.abort_on_overflow {
                if let Some(request) = self.requests.get_mut(&context.flow) {
                    request.is_acked = true;
                }
                return ListenerReply::Drop;
            }
            self.remove(&context.flow);
            return segment.reset_reply().map_or(ListenerReply::Drop, ListenerReply::Send);
        }
        let Some(request) = self.requests.get(&context.flow) else { return ListenerReply::Drop };
        let mut child = request.connection(&self.settings.child);
        child.note_syn_ack(request.first_ns, request.repeated_ns);
        child.keep_syn(request.headers.clone());
        let arrival = child.input(context.now_ns, segment, request.room);
        self.remove(&context.flow);
        self.ready.push_back(context.flow);
        ListenerReply::Child(child, arrival)
    }

    /// Returns the time of the next call of [`Listener::output`], `None` without half-open requests.
    pub fn deadline(&self) -> Option<u64> {
        self.timers.first().map(|(deadline, _)| *deadline)
    }

    /// Returns the next SYN-ACK to repeat. Call it at the deadline until it returns `None`. Requests that were repeated too often
    /// go away.
    pub fn output(&mut self, now_ns: u64) -> Option<(Flow, TcpSegment)> {
        while let Some((deadline, flow)) =
            self.timers.first().copied().filter(|(at, _)| *at <= now_ns)
        {
            self.timers.remove(&(deadline, flow));
            let retries = self.settings.child.synack_retries;
            let defer = self.settings.defer_timeouts;
            let Some(request) = self.requests.get_mut(&flow) else { continue };
            let most = retries.max(if request.is_acked { defer } else { 0 });
            if request.timeouts >= most {
                self.requests.remove(&flow);
                continue;
            }
            let is_repeated = defer == 0 || !request.is_acked || request.timeouts + 1 >= defer;
            request.timeouts += 1;
            request.deadline_ns = now_ns
                .saturating_add((SECOND << request.timeouts.min(7)).min(recovery::RTO_MAX_NS));
            self.timers.insert((request.deadline_ns, flow));
            if is_repeated {
                request.note_repeated(now_ns);
                return Some((flow, request.syn_ack(now_ns, &self.settings.child)));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use labels::SecrecyId;

    #[test]
    fn seconds_of_defer_accept_become_timeouts() {
        assert_eq!([0, 1, 2, 3, 4, 7, 8, u64::MAX].map(timeouts_for), [0, 1, 2, 2, 3, 3, 4, 8]);
    }

    #[test]
    fn adopted_children_come_in_order_and_may_be_forgotten() {
        let flow = |remote_port| Flow {
            local: [1; 16],
            remote: [2; 16],
            local_port: 80,
            remote_port,
            label: SecrecyId::NONE,
        };
        let mut listener = Listener::new(ListenerSettings::default());
        (1..4).for_each(|port| listener.adopt(flow(port)));
        assert!(listener.forget(&flow(2)) && !listener.forget(&flow(2)));
        assert_eq!(listener.accept(), Some(flow(1)));
        assert_eq!(listener.accept(), Some(flow(3)));
        assert_eq!(listener.accept(), None);
    }
}

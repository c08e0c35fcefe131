//! The work of TIME-WAIT: its segments, its end, and its start from a connection.
use super::{
    arrival::TcpArrival,
    claims::{PortClaim, PortStage},
    control::FlowEnd,
    flows::FlowOwner,
    input,
    output::send_bare,
    socket::{SocketRole, SocketState, TcpSocket},
    waiting::{WAITING, WAITING_KEPT, Waiting},
};
use crate::{
    ip::events::PacketEvent,
    service::{
        inet::Inet,
        kept::flows::{FlowStage, KeptFlow, KeptSlot},
        passage::Passage,
    },
};
use alloc::{boxed::Box, sync::Arc};
use interfaces::sockets::StreamOptions;
use rt::sync::Mutex;
use tcp::{TimeWait, TimeWaitReply};

impl Waiting {
    /// Keeps the state for a successor, unless it has ended.
    fn keep(&self, inet: &Inet, time_wait: &TimeWait) {
        let Some(flows) = inet.kept_flows() else { return };
        let stage = FlowStage::Waiting(self.claim);
        let kept = KeptFlow { flow: self.flow, stage, words: time_wait.words() };
        let slot = flows.keep(&kept);
        let state = self.state.lock();
        if state.is_some() {
            *self.kept.lock() = slot;
        }
    }
    /// Ends the state: the flow and the port are free again. The lock is held until the flow is out of the table: a segment that
    /// finds the state ended finds another owner of the flow, or none.
    fn end(self: &Arc<Waiting>, inet: &Inet) {
        let mut state = self.state.lock();
        if state.is_some() {
            let owner = FlowOwner::Waiting(Arc::clone(self));
            inet.streams().flows.remove(&self.flow, self.hash, &owner);
            *state = None;
            self.kept.lock().take();
            inet.streams().ports.release(self.flow.local_port, &self.claim);
        }
    }
    /// Gives the flow to a connection that a program opens, if timestamps tell its segments from old ones (`tcp_tw_reuse`). Returns
    /// the initial sequence number to use.
    pub(crate) fn reuse(
        self: &Arc<Waiting>,
        inet: &Inet,
        now_ns: u64,
        socket: &Arc<TcpSocket>,
    ) -> Option<u32> {
        let mut state = self.state.lock();
        let iss = state.as_ref()?.reuse_for_connect(now_ns)?;
        let (old, new) =
            (FlowOwner::Waiting(Arc::clone(self)), FlowOwner::Live(Arc::clone(socket)));
        if !inet.streams().flows.replace(&self.flow, self.hash, &old, new) {
            return None;
        }
        *state = None;
        self.kept.lock().take();
        inet.streams().ports.release(self.flow.local_port, &self.claim);
        Some(iss)
    }
}

/// Takes a segment of a connection in TIME-WAIT.
pub(crate) fn input(
    inet: &Inet,
    passage: &mut Passage,
    waiting: &Arc<Waiting>,
    arrival: Box<TcpArrival>,
) {
    let reply = {
        let mut state = waiting.state.lock();
        state.as_mut().map(|state| state.input(passage.now_ns, &arrival.segment))
    };
    match reply {
        // It ended meanwhile.
        None => passage.outside.segments.push_back(arrival),
        Some(TimeWaitReply::Drop) => {}
        Some(TimeWaitReply::Acknowledge(segment)) => {
            let ends = (&arrival.flow, arrival.interface);
            match &waiting.options {
                Some(options) => send_bare(inet, passage, ends, options, segment),
                None => send_bare(inet, passage, ends, &StreamOptions::default(), segment),
            }
        }
        Some(TimeWaitReply::Close) => waiting.end(inet),
        Some(TimeWaitReply::Reuse(iss)) => {
            waiting.end(inet);
            input::open(inet, passage, arrival, Some(iss));
        }
    }
}

impl Inet {
    /// Runs the timers of streams whose time has come.
    pub(crate) fn expire_streams(&self, passage: &mut Passage) {
        for socket in self.streams().timers.due(passage.now_ns) {
            socket.with(self, passage, |state, passage| state.expire(self, passage, &socket));
        }
        self.expire_orphans(passage);
        expire(self, passage.now_ns);
    }
    /// Ends the orphans whose time has come.
    fn expire_orphans(&self, passage: &mut Passage) {
        let streams = self.streams();
        while streams.orphans.earliest_ns() <= passage.now_ns
            && let Some((flow, hash)) = streams.orphans.take_due(passage.now_ns)
        {
            // Another connection may have the flow by now: nothing is due for that.
            if let Some(FlowOwner::Live(socket)) = streams.flows.find(&flow, hash) {
                socket.with(self, passage, |state, passage| state.expire(self, passage, &socket));
            }
        }
    }
}

impl Inet {
    /// Makes a connection in TIME-WAIT of a predecessor again, unless another one has its flow.
    pub(crate) fn wait_again(&self, kept: &KeptFlow, claim: PortClaim, slot: KeptSlot) {
        let (streams, flow) = (self.streams(), kept.flow);
        let state = TimeWait::of_words(&kept.words, self.now_ns());
        let deadline_ns = state.deadline();
        let mut options = StreamOptions::default();
        options.ip.interface = claim.interface;
        let hash = streams.flows.hash(&flow);
        let waiting = Arc::new(Waiting {
            flow,
            hash,
            claim,
            options: Some(Box::new(options)),
            state: Mutex::new(&WAITING, Some(state)),
            kept: Mutex::new(&WAITING_KEPT, Some(slot)),
        });
        if streams.flows.insert(&flow, hash, FlowOwner::Waiting(Arc::clone(&waiting))) {
            streams.ports.add(flow.local_port, &claim);
            streams.waiting.add(deadline_ns, waiting);
            self.arm(deadline_ns);
        }
    }
}

/// Ends those whose time has come.
fn expire(inet: &Inet, now_ns: u64) {
    let table = &inet.streams().waiting;
    while table.earliest_ns() <= now_ns
        && let Some(waiting) = table.take_due(now_ns)
    {
        // Segments may have made it wait longer.
        let deadline = waiting.state.lock().as_ref().map(TimeWait::deadline);
        match deadline {
            Some(at) if at > now_ns => table.add(at, waiting),
            Some(_) => waiting.end(inet),
            None => {}
        }
    }
}

impl SocketState {
    /// Puts TIME-WAIT in the place of the connection.
    pub(crate) fn wait(&mut self, inet: &Inet, passage: &mut Passage, socket: &Arc<TcpSocket>) {
        let streams = inet.streams();
        let mut flow_end = FlowEnd::Taken;
        if let (SocketRole::Live(live), Some(own)) = (&self.role, self.claim)
            && let Some(state) = live.connection.time_wait()
            // Further ones end at once (`tcp_max_tw_buckets`).
            && streams.waiting.count() < streams.parameters.waiting_max()
        {
            let claim = PortClaim { stage: PortStage::Waiting, ..own };
            let waiting = Arc::new(Waiting {
                flow: live.flow,
                hash: live.hash,
                claim,
                options: (!self.has_first_options).then(|| Box::new(self.options)),
                state: Mutex::new(&WAITING, Some(state)),
                kept: Mutex::new(&WAITING_KEPT, None),
            });
            let old = FlowOwner::Live(Arc::clone(socket));
            let new = FlowOwner::Waiting(Arc::clone(&waiting));
            let port = live.flow.local_port;
            // A port that the socket gives up goes to TIME-WAIT in one step.
            if self.keeps_port() {
                streams.ports.add(port, &claim);
            } else {
                streams.ports.turn(port, (&own, self.shared_claim.take()), &claim);
                self.claim = None;
            }
            if streams.flows.replace(&live.flow, live.hash, &old, new) {
                flow_end = FlowEnd::Given;
                waiting.keep(inet, &state);
                passage.worker.events().add(PacketEvent::TcpTimeWait, 1);
                streams.waiting.add(state.deadline(), waiting);
                inet.arm(state.deadline());
            } else {
                streams.ports.release(port, &claim);
            }
        }
        self.end(inet, socket, flow_end);
    }
}

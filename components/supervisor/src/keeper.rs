//! The keeper of one component: a thread that starts it and waits for its end, and one that pings it.
//!
//! Locks: `now` (the present state; a leaf, never held over a call into the domain or to a listener) and `listeners`.
//! `changed` is signalled after each change of `now`.
use crate::{
    image::Image,
    life::{Life, Why},
    load,
    plan::Plan,
    record::EndRecord,
};
use alloc::{collections::VecDeque, format, string::String, sync::Arc, vec::Vec};
use core::sync::atomic::Ordering::Relaxed;
use interfaces::{
    block::RunningDriver,
    call::DONE,
    introduction::Presence,
    overdue::Check,
    supervisor::{Listener, Order, OrderError, State, Status},
};
use rt::{
    NoMemory,
    device::DmaWindow,
    domain::{self, Domain, Usage},
    lock_class,
    memory::Region,
    message::{Endpoint, Error, Message},
    sync::{Event, Mutex},
    thread::{self, Policy},
    time::{self, Instant},
};

lock_class! {
    static NOW = "supervisor.now";
    static LISTENERS = "supervisor.listeners";
}

/// Label of a ping.
const PING: u64 = 0;
/// Number of ends that are kept.
const ENDINGS: usize = 8;
/// A component must leave one part in this many of its memory free, or it is restarted.
const MEMORY_PARTS: usize = 8;
/// The greatest number of ping periods by which the age of a request grows between two checks.
const STEP_PINGS: u64 = 2;
/// Time for a component's first answer, in multiples of a ping's deadline: it finds its devices first.
const START_DEADLINES: u64 = 5;
/// Policy of the thread that starts successors: it goes before the fair class.
const KEEPER: Policy = Policy::RoundRobin(90);
/// Policy of the thread that pings. It is a fair one because a server works with its caller's priority: a component that loops
/// over a ping gets a larger share than programs until the deadline, and no more.
const PINGER: Policy = Policy::Fair { nice: -15 };

/// The present state.
struct Now {
    life: Life,
    /// The running domain.
    domain: Option<Arc<Domain>>,
    /// Number of starts so far.
    generation: u64,
    started: Instant,
    /// Time of the last end, until the successor answers.
    ended: Option<Instant>,
    outage_ns: u64,
    /// The order that caused the coming end, which is then not a failure.
    asked: Option<Why>,
    /// The next start finds nothing in the memory that outlives the component.
    is_afresh: bool,
    endings: VecDeque<EndRecord>,
    /// The calls that earlier domains were refused.
    refused: Vec<(&'static str, u64)>,
    changes: u64,
}

impl Now {
    /// Records that the running domain is about to be ended for the reason `why`.
    fn ask(&mut self, why: Why) -> Result<Arc<Domain>, OrderError> {
        let domain = self.domain.clone().ok_or(OrderError::State)?;
        self.asked = Some(why);
        self.ended = Some(time::now());
        Ok(domain)
    }
}

pub(crate) struct Keeper {
    plan: Plan,
    file: &'static [u8],
    endpoint: Endpoint,
    /// Memory that outlives each domain.
    kept: Option<Region>,
    now: Mutex<Now>,
    changed: Event,
    listeners: Mutex<Vec<Arc<dyn Listener>>>,
}

/// Adds the counts of `more` to `all`.
fn add_refused(all: &mut Vec<(&'static str, u64)>, more: &[(&'static str, u32)]) {
    for &(name, count) in more {
        match all.iter_mut().find(|(known, _)| *known == name) {
            Some((_, sum)) => *sum = sum.saturating_add(u64::from(count)),
            None => all.push((name, u64::from(count))),
        }
    }
}

impl Keeper {
    /// Starts `file` as `plan` says, serving at `endpoint`, and keeps it running. `listener` is told from its first answer on.
    pub(crate) fn start(
        plan: Plan,
        file: &'static [u8],
        endpoint: Endpoint,
        listener: Option<Arc<dyn Listener>>,
    ) -> Result<Arc<Keeper>, NoMemory> {
        let now = Now {
            life: Life::new(plan.rules),
            domain: None,
            generation: 0,
            started: time::now(),
            ended: None,
            outage_ns: 0,
            asked: None,
            is_afresh: false,
            endings: VecDeque::new(),
            refused: Vec::new(),
            changes: 0,
        };
        let keeper = Arc::new(Keeper {
            plan,
            file,
            endpoint,
            kept: (plan.kept_bytes > 0).then(|| Region::new(plan.kept_bytes)).transpose()?,
            now: Mutex::new(&NOW, now),
            changed: Event::new(),
            listeners: Mutex::new(&LISTENERS, listener.into_iter().collect()),
        });
        let (keeps, pings) = (keeper.clone(), keeper.clone());
        thread::spawn(plan.name, KEEPER, move || keeps.keep())?;
        thread::spawn(plan.name, PINGER, move || pings.ping())?;
        Ok(keeper)
    }
    pub(crate) fn name(&self) -> &'static str {
        self.plan.name
    }
    pub(crate) fn endpoint(&self) -> Endpoint {
        self.endpoint.clone()
    }
    pub(crate) fn listen(&self, listener: Arc<dyn Listener>) {
        self.listeners.lock().push(listener);
    }
    /// Returns the running domain and its window.
    pub(crate) fn present(&self) -> RunningDriver {
        let running = self.running().map(|(domain, generation)| RunningDriver {
            window: domain.window(),
            generation: Some(generation),
        });
        running.unwrap_or_default()
    }
    /// Returns the window of the running domain, if its devices reach memory.
    pub(crate) fn window(&self) -> Option<DmaWindow> {
        let (domain, _) = self.running().filter(|_| self.plan.can_use_dma)?;
        Some(domain.window())
    }
    /// Returns the number of the running domain's start.
    pub(crate) fn generation(&self) -> Option<u64> {
        self.running().map(|(_, generation)| generation)
    }
    /// Returns the presence of the component for those that call it.
    pub(crate) fn presence(&self) -> Presence {
        let now = self.now.lock();
        match now.life.state() {
            State::Degraded => Presence::GivenUp,
            _ => Presence::Started(now.generation),
        }
    }
    pub(crate) fn changes(&self) -> u64 {
        self.now.lock().changes
    }

    /// Blocks until the component answers, or will not answer by itself. Returns whether it answers.
    pub(crate) fn wait_for_service(&self) -> bool {
        self.wait_until(None, |now| !matches!(now.life.state(), State::Starting | State::Waiting));
        self.now.lock().life.state() == State::Running
    }

    /// Blocks until the component has ended and will not be started again by itself. Returns its state.
    pub(crate) fn wait_for_end(&self) -> State {
        let is_end = |state| matches!(state, State::Stopped | State::Degraded);
        self.wait_until(None, |now| is_end(now.life.state()));
        self.now.lock().life.state()
    }

    /// Changes the state and wakes all threads that wait for a change.
    fn change<R>(&self, act: impl FnOnce(&mut Now) -> R) -> R {
        let result = {
            let mut now = self.now.lock();
            now.changes = now.changes.wrapping_add(1);
            act(&mut now)
        };
        self.changed.signal();
        result
    }

    /// Blocks until `is_so` returns `true`, or until the deadline.
    fn wait_until(&self, deadline: Option<Instant>, is_so: impl Fn(&Now) -> bool) {
        loop {
            let ticket = self.changed.ticket();
            let is_late = deadline.is_some_and(|at| time::now() >= at);
            if is_late || is_so(&self.now.lock()) {
                return;
            }
            self.changed.wait(ticket, deadline);
        }
    }

    fn keep(&self) {
        let mut image = None;
        loop {
            self.wait_for_start();
            if core::mem::take(&mut self.now.lock().is_afresh) {
                self.clear_kept();
            }
            // The endpoint was closed if the component was given up; listeners have been told by now.
            domain::reopen(&self.endpoint);
            let kept = match self.make(&mut image) {
                Ok((domain, entry)) => self.keep_one(Arc::new(domain), entry),
                Err(cause) => Err(cause),
            };
            if let Err(cause) = kept {
                self.ended(EndRecord::of_start(&cause), &[]);
            }
        }
    }

    /// Makes a domain, to be started at the returned address. The executable is read for the first one and compared for each
    /// further one.
    fn make(&self, image: &mut Option<Image<'static>>) -> Result<(Domain, u64), String> {
        let image = match image {
            Some(image) => {
                let renewed = image.renew_changed()?;
                if renewed > 0 {
                    let name = self.plan.name;
                    log::error!(
                        "{name}: {renewed} segments that nobody may write were changed; they are copied afresh"
                    );
                }
                image
            }
            None => image.insert(Image::read(self.file)?),
        };
        let restarts = self.now.lock().life.restarts();
        let earlier = (self.kept.as_ref(), restarts);
        let domain = load::load(&self.plan, image, &self.endpoint, earlier)?;
        Ok((domain, image.entry))
    }

    fn wait_for_start(&self) {
        loop {
            let start_at = self.now.lock().life.start_at_ns().map(Instant);
            if start_at.is_some_and(|at| at <= time::now()) {
                return;
            }
            self.wait_until(start_at, |now| now.life.start_at_ns().map(Instant) != start_at);
        }
    }

    /// Starts `domain` and waits for its end. It is recorded as the running one before it answers anybody, because a client
    /// that it has answered lends to its window.
    fn keep_one(&self, domain: Arc<Domain>, entry: u64) -> Result<(), String> {
        let is_wanted = self.change(|now| {
            now.started = time::now();
            now.generation = now.generation.wrapping_add(1);
            now.domain = Some(domain.clone());
            let is_wanted = now.life.started();
            if !is_wanted {
                now.asked = Some(Why::AskedToStop);
            }
            is_wanted
        });
        domain.start(entry).map_err(load::refused)?;
        if !is_wanted {
            domain.kill("asked to stop");
        }
        let Some(end) = domain.wait_end(None) else { return Ok(()) };
        let refused = domain.usage().refused;
        drop(domain);
        let listeners = self.listeners.lock().clone();
        listeners.iter().for_each(|listener| listener.ended());
        self.ended(EndRecord::of(&end, self.file), &refused);
        Ok(())
    }

    /// Decides the reaction to an end of a domain that was refused the calls `refused`. Until then the domain counts as
    /// running, so that an order that comes meanwhile is carried out.
    fn ended(&self, ending: EndRecord, refused: &[(&'static str, u32)]) {
        let name = self.plan.name;
        let at = ending.at;
        // A thread that waits for the change may take the machine down.
        if self.now.lock().asked.is_none() {
            log::warn!("{name}: {}", ending.cause);
            ending.backtrace.iter().for_each(|line| log::warn!("{name}:   {line}"));
        }
        let (why, before, state, domain) = self.change(|now| {
            let why = now.asked.take().unwrap_or(Why::Failed);
            let before = now.life.state();
            add_refused(&mut now.refused, refused);
            now.ended.get_or_insert(at);
            now.life.ended(at.0, why);
            now.endings.push_front(ending);
            now.endings.truncate(ENDINGS);
            (why, before, now.life.state(), now.domain.take())
        });
        drop(domain);
        if why == Why::Failed && before == State::Starting {
            // The contents of that memory may have caused the failure.
            self.clear_kept();
        }
        if state == State::Degraded {
            log::error!("{name}: failed too often; its callers are refused until it is started");
            domain::close(&self.endpoint);
            let listeners = self.listeners.lock().clone();
            listeners.iter().for_each(|listener| listener.given_up());
        }
    }

    fn clear_kept(&self) {
        let words = self.kept.iter().flat_map(|kept| kept.words());
        words.for_each(|word| word.store(0, Relaxed));
    }

    /// Returns the running domain, and the number of its start.
    fn running(&self) -> Option<(Arc<Domain>, u64)> {
        let now = self.now.lock();
        Some((now.domain.clone()?, now.generation))
    }

    fn ping(&self) {
        let mut last = None;
        loop {
            let Some((domain, generation)) = self.running() else {
                self.wait_until(None, |now| now.domain.is_some());
                continue;
            };
            if last == Some(generation) {
                let next = time::now().after_ns(self.plan.ping_ns);
                self.wait_until(Some(next), |now| now.generation != generation);
            }
            if let Some(cause) = self.find_fault(&domain, generation) {
                domain.kill(&cause);
            }
            last = Some(generation);
        }
    }

    /// Checks the component in `domain`. Returns the reason if it must be ended.
    fn find_fault(&self, domain: &Domain, generation: u64) -> Option<String> {
        let limit_ns = self.answer_limit_ns();
        let deadline = time::now().after_ns(limit_ns);
        let mut ping = Message::new(PING);
        // An empty message has room. The word is the number of an instance; there is always one.
        let _ = ping.push(0);
        let answer = self.endpoint.call(&mut ping, Some(deadline));
        let is_same = self.now.lock().generation == generation;
        match answer {
            Ok(()) if is_same && ping.label() != DONE => {
                return Some(format!("its answer to a ping makes no sense: {:#x}", ping.label()));
            }
            Ok(()) if is_same => {
                if let Err(cause) = self.answered() {
                    return Some(cause);
                }
            }
            Err(Error::TimedOut) if is_same => {
                let ms = limit_ns / 1_000_000;
                return Some(format!("no answer to a ping within {ms} ms"));
            }
            _ => {}
        }
        if let Some(cause) = self.find_overdue().filter(|_| is_same) {
            return Some(cause);
        }
        let kept = if self.kept.is_some() { self.plan.kept_bytes } else { 0 };
        let (used, most) = (domain.memory_bytes(), self.plan.memory_bytes + kept);
        let is_much = used > most.saturating_sub(most / MEMORY_PARTS);
        is_much.then(|| format!("uses {used} bytes of memory of at most {most}"))
    }

    /// Returns the time for the component to answer a ping, in nanoseconds.
    fn answer_limit_ns(&self) -> u64 {
        let factor = match self.now.lock().life.state() {
            State::Starting => START_DEADLINES,
            _ => 1,
        };
        self.plan.ping_deadline_ns.saturating_mul(factor)
    }

    /// Checks for requests that the component has had for too long; `None` if it does not run.
    fn find_overdue(&self) -> Option<String> {
        if self.now.lock().life.state() != State::Running {
            return None;
        }
        let now = time::now();
        let step_max_ns = self.plan.ping_ns.saturating_mul(STEP_PINGS);
        let check = Check { now, limit_ns: self.plan.request_ns, step_max_ns };
        let listeners = self.listeners.lock().clone();
        listeners.iter().find_map(|listener| listener.overdue(&check))
    }

    /// Handles the component's first answer. An error is a listener's complaint.
    fn answered(&self) -> Result<(), String> {
        if self.now.lock().life.state() != State::Starting {
            return Ok(());
        }
        // A listener that comes after the component answers finds it running, and needs not be told.
        let listeners = self.listeners.lock().clone();
        self.change(|now| {
            now.life.answered();
            if let Some(ended) = now.ended.take() {
                now.outage_ns = time::now().since(ended);
            }
        });
        listeners.iter().try_for_each(|listener| listener.started())
    }

    pub(crate) fn order(&self, order: Order) -> Result<(), OrderError> {
        match order {
            Order::Start => self.start_again(),
            Order::Stop => self.stop(),
            Order::Restart => self.end(Why::AskedToRestart, "asked to restart"),
            Order::Kill => self.end(Why::AskedToRestart, "killed on request"),
        }
    }

    fn start_again(&self) -> Result<(), OrderError> {
        let is_new = self.change(|now| {
            let start = time::now();
            let is_new = now.life.asked_to_start(start.0);
            if is_new {
                now.ended = Some(start);
            }
            is_new
        });
        if is_new { Ok(()) } else { Err(OrderError::State) }
    }

    fn stop(&self) -> Result<(), OrderError> {
        // This is one step, because the running domain may have ended, and wait for its next start, a moment later.
        let domain = self.change(|now| match now.life.asked_to_stop() {
            true => Ok(None),
            false => now.ask(Why::AskedToStop).map(Some),
        })?;
        if let Some(domain) = domain {
            domain.kill("asked to stop");
        }
        Ok(())
    }

    /// Ends the running domain, to which the reaction of `why` follows.
    fn end(&self, why: Why, cause: &str) -> Result<(), OrderError> {
        let domain = self.change(|now| now.ask(why))?;
        domain.kill(cause);
        Ok(())
    }

    /// Ends the component if it runs or is being started, and starts it again without the memory that outlives it. Returns when
    /// it has ended.
    pub(crate) fn start_afresh(&self, cause: &str) {
        self.change(|now| now.is_afresh = true);
        let may_come = |now: &Now| {
            matches!(now.life.state(), State::Waiting | State::Starting | State::Running)
        };
        while self.end(Why::AskedToRestart, cause).is_err() {
            self.wait_until(None, |now| now.domain.is_some() || !may_come(now));
            if !may_come(&self.now.lock()) {
                return;
            }
        }
    }

    /// Ends the running domain as a failure, without waiting for that: the caller may be one of its own threads.
    pub(crate) fn blame(&self, cause: &str) {
        if let Some((domain, _)) = self.running() {
            domain.condemn(cause);
        }
    }

    pub(crate) fn status(&self) -> Status {
        let domain = self.now.lock().domain.clone();
        let Usage { memory_bytes, threads, cpu_ns, calls, refused: refused_now } =
            domain.map(|domain| domain.usage()).unwrap_or_default();
        let now = self.now.lock();
        let mut refused = now.refused.clone();
        add_refused(&mut refused, &refused_now);
        Status {
            name: self.plan.name.into(),
            state: now.life.state(),
            started: now.started,
            restarts: now.life.restarts(),
            outage_ns: now.outage_ns,
            memory_bytes,
            memory_bytes_max: self.plan.memory_bytes,
            share_percent: self.plan.share_percent,
            threads,
            cpu_ns,
            calls,
            refused: refused.into_iter().map(|(name, count)| (name.into(), count)).collect(),
            endings: now.endings.iter().map(EndRecord::shown).collect(),
        }
    }
}

//! A network interface in another world: [`NicProxy`] is a [`Nic`] whose driver answers [`super::NicControl`].
//!
//! The proxy keeps packets until the driver says through the ring that they have ended, buffers for reception, and settings.
//! When the driver has died ([`NicProxy::restarted`]), its successor gets the settings, the buffers and the unfinished packets in
//! their old order; among these are packets that the driver itself ended as [`NicError::Restarted`] when it stopped. A driver
//! that breaks the protocol is sent nothing more and is reported to the supervisor. Any other error of a packet is passed on as
//! it is: protocols repair lost packets.
//!
//! The [`Link`]'s lock guards both directions. Sinks are called without locks, on one thread at a time, so packets stay in
//! order.
use super::{
    Ended, Filter, LinkState, MacAddress, Nic, NicError, NicInfo, NicSink, NicStatistics, Offloads,
    Packet, ReceiveBuffer, Received, SendSink,
    control::{FilterMessage, NicControl, NicControlClient},
    entries,
    flights::{self, FlightCounts, Flights, News, ReceiveFaults},
    tell,
};
use crate::{
    AttachError,
    block::RunningDriver,
    call::{Caller, Failure},
    link::{Link, Linked},
    overdue::{Answer, Check, UnderWay, Watch},
};
use alloc::{boxed::Box, format, string::String, sync::Arc, vec::Vec};
use core::sync::atomic::{AtomicUsize, Ordering::*};
use rt::{
    lock_class,
    message::Error,
    ring::{Corrupt, Doorbell},
    sync::{Event, Mutex, MutexGuard},
    thread::{self, Policy},
    time,
};

lock_class! {
    static STATE = "nic.proxy";
    static WATCH = "nic.proxy.watch";
    static SINK = "nic.proxy.sink";
    static SETTINGS = "nic.proxy.settings";
    static NEWS = "nic.proxy.news";
}

/// Nice value of the threads that take news, the same as that of drivers' own: before ordinary programs.
const NEWS_NICE: i8 = -10;
/// Pause before frames that could not be lent are tried again.
const RETRY_NS: u64 = 1_000_000;

/// Settings that a successor of the driver is given.
#[derive(Clone, Debug, Default)]
struct Settings {
    /// Number of changes.
    version: u64,
    mac: Option<MacAddress>,
    filter: Option<FilterMessage>,
    offloads: Option<Offloads>,
    pairs: Option<u16>,
    link: Option<LinkState>,
}

/// A network interface whose driver is in another world.
pub struct NicProxy {
    info: NicInfo,
    control: NicControlClient,
    link: Link<Flights>,
    sink: Mutex<Option<Arc<dyn NicSink>>>,
    settings: Mutex<Settings>,
    /// Calls to take news that were not answered yet; the first caller takes them for all.
    takers: AtomicUsize,
    /// The lists of the caller that takes news, which keep their memory from call to call.
    news: Mutex<News>,
    /// Signalled when frames could not be lent.
    troubled: Event,
    runs: Box<dyn Fn() -> RunningDriver + Send + Sync>,
    watch: Mutex<Watch>,
}

impl NicProxy {
    /// Connects to the interface behind `caller`, whose driver must be running. `on_corrupt` is called when a driver breaks the
    /// protocol; `runs` returns the driver that runs.
    ///
    /// # Errors
    /// [`AttachError`].
    pub fn new(
        caller: Caller,
        on_corrupt: Box<dyn Fn() + Send + Sync>,
        runs: Box<dyn Fn() -> RunningDriver + Send + Sync>,
    ) -> Result<Arc<NicProxy>, AttachError> {
        let control = NicControlClient::new(caller);
        let info = control.call_describe()?.ok_or(AttachError::Lost)?;
        let info = info.info().ok_or(AttachError::Senseless)?;
        let flights = |received| Flights::new(received, &info);
        let link = Link::new(info.name.clone(), &STATE, entries::RINGS, flights, on_corrupt)?;
        let proxy = Arc::new(NicProxy {
            info,
            control,
            link,
            sink: Mutex::new(&SINK, None),
            settings: Mutex::new(&SETTINGS, Settings::default()),
            takers: AtomicUsize::new(0),
            news: Mutex::new(&NEWS, News::default()),
            troubled: Event::new(),
            runs,
            watch: Mutex::new(&WATCH, Watch::default()),
        });
        proxy.restarted()?;
        let name = format!("{}/remote", proxy.info.name);
        let policy = Policy::Fair { nice: NEWS_NICE };
        let (attends, tends) = (proxy.clone(), proxy.clone());
        proxy.link.bell.set_handler(&name, policy, move || attends.take_news())?;
        thread::spawn(&name, policy, move || tends.tend())?;
        Ok(proxy)
    }

    /// Gives the rings, the settings, the buffers and all packets in flight to the successor of a driver that died and cannot
    /// touch the rings any more. Opens a closed interface. Blocks until the successor has taken the rings; the caller repeats it
    /// if the successor dies meanwhile.
    ///
    /// # Errors
    /// [`AttachError`]; packets wait on.
    pub fn restarted(&self) -> Result<(), AttachError> {
        self.control.detach().ok_or(AttachError::Lost)?;
        self.link.restart(
            |rings| {
                self.control.attach(rings)?;
                self.set_again();
                // The running driver is looked up when the driver has the rings.
                Ok((self.runs)())
            },
            Flights::set_driver,
        )?;
        if self.link.lock().traffic.is_refused() {
            self.troubled.signal();
        }
        if let Some(now) = self.control.describe().and_then(|description| description.info()) {
            self.note_link(now.link);
        }
        Ok(())
    }

    /// Gives the driver all settings. What it refuses is logged: its predecessor took it.
    fn set_again(&self) {
        loop {
            let Settings { version, mac, filter, offloads, pairs, .. } =
                self.settings.lock().clone();
            let results = [
                mac.map(|mac| self.control.set_mac(mac)),
                filter.map(|filter| self.control.set_filter(filter)),
                offloads.map(|offloads| self.control.set_offloads(offloads.bits())),
                pairs.map(|pairs| self.control.set_pairs(pairs)),
            ];
            for error in results.into_iter().flatten().filter_map(Result::err) {
                log::error!("{}: a setting is lost: {error:?}", self.info.name);
            }
            if self.settings.lock().version == version {
                return;
            }
        }
    }

    /// Has the driver do `command`, and keeps the setting by `keep` if it did. Repeats the command if another setting was kept
    /// meanwhile, so that the driver has the one that is kept, or if the driver that answered has a successor, which may have got
    /// the old settings.
    fn set(
        &self,
        command: impl Fn() -> Result<(), NicError>,
        keep: impl Fn(&mut Settings),
    ) -> Result<(), NicError> {
        loop {
            let epoch = self.link.lock().epoch();
            let version = self.settings.lock().version;
            command()?;
            {
                let mut settings = self.settings.lock();
                if settings.version != version {
                    continue;
                }
                keep(&mut settings);
                settings.version += 1;
            }
            // A successor that comes after this gets the setting from those that are kept.
            if self.link.lock().epoch() == epoch {
                return Ok(());
            }
        }
    }

    /// Ends every packet with [`NicError::Restarted`] and drops all buffers, until there is another driver
    /// ([`NicProxy::restarted`]).
    pub fn close(&self) {
        self.link.close();
        let mut ended = self.link.lock().traffic.give_up(NicError::Restarted);
        tell(&mut ended, &mut Vec::new());
        self.note_link(LinkState::Down);
    }

    /// Checks for overdue packets. Returns the reason if the driver must be ended because of one. Called once a ping period. A
    /// device without a link may keep packets for ever.
    pub fn overdue(&self, check: &Check) -> Option<String> {
        let see = |linked: &Linked<Flights>| {
            let epoch = linked.epoch_up()?;
            Some((epoch, linked.traffic.oldest(), linked.traffic.next_order()))
        };
        let (epoch, oldest, next) = see(&self.link.lock())?;
        let seen = UnderWay { epoch, oldest: oldest.map(|(order, _)| order), next };
        let age_ns = self.watch.lock().see(check, &seen)?;
        let (_, tag) = oldest?;
        let answer = match self.control.call_is_sending(tag) {
            Ok(Some(true)) if self.link_state() == LinkState::Down => Answer::Patient,
            Ok(Some(true)) => Answer::Has,
            // The rings are about to go to another driver.
            Err(Failure::Lost(Error::Restarted | Error::Gone)) => return None,
            _ => Answer::Denies,
        };
        let now = see(&self.link.lock())?;
        if (now.0, now.1) != (epoch, oldest) {
            return None;
        }
        let cause = self.watch.lock().hear(check, age_ns, answer)?;
        Some(format!("{}: {cause}", self.info.name))
    }

    fn link_state(&self) -> LinkState {
        self.settings.lock().link.unwrap_or(self.info.link)
    }

    fn sink(&self) -> Option<Arc<dyn NicSink>> {
        self.sink.lock().clone()
    }

    /// Notes the state of the link and tells the client if it changed.
    fn note_link(&self, state: LinkState) {
        let before = {
            let mut settings = self.settings.lock();
            settings.link.replace(state).unwrap_or(self.info.link)
        };
        if before != state
            && let Some(sink) = self.sink()
        {
            sink.link(state);
        }
    }

    /// Takes news of the driver and tells the client, until there are none. Called when the driver or another thread has rung. If
    /// a thread is taking news already, it goes on for this one.
    fn take_news(&self) {
        if self.takers.fetch_add(1, AcqRel) > 0 {
            return;
        }
        let mut news = core::mem::take(&mut *self.news.lock());
        let mut calls = 1;
        loop {
            while self.take_some(&mut news) {}
            news.trim();
            // The next caller finds the lists, or allocates its own.
            match self.takers.compare_exchange(calls, 0, AcqRel, Acquire) {
                Ok(_) => break,
                Err(more) => calls = more,
            }
        }
        *self.news.lock() = news;
    }

    /// Takes a batch of news and tells the client. Returns whether there may be more.
    fn take_some(&self, news: &mut News) -> bool {
        let (taken, window, doorbell, is_refused) = {
            let mut linked = self.link.lock();
            let taken = linked.traffic.take(news);
            let doorbell = match linked.traffic.has_unsent() {
                true => linked.send(),
                false => Ok(Doorbell::Silent),
            };
            (taken, linked.traffic.window(), doorbell, linked.traffic.is_refused())
        };
        self.link.answer(doorbell);
        if is_refused {
            self.troubled.signal();
        }
        flights::give_back(&window, &news.ended);
        tell(&mut news.ended, &mut news.batch);
        if let Some(state) = news.link.take() {
            self.note_link(state);
        }
        let sink = self.sink();
        if core::mem::take(&mut news.has_announcement)
            && let Some(sink) = &sink
        {
            sink.announce();
        }
        if !news.received.is_empty() {
            if let Some(sink) = &sink {
                sink.received(&mut news.received);
            }
            // The buffers of packets that the sink left, or that have no sink, are lent again.
            if !news.received.is_empty() {
                self.link.lock().traffic.counts.count_dropped(news.received.len());
            }
            let mut rest = news.received.drain(..).flat_map(Received::into_buffers).collect();
            self.lend(&mut rest);
        }
        match taken {
            Ok(is_all) => !is_all,
            Err(Corrupt) => {
                self.link.break_off();
                false
            }
        }
    }

    fn send(&self, mut linked: MutexGuard<'_, Linked<Flights>>) {
        let doorbell = linked.send();
        let is_refused = linked.traffic.is_refused();
        drop(linked);
        self.link.answer(doorbell);
        if is_refused {
            self.troubled.signal();
        }
    }

    /// Body of the proxy's thread, which never ends: it lends frames again that were refused.
    fn tend(&self) -> ! {
        loop {
            let ticket = self.troubled.ticket();
            let is_refused = self.link.lock().traffic.is_refused();
            let retry = is_refused.then(|| time::now().after_ns(RETRY_NS));
            self.troubled.wait(ticket, retry);
            let linked = self.link.lock();
            if linked.traffic.is_refused() {
                self.send(linked);
            }
        }
    }
}

impl Nic for NicProxy {
    fn info(&self) -> NicInfo {
        let settings = self.settings.lock();
        NicInfo {
            mac: settings.mac.unwrap_or(self.info.mac),
            pairs: settings.pairs.unwrap_or(self.info.pairs),
            link: settings.link.unwrap_or(self.info.link),
            ..self.info.clone()
        }
    }

    fn set_sink(&self, sink: Arc<dyn NicSink>) {
        *self.sink.lock() = Some(sink);
    }

    fn submit(&self, batch: &mut Vec<Packet>, sink: &Arc<dyn SendSink>) {
        let mut refused: Vec<Ended> = Vec::new();
        {
            let mut linked = self.link.lock();
            if linked.is_closed() {
                refused.extend(batch.drain(..).map(|packet| {
                    let Packet { tag, segments, .. } = packet;
                    let result = Err(NicError::Restarted);
                    Ended { sink: sink.clone(), sent: super::Sent { tag, result, segments } }
                }));
            } else {
                linked.traffic.admit(batch, sink, &mut refused);
                self.send(linked);
            }
        }
        tell(&mut refused, &mut Vec::new());
    }

    fn lend(&self, buffers: &mut Vec<ReceiveBuffer>) {
        if buffers.is_empty() {
            return;
        }
        let mut linked = self.link.lock();
        if linked.is_closed() {
            return buffers.clear();
        }
        linked.traffic.lend(buffers);
        self.send(linked);
    }

    fn lend_unused(&self, buffers: &mut Vec<ReceiveBuffer>) {
        let mut linked = self.link.lock();
        if linked.is_closed() {
            return;
        }
        let is_unused = |buffer: &mut ReceiveBuffer| linked.traffic.is_unused(buffer);
        let mut unused: Vec<_> = buffers.extract_if(.., is_unused).collect();
        if !unused.is_empty() {
            linked.traffic.lend(&mut unused);
            self.send(linked);
        }
    }

    fn set_mac(&self, mac: &MacAddress) -> Result<(), NicError> {
        self.set(|| self.control.set_mac(*mac), |settings| settings.mac = Some(*mac))
    }

    fn set_filter(&self, filter: &Filter) -> Result<(), NicError> {
        let filter = FilterMessage::of(filter).ok_or(NicError::Invalid)?;
        self.set(|| self.control.set_filter(filter), |settings| settings.filter = Some(filter))
    }

    fn set_offloads(&self, offloads: Offloads) -> Result<(), NicError> {
        let command = || self.control.set_offloads(offloads.bits());
        self.set(command, |settings| settings.offloads = Some(offloads))
    }

    fn set_pairs(&self, pairs: u16) -> Result<(), NicError> {
        self.set(|| self.control.set_pairs(pairs), |settings| settings.pairs = Some(pairs))
    }

    fn statistics(&self) -> NicStatistics {
        let epoch = self.link.lock().epoch();
        let of_driver = self.control.statistics();
        let counts = {
            let mut linked = self.link.lock();
            // The counts of a driver that has a successor by now are not the successor's.
            if let Some(now) = of_driver.filter(|_| linked.epoch() == epoch) {
                let faults =
                    ReceiveFaults { errors: now.receive_errors, dropped: now.receive_dropped };
                linked.traffic.counts.note(faults);
            }
            linked.traffic.counts
        };
        let FlightCounts { sent_packets, sent_bytes, send_errors, .. } = counts;
        let FlightCounts { received_packets, received_bytes, .. } = counts;
        let ReceiveFaults { errors, dropped } = counts.faults();
        NicStatistics {
            sent_packets,
            sent_bytes,
            send_errors,
            received_packets,
            received_bytes,
            receive_errors: errors,
            receive_dropped: dropped,
        }
    }
}

impl core::fmt::Debug for NicProxy {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("NicProxy").field("info", &self.info).finish_non_exhaustive()
    }
}

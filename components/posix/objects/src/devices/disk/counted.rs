//! A block device that counts its requests, for `/proc/diskstats` and `/sys/block`.
use alloc::{format, string::String, sync::Arc, vec::Vec};
use core::sync::atomic::{AtomicU64, Ordering};
use interfaces::block::{
    Block, BlockError, BlockInfo, BlockSink, Operation, Request, SECTOR_BYTES, Sequence,
};
use rt::time::Instant;

const MILLISECOND_NS: u64 = 1_000_000;

/// The counters of one kind of request.
#[derive(Debug, Default)]
struct Row {
    requests: AtomicU64,
    sectors: AtomicU64,
    time_ns: AtomicU64,
}

impl Row {
    /// Counts a request of `sectors` sectors that took `time_ns`.
    fn add(&self, sectors: u64, time_ns: u64) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.sectors.fetch_add(sectors, Ordering::Relaxed);
        self.time_ns.fetch_add(time_ns, Ordering::Relaxed);
    }
}

/// The counters of one device.
#[derive(Debug, Default)]
pub struct Statistics {
    reads: Row,
    writes: Row,
    discards: Row,
    flushes: Row,
    in_flight: AtomicU64,
    /// Time since which a request has been in flight.
    busy_since_ns: AtomicU64,
    busy_ns: AtomicU64,
}

impl Statistics {
    fn row(&self, operation: Operation) -> &Row {
        match operation {
            Operation::Read => &self.reads,
            Operation::Flush => &self.flushes,
            Operation::Discard { .. } => &self.discards,
            _ => &self.writes,
        }
    }
    fn begin(&self, count: u64, now: Instant) {
        if self.in_flight.fetch_add(count, Ordering::Relaxed) == 0 {
            self.busy_since_ns.store(now.0, Ordering::Relaxed);
        }
    }
    fn end(&self, now: Instant) {
        if self.in_flight.fetch_sub(1, Ordering::Relaxed) == 1 {
            let busy = now.0.saturating_sub(self.busy_since_ns.load(Ordering::Relaxed));
            self.busy_ns.fetch_add(busy, Ordering::Relaxed);
        }
    }
    /// Returns the numbers of sectors read and written since the start.
    pub fn sectors(&self) -> (u64, u64) {
        let load = |row: &Row| row.sectors.load(Ordering::Relaxed);
        (load(&self.reads), load(&self.writes))
    }
    /// Returns the columns of `/proc/diskstats` after the name: reads, writes, in flight, discards,
    /// flushes.
    pub fn columns(&self) -> String {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let ms = |count: &AtomicU64| load(count) / MILLISECOND_NS;
        let row = |row: &Row| {
            format!("{} 0 {} {}", load(&row.requests), load(&row.sectors), ms(&row.time_ns))
        };
        let rows = [&self.reads, &self.writes, &self.discards, &self.flushes];
        let waited: u64 = rows.iter().map(|row| ms(&row.time_ns)).sum();
        format!(
            "{} {} {} {} {waited} {} {} {}",
            row(&self.reads),
            row(&self.writes),
            load(&self.in_flight),
            ms(&self.busy_ns),
            row(&self.discards),
            load(&self.flushes.requests),
            ms(&self.flushes.time_ns),
        )
    }
}

/// A block device with counters.
pub struct Counted {
    inner: Arc<dyn Block>,
    statistics: Arc<Statistics>,
}

impl Counted {
    /// Makes a device that counts the requests of `inner`.
    pub fn new(inner: Arc<dyn Block>) -> Counted {
        Counted { inner, statistics: Arc::default() }
    }
    /// Counts `requests` as begun. The returned sink counts them as they end, and passes each end on
    /// to `sink`.
    fn count(&self, requests: &[Request], sink: &Arc<dyn BlockSink>) -> Arc<dyn BlockSink> {
        let started = rt::time::now();
        self.statistics.begin(requests.len() as u64, started);
        let requests =
            requests.iter().map(|request| (request.tag, request.operation, sectors(request)));
        Arc::new(CountingSink {
            sink: sink.clone(),
            statistics: self.statistics.clone(),
            started,
            requests: requests.collect(),
        })
    }
    /// Returns the counters.
    pub fn statistics(&self) -> &Arc<Statistics> {
        &self.statistics
    }
}

impl Block for Counted {
    fn info(&self) -> BlockInfo {
        self.inner.info()
    }
    fn submit(&self, batch: &mut Vec<Request>, sink: &Arc<dyn BlockSink>) {
        let counting = self.count(batch, sink);
        self.inner.submit(batch, &counting);
    }
    fn offer(&self, request: Request, sink: &Arc<dyn BlockSink>) -> Result<(), Request> {
        let counting = self.count(core::slice::from_ref(&request), sink);
        let offered = self.inner.offer(request, &counting);
        offered.inspect_err(|_| self.statistics.end(rt::time::now()))
    }
    fn start(&self, sequence: Sequence, sink: &Arc<dyn BlockSink>) -> Result<(), Sequence> {
        let started = rt::time::now();
        let requests = sequence.requests().map(|request| (request.operation, sectors(request)));
        let counting: Arc<dyn BlockSink> = Arc::new(SequenceSink {
            sink: sink.clone(),
            statistics: self.statistics.clone(),
            started,
            requests: requests.collect(),
        });
        self.statistics.begin(1, started);
        let started = self.inner.start(sequence, &counting);
        started.inspect_err(|_| self.statistics.end(rt::time::now()))
    }
}

fn sectors(request: &Request) -> u64 {
    match request.operation {
        Operation::Discard { sectors } => sectors,
        _ => {
            let bytes =
                request.segments.iter().map(|segment| u64::from(segment.length)).sum::<u64>();
            bytes / SECTOR_BYTES as u64
        }
    }
}

/// A sink that counts the requests of a sequence when it ends. Each gets its share of the time.
struct SequenceSink {
    sink: Arc<dyn BlockSink>,
    statistics: Arc<Statistics>,
    started: Instant,
    requests: Vec<(Operation, u64)>,
}

impl BlockSink for SequenceSink {
    fn completed(&self, tag: u64, result: Result<(), BlockError>) {
        let now = rt::time::now();
        let part_ns = now.since(self.started) / self.requests.len().max(1) as u64;
        for (operation, sectors) in &self.requests {
            self.statistics.row(*operation).add(*sectors, part_ns);
        }
        self.statistics.end(now);
        self.sink.completed(tag, result);
    }
}

/// A sink that counts the requests of one batch as they end.
struct CountingSink {
    sink: Arc<dyn BlockSink>,
    statistics: Arc<Statistics>,
    started: Instant,
    requests: Vec<(u64, Operation, u64)>,
}

impl BlockSink for CountingSink {
    fn completed(&self, tag: u64, result: Result<(), BlockError>) {
        let now = rt::time::now();
        if let Some((_, operation, sectors)) =
            self.requests.iter().find(|(known, ..)| *known == tag)
        {
            self.statistics.row(*operation).add(*sectors, now.since(self.started));
        }
        self.statistics.end(now);
        self.sink.completed(tag, result);
    }
}

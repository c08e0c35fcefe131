//! The server's side of taps ([`super`]).
use super::{FRAME_MAX, FrameHead, SetAnswer, TapNews, TapRequest, TapSettings};
use crate::{
    marshal::{self, Marshal},
    sockets::{
        FrameTap, LinkMembership, LinkTap, LinkTaps, SeenFrame, SocketError, TapBinding,
        remote::{ControlHandler, Post},
    },
};
use alloc::{collections::BTreeMap, sync::Arc, vec::Vec};
use labels::SecrecyId;
use rt::{lock_class, sync::Mutex};

lock_class! {
    static TAPS = "tap.service";
    static FAILURE = "tap.failure";
}

/// Bytes of a frame's news beside those of the frame, about.
const HEAD_BYTES: usize = 64;

/// An error that a tap was told of while its settings were made.
#[derive(Default)]
struct HeldFailure {
    /// Settings are being made: the answer tells the error.
    is_awaited: bool,
    error: Option<SocketError>,
}

/// Posts what a tap sees.
struct TapReporter {
    tap: u64,
    failure: Mutex<HeldFailure>,
    post: Post,
}

impl FrameTap for TapReporter {
    fn see(&self, frame: &SeenFrame<'_>) {
        let length = frame.bytes.length();
        if length > FRAME_MAX {
            return;
        }
        let head = FrameHead {
            interface: frame.interface,
            hardware: frame.hardware,
            kind: frame.kind,
            protocol: frame.protocol,
            source: frame.source,
            link_length: frame.link_length,
            checksum: frame.checksum,
            at_ns: frame.at_ns,
        };
        let mut bytes = Vec::new();
        if bytes.try_reserve_exact(HEAD_BYTES + length).is_err() {
            return;
        }
        (self.tap, TapNews::Frame(head)).put(&mut bytes);
        let start = bytes.len();
        bytes.resize(start + length, 0);
        let room = bytes.get_mut(start..).unwrap_or_default();
        if frame.bytes.read(0, room) {
            (self.post)(&bytes);
        }
    }
    fn failed(&self, error: SocketError) {
        let mut failure = self.failure.lock();
        if failure.is_awaited {
            failure.error = Some(error);
        } else {
            drop(failure);
            (self.post)(&marshal::encode(&(self.tap, TapNews::Failed(error))));
        }
    }
}

/// A tap that is open.
struct OpenTap {
    tap: Arc<dyn LinkTap>,
    reporter: Arc<TapReporter>,
    binding: TapBinding,
    memberships: Vec<(u32, LinkMembership)>,
}

impl OpenTap {
    /// Makes what differs from the settings. Returns the first error.
    fn set(&mut self, settings: TapSettings) -> Result<(), SocketError> {
        let mut result = Ok(());
        let mut added = settings.memberships;
        let tap = &self.tap;
        self.memberships.retain(|one| {
            if let Some(place) = added.iter().position(|other| other == one) {
                added.swap_remove(place);
                return true;
            }
            tap.leave(one.0, one.1);
            false
        });
        for one in added {
            match tap.join(one.0, one.1) {
                Ok(()) => self.memberships.push(one),
                error => result = result.and(error),
            }
        }
        if settings.binds || self.binding != settings.binding {
            match tap.bind(settings.binding) {
                Ok(()) => self.binding = settings.binding,
                error => result = result.and(error),
            }
        }
        result
    }
}

/// Gives requests to the taps of a stack.
///
/// Locks: `tap.service`, over calls of the taps' settings > locks of the stack > `tap.failure`.
pub struct TapService {
    maker: Arc<dyn LinkTaps>,
    post: Post,
    taps: Mutex<BTreeMap<u64, OpenTap>>,
}

impl TapService {
    /// Serves the taps that `maker` makes. What they see is sent by `post`, which may be called by several threads at once.
    pub fn new(maker: Arc<dyn LinkTaps>, post: Post) -> TapService {
        TapService { maker, post, taps: Mutex::new(&TAPS, BTreeMap::new()) }
    }

    fn set(&self, settings: TapSettings) -> SetAnswer {
        let mut taps = self.taps.lock();
        let open = taps.entry(settings.tap).or_insert_with(|| {
            let failure = Mutex::new(&FAILURE, HeldFailure::default());
            let (tap, post) = (settings.tap, self.post.clone());
            let reporter = Arc::new(TapReporter { tap, failure, post });
            OpenTap {
                tap: self.maker.open(reporter.clone(), SecrecyId::NONE),
                reporter,
                binding: TapBinding::default(),
                memberships: Vec::new(),
            }
        });
        open.reporter.failure.lock().is_awaited = true;
        let result = open.set(settings);
        let failed = core::mem::take(&mut *open.reporter.failure.lock()).error;
        SetAnswer { result, failed }
    }

    fn close(&self, tap: u64) -> bool {
        let closed = self.taps.lock().remove(&tap);
        if let Some(open) = closed {
            open.tap.close();
        }
        true
    }

    fn find(&self, tap: u64) -> Option<Arc<dyn LinkTap>> {
        self.taps.lock().get(&tap).map(|open| open.tap.clone())
    }
}

impl ControlHandler for TapService {
    fn handle(&self, request: &[u8], answer: &mut Vec<u8>) {
        match marshal::decode(request) {
            None => {}
            Some(TapRequest::Set(settings)) => self.set(settings).put(answer),
            Some(TapRequest::Send(tap, frame)) => {
                self.find(tap).map(|tap| tap.send(frame)).put(answer);
            }
            Some(TapRequest::Close(tap)) => self.close(tap).put(answer),
        }
    }
}

//! The component `actor`, which does operations on capabilities as calls tell it. The nucleus's tests give, move and take
//! back with it (`tests/nucleus`).
#![cfg_attr(all(target_os = "none", skerry_process), no_std, no_main)]
#![forbid(unsafe_code)]

#[cfg(all(target_os = "none", skerry_process))]
mod component {
    use alloc::{collections::VecDeque, sync::Arc, vec::Vec};
    use bench::actor::*;
    use core::sync::atomic::{AtomicU64, Ordering::SeqCst};
    use rt::{
        memory::{self, Frame, FrameId, Region},
        message::{self, Capability, Derivation, Endpoint, Message, Rights},
        thread::{self, Policy, Woken},
        window::{Access, CopyError, View, Window},
    };
    extern crate alloc;

    #[derive(Default)]
    struct Actor {
        region: Option<Region>,
        endpoint: Option<Endpoint>,
        derivation: Option<Derivation>,
        window: Option<Window>,
        view: Option<View>,
        frames: VecDeque<Frame>,
        results: Arc<AtomicU64>,
    }

    fn error_number(result: Result<(), message::Error>) -> u64 {
        result.map_or_else(|error| error as u64, |()| 0)
    }

    fn copy_error(error: CopyError) -> u64 {
        match error {
            CopyError::Gone => COPY_GONE,
            CopyError::Fault => COPY_FAULT,
        }
    }

    fn start(body: impl FnOnce() + Send + 'static) -> u64 {
        thread::spawn("helper", Policy::Fair { nice: 0 }, body).map_or(0, |_| 1)
    }

    impl Actor {
        fn word(&self) -> Option<&AtomicU64> {
            self.region.as_ref()?.words().first()
        }

        fn held(&self) -> Option<Capability> {
            let endpoint = self.endpoint.clone().map(Capability::Endpoint);
            endpoint.or_else(|| self.region.clone().map(Capability::Region))
        }

        /// Calls, sends or receives at its endpoint, in a thread of its own.
        fn meet(&self, order: u64) -> Option<u64> {
            let (endpoint, results) = (self.endpoint.clone()?, self.results.clone());
            Some(start(move || {
                let mut message = Message::new(order);
                let deadline = Some(rt::time::now().after_ns(60_000_000_000));
                let result = match order {
                    CALL => endpoint.call(&mut message, None),
                    CALL_WITH_DEADLINE => endpoint.call(&mut message, deadline),
                    _ => endpoint.receive(&mut message, None),
                };
                results.fetch_add(error_number(result) + RESULT_UNIT, SeqCst);
            }))
        }

        fn open(&mut self, word: u64) -> Option<Capability> {
            let access = Access { can_read: word & 4 != 0, can_write: word & 2 != 0 };
            self.window = Some(Window::open(self.region.as_ref()?, 8, 56, access).ok()?);
            self.window.as_ref().map(Window::capability)
        }

        fn copy_from(&self, offset: u64) -> Option<u64> {
            let mut word = [0; 8];
            let copied = self.view.as_ref()?.read(offset as usize, &mut word);
            Some(copied.map_or_else(copy_error, |()| u64::from_le_bytes(word)))
        }

        fn copy_to(&self, offset: u64, word: u64) -> Option<u64> {
            let copied = self.view.as_ref()?.write(offset as usize, &word.to_le_bytes());
            Some(copied.map_or_else(copy_error, |()| 0))
        }

        fn call_long(&self) -> Option<u64> {
            let endpoint = self.endpoint.as_ref()?;
            let is_right = |length: &u64| {
                let mut message = Message::new(LONG);
                let is_whole = (0..*length).all(|word| message.push(word * 3 + length));
                let called = endpoint.call(&mut message, None);
                let wanted = (0..*length).map(|word| word * 3 + length + 1);
                is_whole && called.is_ok() && message.words().iter().copied().eq(wanted)
            };
            Some((0..=64).filter(is_right).count() as u64)
        }

        fn copy_on(&self) -> Option<u64> {
            let (view, results) = (self.view.clone()?, self.results.clone());
            Some(start(move || {
                let counted = (1_u64..).map(|count| view.write(0, &count.to_le_bytes()));
                let ended = counted.into_iter().find_map(Result::err);
                results.fetch_add(u64::from(ended == Some(CopyError::Gone)) + RESULT_UNIT, SeqCst);
            }))
        }

        fn copy_lists(&self, change: u64) -> Option<u64> {
            let view = self.view.as_ref()?;
            let mut words = [[0; 8]; 3];
            let mut pieces: Vec<(usize, &mut [u8])> =
                words.iter_mut().enumerate().map(|(at, word)| (at * 8, &mut word[..])).collect();
            if let Err(error) = view.read_all(&mut pieces) {
                return Some(copy_error(error));
            }
            let words = words.map(|word| u64::from_le_bytes(word) ^ change);
            let bytes = words.map(u64::to_le_bytes);
            let pieces: Vec<(usize, &[u8])> =
                bytes.iter().enumerate().map(|(at, word)| (24 + at * 8, &word[..])).collect();
            Some(view.write_all(&pieces).map_or_else(copy_error, |()| words.iter().sum()))
        }

        /// Carries out an order: its result, and the capability that goes back with it.
        fn answer(
            &mut self,
            label: u64,
            words: [u64; 2],
            came: Option<Capability>,
        ) -> (Option<u64>, Option<Capability>) {
            let mut along = None;
            let done = match label {
                GIVE => self.held().and_then(|held| {
                    let [word, _] = words;
                    let rights = Rights { can_serve: word & 1 != 0, can_write: word & 2 != 0 };
                    let derivation = Derivation::new(&held, rights, BADGE).ok()?;
                    along = Some(derivation.capability());
                    self.derivation = Some(derivation);
                    Some(1)
                }),
                // As a copy, or moved where nobody else here has it.
                COPY => self.held().map(|held| {
                    along = Some(held);
                    1
                }),
                MOVE => {
                    let region = self.region.take().map(Capability::Region);
                    along = region.or_else(|| self.endpoint.take().map(Capability::Endpoint));
                    along.as_ref().map(|_| 1)
                }
                OPEN => self.open(words[0]).map(|window| {
                    along = Some(window);
                    1
                }),
                TAKE => came.map(|came| self.take(came)),
                _ => self.act(label, words),
            };
            (done, along)
        }

        /// Keeps a capability that came; the number of its kind.
        fn take(&mut self, came: Capability) -> u64 {
            match came {
                Capability::Region(region) => {
                    self.region = Some(region);
                    1
                }
                Capability::Endpoint(endpoint) => {
                    self.endpoint = Some(endpoint);
                    2
                }
                Capability::View(view) => {
                    self.view = Some(view);
                    3
                }
            }
        }

        fn attach(&mut self, first: u64) -> Option<u64> {
            memory::attach_pool(self.region.take()?, FrameId(first as u32)).ok().map(|()| 1)
        }

        fn hand(&mut self, number: u64, offset: u64) -> Option<u64> {
            let mut frame = Frame::handed(FrameId(number as u32))?;
            let (mut word, own) = ([0; 8], Frame::zeroed().ok()?);
            frame.zero(0, rt::PAGE_BYTES);
            frame.copy_from(&own);
            let is_same = frame.write(0, &[1]) == 0 && frame.exclusive().is_none();
            own.copy_from(&frame);
            let is_read = own.read(offset as usize, &mut word) + frame.read(5, &mut [0; 11]) == 19;
            self.frames.push_back(frame);
            (is_same && is_read).then_some(u64::from_le_bytes(word))
        }

        fn released() -> u64 {
            let mut all = 0;
            memory::take_released(&mut |frame, handings| {
                all += u64::from(frame.0) * RESULT_UNIT + u64::from(handings);
            });
            all
        }

        /// Carries out an order that concerns only the capabilities it has.
        fn act(&mut self, label: u64, [word, second]: [u64; 2]) -> Option<u64> {
            match label {
                NEW_REGION => Region::new(4096).ok().map(|region| {
                    self.region = Some(region);
                    1
                }),
                NEW_ENDPOINT => Endpoint::new().ok().map(|endpoint| {
                    self.endpoint = Some(endpoint);
                    1
                }),
                TAKE_BACK => self.derivation.take().map(|_| 1),
                SHUT => self.window.take().map(|_| 1),
                COPY_FROM => self.copy_from(word),
                COPY_TO => self.copy_to(word, second),
                COPY_LISTS => self.copy_lists(word),
                COPY_ON => self.copy_on(),
                CALL_LONG => self.call_long(),
                READ => {
                    let words = self.region.as_ref().map(Region::words);
                    words.and_then(|words| words.get(word as usize)).map(|at| at.load(SeqCst))
                }
                WAKE => self.region.as_ref().map(|region| {
                    region.wake(word as usize);
                    0
                }),
                WAIT => self.region.as_ref().map(|region| {
                    let now = Some(rt::time::now());
                    let woken = region.wait(word as usize, second as u32, now);
                    u64::from(woken == Woken::Signalled)
                }),
                PASS => self.region.clone().map(|region| {
                    let turn = |mine| {
                        let region = region.clone();
                        start(move || pass(&region, word as usize, mine))
                    };
                    turn(0) + turn(1)
                }),
                WRITE => self.word().map(|at| at.swap(word, SeqCst)),
                WATCH => self.region.clone().map(|region| start(move || watch(&region))),
                CALL | CALL_WITH_DEADLINE | RECEIVE => self.meet(label),
                RESULTS => Some(self.results.load(SeqCst)),
                FAIL_TO_SEND => self.fail_to_send(),
                ATTACH => self.attach(word),
                HAND => self.hand(word, second),
                DROP => self.frames.pop_front().map(|frame| u64::from(frame.references())),
                RELEASED => Some(Actor::released()),
                _ => None,
            }
        }

        /// Sends its capability, which is not received. Returns whether it still has it.
        fn fail_to_send(&mut self) -> Option<u64> {
            let nobody = Endpoint::new().ok()?;
            let mut message = Message::new(0);
            message.capability = Some(Capability::Region(self.region.take()?));
            let result = nobody.send(&mut message, Some(rt::time::now()));
            let Some(Capability::Region(region)) = message.capability.take() else { return None };
            self.region = Some(region);
            Some(error_number(result))
        }
    }

    /// Looks at the region until somebody writes [`SEEN_TOO_LATE`] there.
    fn watch(region: &Region) {
        let at: Vec<&AtomicU64> = region.words().iter().take(1).collect();
        while at.iter().all(|at| at.load(SeqCst) != SEEN_TOO_LATE) {
            core::hint::spin_loop();
        }
        panic!("seen after it was revoked");
    }

    /// Waits until the word says that it is the turn of `mine`, and gives the turn to the other thread.
    fn pass(region: &Region, at: usize, mine: u64) {
        let Some(word) = region.words().get(at) else { return };
        loop {
            while word.load(SeqCst) != mine {
                region.wait(at, (1 - mine) as u32, None);
            }
            word.store(1 - mine, SeqCst);
            region.wake(at);
        }
    }

    fn main() {
        let service = message::service();
        let mut actor = Actor::default();
        let mut message = Message::new(0);
        let mut received = service.receive(&mut message, None);
        while received.is_ok() {
            if message.label() == LONG {
                let words = message.words().to_vec();
                message.reset(0);
                let _ = words.iter().all(|word| message.push(word.wrapping_add(1)));
                received = service.reply_and_receive(&mut message, None);
                continue;
            }
            let words = [0, 1].map(|at| message.words().get(at).copied().unwrap_or(0));
            let (done, along) = actor.answer(message.label(), words, message.capability.take());
            message.reset(u64::from(done.is_none()));
            let _ = message.push(done.unwrap_or(0));
            message.capability = along;
            received = service.reply_and_receive(&mut message, None);
        }
    }

    rt::component_main!(main);
}

#[cfg(not(all(target_os = "none", skerry_process)))]
fn main() {}

//! Does with capabilities what it is told by calls: the nucleus's tests give, move and take back with it (`tests/nucleus`).
#![cfg_attr(all(target_os = "none", skerry_process), no_std, no_main)]
#![forbid(unsafe_code)]

#[cfg(all(target_os = "none", skerry_process))]
mod component {
    use alloc::{sync::Arc, vec::Vec};
    use bench::actor::*;
    use core::sync::atomic::{AtomicU64, Ordering::SeqCst};
    use rt::{
        memory::Region,
        message::{self, Capability, Endpoint, Gift, Message, Rights},
        thread::{self, Policy},
    };
    extern crate alloc;

    #[derive(Default)]
    struct Actor {
        region: Option<Region>,
        endpoint: Option<Endpoint>,
        gift: Option<Gift>,
        results: Arc<AtomicU64>,
    }

    fn error_number(result: Result<(), message::Error>) -> u64 {
        result.map_or_else(|error| error as u64, |()| 0)
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

        /// Calls, sends or receives by the endpoint it has, in a thread of its own.
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

        fn answer(&mut self, label: u64, word: u64, came: Option<Capability>) -> Answer {
            let mut along = None;
            let done = match label {
                NEW_REGION => Region::new(4096).ok().map(|region| {
                    self.region = Some(region);
                    1
                }),
                NEW_ENDPOINT => Endpoint::new().ok().map(|endpoint| {
                    self.endpoint = Some(endpoint);
                    1
                }),
                GIVE => self.held().and_then(|held| {
                    let rights = Rights { can_serve: word & 1 != 0, can_write: word & 2 != 0 };
                    let gift = Gift::new(&held, rights, BADGE).ok()?;
                    along = Some(gift.capability());
                    self.gift = Some(gift);
                    Some(1)
                }),
                TAKE_BACK => self.gift.take().map(|_| 1),
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
                TAKE => match came {
                    Some(Capability::Region(region)) => {
                        self.region = Some(region);
                        Some(1)
                    }
                    Some(Capability::Endpoint(endpoint)) => {
                        self.endpoint = Some(endpoint);
                        Some(2)
                    }
                    None => None,
                },
                READ => self.word().map(|at| at.load(SeqCst)),
                WRITE => self.word().map(|at| at.swap(word, SeqCst)),
                WATCH => self.region.clone().map(|region| start(move || watch(&region))),
                CALL | CALL_WITH_DEADLINE | RECEIVE => self.meet(label),
                RESULTS => Some(self.results.load(SeqCst)),
                FAIL_TO_SEND => self.fail_to_send(),
                _ => None,
            };
            (done, along)
        }

        /// Sends what it has, which nobody receives; whether it has it still.
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

    type Answer = (Option<u64>, Option<Capability>);

    /// Looks at the region until somebody writes [`SEEN_TOO_LATE`] there.
    fn watch(region: &Region) {
        let at: Vec<&AtomicU64> = region.words().iter().take(1).collect();
        while at.iter().all(|at| at.load(SeqCst) != SEEN_TOO_LATE) {
            core::hint::spin_loop();
        }
        panic!("seen after it was taken back");
    }

    fn main() {
        let service = message::service();
        let mut actor = Actor::default();
        let mut message = Message::new(0);
        let mut received = service.receive(&mut message, None);
        while received.is_ok() {
            let word = message.words().first().copied().unwrap_or(0);
            let (done, along) = actor.answer(message.label(), word, message.capability.take());
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

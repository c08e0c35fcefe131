//! Tests of the driver against a model source.
use crate::{EntropySource, health::STARTUP};
use interfaces::entropy::Entropy;
use std::{
    collections::HashSet,
    sync::{Arc, Mutex},
};
use virtio::{
    Candidate,
    model::{Behaviour, Model},
};

/// The device's answer to a buffer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Answer {
    /// The device writes this many random bytes.
    Random(usize),
    /// The device fills the buffer with one value.
    Constant,
    /// The device claims to have filled the buffer, but has written nothing.
    Lie,
    /// The device returns the buffer with no byte.
    Nothing,
    /// The device does not answer.
    Silence,
    /// The device returns a chain that it was not given.
    Stray,
}

/// The device's side.
struct Host {
    answer: Arc<Mutex<Answer>>,
}

impl Behaviour for Host {
    fn notified(&self, model: &Model, queue: u16) {
        let answer = *self.answer.lock().unwrap();
        if answer == Answer::Silence {
            return;
        }
        let chain = model.pop(queue).expect("a buffer");
        match answer {
            Answer::Random(count) => {
                let mut bytes = vec![0; count];
                rt::entropy::fill(&mut bytes);
                model.push(queue, &chain, chain.write(0, &bytes) as u32);
            }
            Answer::Constant => model.push(queue, &chain, chain.write(0, &[0x5a; 256]) as u32),
            Answer::Lie => model.push(queue, &chain, 256),
            Answer::Nothing => model.push(queue, &chain, 0),
            Answer::Stray => model.tamper(queue, 77, 16),
            Answer::Silence => {}
        }
    }
}

/// Plugs in a source with a page of registers at `base`. Returns it with its answer, which the test
/// may change.
fn source(
    base: u64,
    answer: Answer,
) -> (Arc<EntropySource>, Arc<Mutex<Answer>>, rt::host::Plugged) {
    let answer = Arc::new(Mutex::new(answer));
    let host = Box::new(Host { answer: answer.clone() });
    let model = Model::new(virtio::kind::ENTROPY, 0, Vec::new(), (1, 8), host);
    // Each source has its own interrupt line, because the tests share a machine.
    let (device, plugged) = model.plug_mmio(base, (base >> 12) as u32);
    (EntropySource::open(Candidate::Mmio(device)).expect("a source"), answer, plugged)
}

#[test]
fn every_seed_is_another() {
    let (source, _, _plugged) = source(0x1000, Answer::Random(256));
    let seeds: HashSet<_> = (0..100).map(|_| source.seed().expect("a seed")).collect();
    assert_eq!(seeds.len(), 100);
}

#[test]
fn a_device_that_gives_little_at_a_time_is_asked_on() {
    let (source, _, _plugged) = source(0x2000, Answer::Random(7));
    assert!(source.seed().is_some());
}

#[test]
fn a_source_that_fails_its_tests_gives_nothing_until_it_passes_them_again() {
    let (source, answer, _plugged) = source(0x3000, Answer::Constant);
    assert_eq!(source.seed(), None);
    *answer.lock().unwrap() = Answer::Random(256);
    let first = source.seed().expect("a seed");
    for wrong in [Answer::Lie, Answer::Constant] {
        *answer.lock().unwrap() = wrong;
        // Seeds that passed before may be left; none of them is handed out twice.
        let left: HashSet<_> = std::iter::from_fn(|| source.seed()).collect();
        assert!(left.len() < STARTUP as usize / 32 && !left.contains(&first));
        *answer.lock().unwrap() = Answer::Random(256);
        assert!(source.seed().is_some());
    }
}

#[test]
fn a_device_that_gives_nothing_is_not_waited_for_for_ever() {
    for (base, answer) in [(0x4000, Answer::Nothing), (0x5000, Answer::Silence)] {
        let (source, _, _plugged) = source(base, answer);
        assert_eq!(source.seed(), None);
    }
}

#[test]
fn a_device_that_breaks_the_protocol_is_given_up() {
    let (source, answer, _plugged) = source(0x6000, Answer::Stray);
    assert_eq!(source.seed(), None);
    *answer.lock().unwrap() = Answer::Random(256);
    assert_eq!(source.seed(), None);
}

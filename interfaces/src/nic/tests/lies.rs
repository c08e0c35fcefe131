//! Tests of drivers and clients that lie.
use super::card::*;
use crate::{
    AttachError,
    block::RunningDriver,
    call::Caller,
    link::Rings,
    nic::{
        Nic, NicControl, NicControlServer, NicDescription, NicError, NicProxy, NicService,
        NicStatistics, SendSink,
        control::{FilterMessage, MacBytes},
        entries::{BackEntry, ForthEntry, RINGS},
    },
    service,
};
use proptest::prelude::*;
use rt::{host, memory::Region, message::Endpoint, ring::Producer};
use std::{
    boxed::Box,
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    thread,
};
use zerocopy::{FromBytes, IntoBytes};

/// A driver that writes whatever the test says.
#[derive(Default)]
struct Liar {
    rings: Mutex<Option<(Rings, Producer<rt::ring::Part, BackEntry>)>>,
}

impl Liar {
    fn say(&self, entry: &BackEntry) {
        let mut rings = self.rings.lock().unwrap();
        let (rings, news) = rings.as_mut().unwrap();
        let _ = news.push(entry);
        rings.back.consumer_bell().ring();
    }
}

impl NicControl for Liar {
    fn describe(&self) -> Option<NicDescription> {
        Some(NicDescription::of(&info()))
    }
    fn detach(&self) -> Option<()> {
        Some(())
    }
    fn attach(&self, rings: Region) -> Result<(), AttachError> {
        let rings = Rings::of(rings, RINGS)?;
        let (news, _) = rings.driver::<BackEntry, ForthEntry>()?;
        *self.rings.lock().unwrap() = Some((rings, news));
        Ok(())
    }
    fn is_sending(&self, _: u64) -> Option<bool> {
        Some(false)
    }
    fn set_mac(&self, _: MacBytes) -> Result<(), NicError> {
        Ok(())
    }
    fn set_filter(&self, _: FilterMessage) -> Result<(), NicError> {
        Ok(())
    }
    fn set_offloads(&self, _: u32) -> Result<(), NicError> {
        Ok(())
    }
    fn set_pairs(&self, _: u16) -> Result<(), NicError> {
        Ok(())
    }
    fn statistics(&self) -> Option<NicStatistics> {
        None
    }
}

/// Runs `say` on a driver that lies about 8 packets and 8 buffers. Returns how often it was reported, and checks that everything
/// ended once and no loan is left.
fn lied_to(say: impl FnOnce(&Liar)) -> usize {
    hear(say, true)
}

/// Does what [`lied_to`] does; the last word, which is always wrong, is said only if `is_last_wrong`.
fn hear(say: impl FnOnce(&Liar), is_last_wrong: bool) -> usize {
    let endpoint = Endpoint::new().unwrap();
    let liar = Arc::new(Liar::default());
    let (served, at) = (NicControlServer::new("eth0", liar.clone()), endpoint.clone());
    let serving = thread::spawn(move || service::run(&at, &[served]).unwrap());
    let reported = Arc::new(AtomicUsize::new(0));
    let told = reported.clone();
    let on_corrupt = Box::new(move || {
        told.fetch_add(1, SeqCst);
    });
    let window = host::recording_window();
    let known = window.clone();
    let runs = Box::new(move || RunningDriver { window: known.clone(), generation: Some(1) });
    let caller = Caller::new(endpoint.clone(), 0, None);
    let proxy = NicProxy::new(caller, on_corrupt, runs).unwrap();
    let sink = Arc::new(Sink::default());
    proxy.set_sink(sink.clone());
    let told: Arc<dyn SendSink> = sink.clone();
    let mut buffers = (0..8)
        .map(|number| crate::nic::ReceiveBuffer {
            number,
            frame: rt::memory::Frame::zeroed().unwrap(),
        })
        .collect();
    proxy.lend(&mut buffers);
    proxy.submit(&mut (0..8).map(|number| packet(number, 2)).collect(), &told);
    say(&liar);
    if is_last_wrong {
        liar.say(&BackEntry::read_from_bytes(&[0xff; 40]).unwrap());
    }
    wait_until(|| reported.load(SeqCst) > 0);
    proxy.close();
    let tags: BTreeSet<u64> = sink.ended(8).iter().map(|sent| sent.tag).collect();
    assert_eq!(tags.len(), 8);
    let received = sink.received(0);
    let numbers: BTreeSet<u32> =
        received.iter().flat_map(|one| one.pieces().map(|piece| piece.buffer.number)).collect();
    assert_eq!(numbers.len(), received.iter().map(|one| one.buffers()).sum::<usize>());
    for one in &received {
        assert_eq!(contents(one).len(), one.bytes());
        assert!(one.bytes() >= 14);
    }
    assert_eq!(host::lent_frames(&window), 0);
    endpoint.signal(1);
    serving.join().unwrap();
    reported.load(SeqCst)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_driver_that_lies_is_ended_and_nothing_ends_or_comes_twice(
        lies in prop::collection::vec(
            ((prop_oneof![3 => 0_u64..9, 1 => any::<u64>()], 0_u8..5), any::<[u8; 31]>(), any::<bool>()),
            1..30,
        ),
    ) {
        let reported = lied_to(|liar| {
            for ((tag, kind), rest, is_tame) in lies {
                let mut bytes = [0; 40];
                bytes[..8].copy_from_slice(&tag.to_le_bytes());
                bytes[8] = kind;
                bytes[9..].copy_from_slice(&rest);
                if is_tame {
                    // Flags, result, length of the lead, offset, length: values that can be.
                    bytes[9] &= 0x0a;
                    bytes[10] %= 2;
                    bytes[11] %= 13;
                    bytes[12..16].copy_from_slice(&[16, 0, 100, 0]);
                }
                liar.say(&BackEntry::read_from_bytes(&bytes).unwrap());
            }
        });
        prop_assert_eq!(reported, 1);
    }

    #[test]
    fn a_client_that_lies_ends_its_session_and_not_the_driver(
        words in prop::collection::vec((0_u8..4, any::<bool>(), prop::collection::vec(any::<u8>(), 192)), 1..10),
    ) {
        let cable: Arc<Cable> = Arc::default();
        let endpoint = Endpoint::new().unwrap();
        let driver = Driver::start(&cable, &endpoint);
        *driver.card.room.lock().unwrap() = Some(1000);
        let region = Region::new(RINGS.iter().sum::<usize>() * 8).unwrap();
        let rings = Rings::of(region.clone(), RINGS).unwrap();
        let service: &NicService = &driver.service;
        prop_assert_eq!(service.attach(region), Ok(()));
        let (mut forth, _) = rings.client::<ForthEntry, BackEntry>().unwrap();
        for (kind, is_tame, mut bytes) in words {
            bytes[8] = kind;
            if is_tame {
                // No segments, so no frames.
                (bytes[9], bytes[10], bytes[11]) = (bytes[9] & 7, bytes[10] % 145, 0);
            } else {
                // Counts beyond the end.
                bytes[11] |= 0x80;
            }
            let entry = ForthEntry::read_from_bytes(&bytes).unwrap();
            prop_assert_eq!(entry.as_bytes(), &bytes[..]);
            let _ = forth.push(&entry);
        }
        rings.forth.consumer_bell().ring();
        prop_assert!(service.describe().is_some());
        driver.kill();
    }
}

#[test]
fn the_truth_is_not_reported_until_the_last_word() {
    assert_eq!(lied_to(|_| {}), 1);
}

#[test]
fn single_lies_are_reported() {
    // Tag, kind, flags, result, lead, offset, length.
    let entry =
        |(tag, kind): (u64, u8), [flags, result, lead]: [u8; 3], [offset, length]: [u16; 2]| {
            let mut bytes = [0; 40];
            bytes[..8].copy_from_slice(&tag.to_le_bytes());
            bytes[8..12].copy_from_slice(&[kind, flags, result, lead]);
            bytes[12..14].copy_from_slice(&offset.to_le_bytes());
            bytes[14..16].copy_from_slice(&length.to_le_bytes());
            BackEntry::read_from_bytes(&bytes).unwrap()
        };
    let good = [entry((3, 0), [0, 0, 0], [0, 0]), entry((3, 1), [0, 0, 0], [16, 100])];
    let lies = [
        entry((8, 0), [0, 0, 0], [0, 0]),
        entry((1 << 32 | 4, 0), [0, 0, 0], [0, 0]),
        entry((4, 0), [0, 8, 0], [0, 0]),
        entry((8, 1), [0, 0, 0], [16, 100]),
        entry((4, 1), [0, 0, 0], [16, 4081]),
        entry((4, 1), [0, 0, 0], [16, 13]),
        entry((4, 1), [0, 0, 13], [16, 100]),
        entry((4, 1), [0, 0, 12], [11, 100]),
        entry((4, 1), [0x10, 0, 0], [16, 100]),
        entry((4, 1), [0x40, 0, 0], [16, 100]),
        entry((4, 1), [3, 0, 0], [16, 100]),
        entry((0, 2), [0, 2, 0], [0, 0]),
        entry((0, 4), [0, 0, 0], [0, 0]),
        good[0],
        good[1],
    ];
    for lie in lies {
        // It waits for the report, so a lie that is believed fails.
        let reported = hear(
            |liar| {
                good.iter().for_each(|entry| liar.say(entry));
                liar.say(&lie);
            },
            false,
        );
        assert_eq!(reported, 1);
    }
}

//! Tests of the description and of commands.
use super::rig::*;
use crate::{NetPort, features::*};
use interfaces::nic::{Filter, Nic, NicError, Offloads, SendSink};
use std::sync::{Arc, Mutex};
use virtio::{Candidate, model::Model};

#[test]
fn the_description_is_that_of_the_configuration() {
    let rig = rig(USUAL | SPEED);
    let info = rig.port.info();
    assert_eq!((info.name.as_str(), info.mac, info.mtu), ("eth0", MAC_ADDRESS, 9000));
    assert_eq!((info.speed, info.pairs, info.pairs_max), (Some(10_000), 1, 1));
    assert_eq!((info.max_segments, info.depth, info.buffers), (21, 256, 256));
    let offloads = Offloads::SEND_CHECKSUM
        | Offloads::SEND_TCP4
        | Offloads::SEND_TCP6
        | Offloads::RECEIVE_CHECKSUM
        | Offloads::RECEIVE_TCP4
        | Offloads::RECEIVE_TCP6;
    assert_eq!(info.offloads, offloads);
}

#[test]
fn features_that_lack_what_they_need_are_not_taken() {
    let all = choose(u64::MAX);
    assert_eq!(choose(all & !CHECKSUM) & (HOST_TSO4 | HOST_TSO6 | HOST_ECN | HOST_USO), 0);
    assert_eq!(choose(all & !GUEST_CHECKSUM) & (GUEST_TSO4 | GUEST_ECN | GUEST_USO6), 0);
    assert_eq!(choose(all & !HOST_TSO4) & HOST_ECN, 0);
    let commands = CONTROL_FILTER | CONTROL_MAC | CONTROL_OFFLOADS | ANNOUNCE | PAIRS;
    assert_eq!(choose(all & !CONTROL) & commands, 0);
    assert_eq!(choose(all) & commands, commands);
}

#[test]
fn an_impossible_device_is_not_opened() {
    let mut config = configuration(1);
    config[10..12].copy_from_slice(&67_u16.to_le_bytes());
    for (config, size) in [(config, 256), (configuration(1), 0), (configuration(1), 1)] {
        let features = MAC | MTU;
        let wire = rig(MAC).nic.clone();
        let model = Model::new(1, features, config, (3, size), Box::new(wire));
        let base = 0x9000_0000 + u64::from(size) * 0x1000;
        let (device, _plugged) = model.plug_mmio(base, base as u32);
        assert!(NetPort::open(Candidate::Mmio(device), "eth0".into()).is_err(), "{size}");
        assert!(!model.is_running());
    }
}

#[test]
fn commands_reach_the_device_as_the_specification_says() {
    let rig = rig(USUAL);
    let mac = [2, 1, 1, 1, 1, 1];
    assert_eq!(rig.port.set_mac(&mac), Ok(()));
    assert_eq!(rig.port.info().mac, mac);
    let filter = Filter {
        is_promiscuous: true,
        is_all_multicast: false,
        unicast: vec![mac],
        multicast: vec![[1, 0, 0x5e, 0, 0, 1], [0x33, 0x33, 0, 0, 0, 1]],
    };
    assert_eq!(rig.port.set_filter(&filter), Ok(()));
    let offloads = Offloads::RECEIVE_CHECKSUM | Offloads::RECEIVE_TCP6;
    assert_eq!(rig.port.set_offloads(offloads), Ok(()));
    let mut table = vec![1, 0, 1, 0, 0, 0];
    table.extend(mac);
    table.extend([2, 0, 0, 0]);
    table.extend(filter.multicast.as_flattened());
    let expected = vec![
        [&[1, 1][..], &mac].concat(),
        table,
        vec![0, 1, 0],
        vec![0, 0, 1],
        vec![5, 0, 2, 1, 0, 0, 0, 0, 0, 0],
    ];
    assert_eq!(rig.commands(), expected);
}

#[test]
fn settings_that_make_no_sense_or_that_the_device_lacks_are_refused() {
    let rig = rig(USUAL);
    let group = [1, 0, 0x5e, 0, 0, 1];
    assert_eq!(rig.port.set_mac(&group), Err(NicError::Invalid));
    assert_eq!(rig.port.set_mac(&[0; 6]), Err(NicError::Invalid));
    let many = Filter { multicast: vec![group; 65], ..Filter::default() };
    assert_eq!(rig.port.set_filter(&many), Err(NicError::Invalid));
    assert_eq!(rig.port.set_offloads(Offloads::RECEIVE_TCP4), Err(NicError::Invalid));
    assert_eq!(rig.port.set_offloads(Offloads::RECEIVE_UDP), Err(NicError::Unsupported));
    assert_eq!(rig.port.set_offloads(Offloads::SEND_CHECKSUM), Err(NicError::Unsupported));
    assert_eq!(rig.port.set_pairs(2), Err(NicError::Invalid));
    assert_eq!(rig.port.set_pairs(0), Err(NicError::Invalid));
    assert_eq!(rig.port.set_pairs(1), Err(NicError::Unsupported));
    assert!(rig.commands().is_empty());
    let plain = self::rig(MAC);
    assert_eq!(plain.port.set_mac(&[2; 6]), Err(NicError::Unsupported));
    assert_eq!(plain.port.set_filter(&Filter::default()), Err(NicError::Unsupported));
}

#[test]
fn a_command_that_is_refused_or_not_answered_is_an_error_and_a_late_answer_is_no_other_s() {
    let rig = rig(USUAL);
    rig.nic.0.lock().unwrap().answer = Some(1);
    assert_eq!(rig.port.set_mac(&[2; 6]), Err(NicError::Refused));
    assert_eq!(rig.port.info().mac, MAC_ADDRESS);
    rig.nic.0.lock().unwrap().answer = None;
    let start = std::time::Instant::now();
    assert_eq!(rig.port.set_mac(&[2; 6]), Err(NicError::TimedOut));
    assert!(start.elapsed().as_millis() >= 500);
    // The device still has the first command, so the second does not reach it.
    assert_eq!(rig.port.set_mac(&[4; 6]), Err(NicError::TimedOut));
    assert_eq!(rig.nic.kept(), 1);
    rig.nic.0.lock().unwrap().answer = Some(1);
    rig.serve_kept();
    rig.nic.0.lock().unwrap().answer = Some(0);
    assert_eq!(rig.port.set_mac(&[6; 6]), Ok(()));
    assert_eq!(rig.commands().last().unwrap()[2..], [6; 6]);
    // Packets went on meanwhile.
    rig.submit(&mut vec![packet(1, 1)]);
    assert_eq!(rig.sink.ended(1)[0].result, Ok(()));
}

#[test]
fn several_queue_pairs_have_their_own_vectors_on_pci() {
    let base = rig(MAC);
    let wire = base.nic.clone();
    wire.0.lock().unwrap().set_command_queue(4);
    let features = USUAL | PAIRS;
    let model = Model::new(1, features, configuration(2), (5, 16), Box::new(wire.clone()));
    let (function, _plugged) = model.plug_pci(0x48, 3);
    let port = NetPort::open(Candidate::Pci(function), "eth0".into()).unwrap();
    let pairs = port.info().pairs_max;
    assert!((1..=2).contains(&pairs));
    assert_eq!(port.set_pairs(pairs), Ok(()));
    assert_eq!(port.info().pairs, pairs);
    let sink = Arc::new(Sink::default());
    let told: Arc<dyn SendSink> = sink.clone();
    let mut batch: Vec<_> = (0..8).map(|tag| packet(tag, 1)).collect();
    batch.iter_mut().for_each(|packet| packet.flow = packet.tag as u32);
    port.submit(&mut batch, &told);
    assert_eq!(sink.ended(8).len(), 8);
    let queues: Mutex<Vec<u16>> = Mutex::new(wire.0.lock().unwrap().notified.clone());
    let queues = queues.into_inner().unwrap();
    assert!((0..pairs).all(|pair| queues.contains(&(2 * pair + 1))), "{queues:?}");
    port.stop();
}

//! Tests of drivers that die.
use super::card::*;
use crate::{
    nic::{
        ChecksumState, Filter, LinkState, Nic, NicControlServer, NicError, NicService, Offloads,
        PacketSegment,
    },
    overdue::Check,
    service,
};
use rt::{device::Loan, message::Message, time::Instant};
use std::{string::String, sync::Arc, thread, vec, vec::Vec};

#[test]
fn a_successor_gets_settings_then_buffers_then_unfinished_packets_in_order() {
    let (client, mut driver) = connected();
    let filter = Filter { is_promiscuous: true, ..Filter::default() };
    client.proxy.set_pairs(2).unwrap();
    client.proxy.set_offloads(Offloads::RECEIVE_CHECKSUM).unwrap();
    client.proxy.set_filter(&filter).unwrap();
    client.proxy.set_mac(&[6; 6]).unwrap();
    client.lend(0..16);
    let mut first = 0;
    for life in 0..10 {
        *driver.card.room.lock().unwrap() = Some(1000);
        wait_until(|| driver.card.buffers.lock().unwrap().len() == 16);
        client.submit(&mut (first..first + 20).map(|number| packet(number, 4)).collect());
        wait_until(|| driver.card.kept() == 20);
        assert_eq!(client.lent(), 16 + 20 * 4);
        client.cable.log();
        driver.kill();
        // Packets are taken while there is no driver.
        client.submit(&mut (first + 20..first + 25).map(|number| packet(number, 1)).collect());
        driver = Driver::start(&client.cable, &client.endpoint);
        client.proxy.restarted().unwrap();
        assert_eq!(client.sink.ended(25).len(), 25, "life {life}");
        assert!(client.cable.firsts().into_iter().eq(first..first + 25));
        wait_until(|| driver.card.buffers.lock().unwrap().len() == 16);
        let expected = [
            std::format!("mac {:?}", [6_u8; 6]),
            std::format!("{filter:?}"),
            std::format!("{:?}", Offloads::RECEIVE_CHECKSUM),
            String::from("pairs 2"),
            String::from("lend 16"),
        ];
        assert_eq!(client.cable.log(), expected);
        assert_eq!(client.lent(), 16);
        first += 25;
    }
    client.proxy.close();
    driver.kill();
}

#[test]
fn a_setting_that_the_dying_driver_answered_reaches_its_successor() {
    let (client, driver) = connected();
    driver.kill();
    // A driver that answers one message, and that only after its successor has the rings.
    let card = Arc::new(Card::new(&client.cable));
    let gate = card.gate.lock().unwrap();
    let server = NicControlServer::new("eth0", Arc::new(NicService::new(card.clone())));
    let endpoint = client.endpoint.clone();
    thread::scope(|scope| {
        let answering = scope.spawn(move || {
            let mut message = Message::new(0);
            endpoint.receive(&mut message, None).unwrap();
            service::respond(&[server], &mut message);
            endpoint.reply(&mut message).unwrap();
        });
        let setting = scope.spawn(|| client.proxy.set_mac(&[6; 6]));
        let expected = [std::format!("mac {:?}", [6_u8; 6])];
        wait_until(|| client.cable.log.lock().unwrap().len() == 1);
        assert_eq!(client.cable.log(), expected);
        let driver = Driver::start(&client.cable, &client.endpoint);
        client.proxy.restarted().unwrap();
        assert!(client.cable.log().is_empty(), "the successor knows it too early for this test");
        drop(gate);
        answering.join().unwrap();
        assert_eq!(setting.join().unwrap(), Ok(()));
        assert_eq!(client.cable.log(), expected);
        assert_eq!(client.proxy.info().mac, [6; 6]);
        client.proxy.close();
        driver.kill();
    });
}

#[test]
fn a_frame_that_could_not_be_lent_is_lent_once_it_can_although_no_news_come() {
    let (client, driver) = connected();
    let one = packet(1, 1);
    let PacketSegment { frame, .. } = one.segments[0].clone();
    let many = vec![Loan { frame: frame.id(), is_written: false }; 1023];
    client.cable.window.lend(&many).unwrap();
    client.submit(&mut vec![one, packet(2, 1)]);
    client.proxy.restarted().unwrap();
    assert!(client.sink.ended(0).is_empty() && client.cable.firsts().is_empty());
    client.cable.window.take_back(&many);
    assert!(client.sink.ended(2).iter().all(|sent| sent.result == Ok(())));
    assert_eq!(client.cable.firsts(), [1, 2]);
    // The same for a buffer.
    let buffer = crate::nic::ReceiveBuffer { number: 0, frame };
    client.cable.window.lend(&many).unwrap();
    client.proxy.lend(&mut vec![buffer]);
    client.cable.window.take_back(&many);
    wait_until(|| driver.card.buffers.lock().unwrap().len() == 1);
    client.proxy.close();
    assert_eq!(client.lent(), 0);
    driver.kill();
}

#[test]
fn packets_that_a_stopping_driver_gives_back_are_sent_by_its_successor_in_order() {
    let (client, driver) = connected();
    *driver.card.room.lock().unwrap() = Some(1000);
    client.submit(&mut (0..20).map(|number| packet(number, 3)).collect());
    wait_until(|| driver.card.kept() == 20);
    driver.card.stop();
    // The announcement follows all ends in the ring, so the ends have come, too.
    driver.card.announce();
    wait_until(|| client.sink.announcements.load(std::sync::atomic::Ordering::SeqCst) == 1);
    assert!(client.sink.ended(0).is_empty());
    driver.kill();
    client.submit(&mut vec![packet(20, 1)]);
    let driver = Driver::start(&client.cable, &client.endpoint);
    client.proxy.restarted().unwrap();
    assert!(client.sink.ended(21).iter().all(|sent| sent.result == Ok(())));
    assert!(client.cable.firsts().into_iter().eq(0..21));
    assert_eq!((client.lent(), client.proxy.statistics().send_errors), (0, 0));
    // One that gives packets back and lives is ended.
    *driver.card.room.lock().unwrap() = Some(1000);
    client.submit(&mut vec![packet(21, 1)]);
    wait_until(|| driver.card.kept() == 1);
    driver.card.stop();
    assert!(check_until(&client, 200).unwrap().contains("it does not know of a request"));
    client.proxy.close();
    assert_eq!(client.sink.ended(1)[0].result, Err(NicError::Restarted));
    driver.kill();
}

#[test]
fn counts_do_not_go_back_when_the_driver_dies() {
    let (client, mut driver) = connected();
    let errors = || client.proxy.statistics().receive_errors;
    let mut sum = 0;
    for life in 1..=5 {
        assert_eq!(errors(), sum + 3);
        *driver.card.errors.lock().unwrap() = 3 + life;
        sum += 3 + life;
        assert_eq!(errors(), sum);
        driver.kill();
        driver = Driver::start(&client.cable, &client.endpoint);
        // The successor counts from 3 on, and its rings are not attached yet.
        assert_eq!(errors(), sum);
        client.proxy.restarted().unwrap();
    }
    client.proxy.close();
    driver.kill();
}

#[test]
fn packets_are_received_through_kills_and_no_buffer_is_lost() {
    let (client, mut driver) = connected();
    client.lend(0..8);
    for life in 0..20 {
        wait_until(|| driver.card.buffers.lock().unwrap().len() == 8);
        for _ in 0..life % 4 {
            driver.card.receive(&[&[life; 60], &[life; 40]], ChecksumState::Valid, None);
        }
        let received = client.sink.received((life % 4).into());
        driver.kill();
        let buffers: Vec<_> = received.into_iter().flat_map(|one| one.into_buffers()).collect();
        assert_eq!(buffers.len(), 2 * usize::from(life % 4));
        driver = Driver::start(&client.cable, &client.endpoint);
        // Half of them come before the successor has the rings.
        let mut late = Vec::new();
        for (index, buffer) in buffers.into_iter().enumerate() {
            match index % 2 {
                0 => client.proxy.lend(&mut vec![buffer]),
                _ => late.push(buffer),
            }
        }
        client.proxy.restarted().unwrap();
        client.proxy.lend(&mut late);
    }
    wait_until(|| driver.card.buffers.lock().unwrap().len() == 8);
    assert_eq!(client.lent(), 8);
    client.proxy.close();
    assert_eq!(client.lent(), 0);
    driver.kill();
}

#[test]
fn a_closed_interface_ends_packets_and_opens_again() {
    let (client, driver) = connected();
    *driver.card.room.lock().unwrap() = Some(1000);
    client.lend(0..8);
    client.submit(&mut (0..20).map(|number| packet(number, 2)).collect());
    wait_until(|| driver.card.kept() == 20);
    driver.kill();
    client.proxy.close();
    let ended = client.sink.ended(20);
    assert!(ended.iter().all(|sent| sent.result == Err(NicError::Restarted)));
    assert!(ended.iter().flat_map(|sent| &sent.segments).all(|one| one.frame.references() == 1));
    assert_eq!((client.lent(), client.proxy.info().link), (0, LinkState::Down));
    client.submit(&mut vec![packet(1, 1)]);
    assert_eq!(client.sink.ended(1)[0].result, Err(NicError::Restarted));
    client.lend(0..8);
    let driver = Driver::start(&client.cable, &client.endpoint);
    client.proxy.restarted().unwrap();
    assert_eq!(*client.sink.links.lock().unwrap(), [LinkState::Down, LinkState::Up]);
    client.submit(&mut vec![packet(2, 1)]);
    assert_eq!(client.sink.ended(1)[0].result, Ok(()));
    client.lend(0..8);
    wait_until(|| driver.card.buffers.lock().unwrap().len() == 8);
    client.proxy.close();
    driver.kill();
}

#[test]
fn a_driver_that_lives_and_has_buffers_does_not_give_up_the_rings() {
    let (client, driver) = connected();
    client.proxy.restarted().unwrap();
    client.lend(0..8);
    wait_until(|| driver.card.buffers.lock().unwrap().len() == 8);
    assert!(client.proxy.restarted().is_err());
    driver.kill();
    let driver = Driver::start(&client.cable, &client.endpoint);
    client.proxy.restarted().unwrap();
    wait_until(|| driver.card.buffers.lock().unwrap().len() == 8);
    client.proxy.close();
    driver.kill();
}

/// Checks the driver every half a unit of time, for the limit of 10, until it is to be ended.
fn check_until(client: &Connection, checks: u64) -> Option<String> {
    (1..=checks).find_map(|check| {
        let now = Instant(check * 500);
        client.proxy.overdue(&Check { now, limit_ns: 10_000, step_max_ns: 1000 })
    })
}

#[test]
fn a_driver_that_lost_its_rings_is_ended_and_one_without_a_link_is_not() {
    let (client, driver) = connected();
    *driver.card.room.lock().unwrap() = Some(1000);
    driver.card.set_link(LinkState::Down);
    wait_until(|| client.proxy.info().link == LinkState::Down);
    client.submit(&mut vec![packet(1, 1)]);
    wait_until(|| driver.card.kept() == 1);
    assert_eq!(check_until(&client, 200), None);
    driver.card.set_link(LinkState::Up);
    wait_until(|| client.proxy.info().link == LinkState::Up);
    let cause = (201..400).find_map(|check| {
        let now = Instant(check * 500);
        client.proxy.overdue(&Check { now, limit_ns: 10_000, step_max_ns: 1000 })
    });
    assert!(cause.unwrap().contains("is not done"));
    driver.kill();
    let driver = Driver::start(&client.cable, &client.endpoint);
    client.proxy.restarted().unwrap();
    assert_eq!(client.sink.ended(1)[0].result, Ok(()));
    driver.service.die();
    client.submit(&mut vec![packet(2, 1)]);
    let cause = (400..600).find_map(|check| {
        let now = Instant(check * 500);
        client.proxy.overdue(&Check { now, limit_ns: 10_000, step_max_ns: 1000 })
    });
    assert!(cause.unwrap().contains("it does not know of a request"));
    client.proxy.close();
    driver.kill();
}

//! Acknowledgements that stand for others, and those that do not.
use super::merging::{Sent, merged, merged_while};
use inet::TransportChecksum;
use packet::tcp::TcpFlags;
use proptest::prelude::*;

/// Returns an acknowledgement of a flow, at the time `number`.
fn acknowledgement(port: u16, number: u32) -> Sent {
    let mut sent = Sent { acknowledgement: number, ..Sent::new(port, 7, 0) };
    sent.options[4..8].copy_from_slice(&number.to_be_bytes());
    sent
}

/// Returns the acknowledgements of a batch, and how many each stands for beside itself.
fn stayed(sent: &[Sent]) -> Vec<(u32, u16)> {
    let packets: Vec<_> = sent.iter().map(Sent::bytes).collect();
    let frames = merged(&packets, 4096);
    let parse = |bytes: Vec<u8>| Sent::parse(&bytes, TransportChecksum::Unverified);
    frames.iter().map(|one| (parse(one.payload.to_vec()).acknowledgement, one.acks)).collect()
}

#[test]
fn the_last_acknowledgement_stands_for_those_between_it_and_the_first() {
    for port in [2, 3] {
        for base in [1000, 0u32.wrapping_sub(5000)] {
            let mut sent: Vec<_> =
                (0..10).map(|at| acknowledgement(port, base.wrapping_add(at * 1448))).collect();
            sent[9].window = 3;
            let packets: Vec<_> = sent.iter().map(Sent::bytes).collect();
            let frames = merged(&packets, 4096);
            let bytes: Vec<_> = frames.iter().map(|frame| frame.payload.to_vec()).collect();
            assert_eq!(bytes, [packets[0].clone(), packets[9].clone()]);
            assert_eq!(frames.iter().map(|frame| frame.acks).collect::<Vec<_>>(), [0, 8]);
        }
        let mut sent: Vec<_> = (0..3).map(|at| acknowledgement(port, at)).collect();
        sent.iter_mut().for_each(|one| one.options.clear());
        assert_eq!(stayed(&sent), [(0, 0), (2, 1)]);
    }
}

#[test]
fn duplicates_stay_and_so_does_one_that_may_be_one() {
    let sent = [1, 2, 3, 3, 3, 3, 4, 5].map(|number| acknowledgement(2, number));
    assert_eq!(stayed(&sent), [(1, 0), (3, 1), (3, 0), (3, 0), (3, 0), (5, 1)]);
    let sent = [5, 4, 6, 6].map(|number| acknowledgement(3, number));
    assert_eq!(stayed(&sent), [(5, 0), (4, 0), (6, 0), (6, 0)]);
}

#[test]
fn an_acknowledgement_that_says_more_stays() {
    type Change = fn(&mut Sent);
    let changes: [Change; 8] = [
        |one| one.sequence += 1,
        |one| one.class ^= 1,
        |one| one.hops -= 1,
        |one| one.data.push(0),
        |one| one.options.clear(),
        |one| one.options[3] = 8,
        |one| one.options[4] = 0xff,
        |one| one.options = [&[1, 1, 5, 10][..], &[0; 8]].concat(),
    ];
    let flags = [TcpFlags::PSH, TcpFlags::ECE, TcpFlags::CWR, TcpFlags::URG, TcpFlags::AE];
    for port in [2, 3] {
        let sent: Vec<_> = (1..6).map(|at| acknowledgement(port, at)).collect();
        assert_eq!(stayed(&sent), [(1, 0), (5, 3)]);
        for change in changes {
            let mut sent = sent.clone();
            change(&mut sent[2]);
            assert!(stayed(&sent).contains(&(3, 0)), "{sent:?}");
        }
        for flag in flags {
            let mut sent = sent.clone();
            sent[2].flags |= flag;
            assert!(stayed(&sent).contains(&(3, 0)), "{flag:?}");
        }
    }
}

#[test]
fn a_damaged_acknowledgement_stands_for_none() {
    for port in [2, 3] {
        let sent: Vec<_> = (1..5).map(|at| acknowledgement(port, at)).collect();
        let whole: Vec<_> = sent.iter().map(Sent::bytes).collect();
        for at in (if port == 3 { 54 } else { 34 })..whole[0].len() {
            for place in 0..4 {
                let mut packets = whole.clone();
                packets[place][at] ^= 0x10;
                let seen: Vec<_> =
                    merged(&packets, 4096).iter().map(|one| one.payload.to_vec()).collect();
                assert!(seen.contains(&packets[place]), "{place} {at}");
                let last_good = if place == 3 { 2 } else { 3 };
                assert!(seen.contains(&packets[last_good]), "{place} {at}");
            }
        }
    }
}

#[test]
fn acknowledgements_that_somebody_watches_stay() {
    let packets: Vec<_> = (0..5).map(|at| acknowledgement(2, at).bytes()).collect();
    assert_eq!(merged_while(true, &packets, 4096).len(), 5);
    assert_eq!(merged_while(false, &packets, 4096).len(), 2);
}

#[test]
fn an_acknowledgement_in_a_padded_frame_stands_for_others() {
    let mut packets: Vec<_> = (0..5).map(|at| acknowledgement(2, at).bytes()).collect();
    packets.iter_mut().for_each(|packet| packet.extend([0; 6]));
    let frames = merged(&packets, 4096);
    assert_eq!(frames.iter().map(|frame| frame.acks).collect::<Vec<_>>(), [0, 3]);
    assert_eq!(frames[1].payload.to_vec(), packets[4][..packets[4].len() - 6]);
}

/// Returns the numbers of acknowledgements that repeat the one before.
fn repeated(numbers: &[u32]) -> Vec<u32> {
    numbers.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[1]).collect()
}

proptest! {
    /// The connection sees the same duplicates, and learns of as many bytes.
    #[test]
    fn duplicates_and_the_last_number_are_those_that_came(
        steps in proptest::collection::vec(0u32..4, 1..64), flows in 1u16..3,
    ) {
        let mut numbers = [0u32.wrapping_sub(20); 3];
        let sent: Vec<_> = steps
            .iter()
            .enumerate()
            .map(|(at, step)| {
                let flow = at as u16 % flows;
                let number = &mut numbers[usize::from(flow)];
                // Most advance, and some repeat.
                *number = number.wrapping_add(step.saturating_sub(1));
                acknowledgement(flow, *number)
            })
            .collect();
        let packets: Vec<_> = sent.iter().map(Sent::bytes).collect();
        let frames = merged(&packets, 4096);
        let seen: Vec<_> = frames
            .iter()
            .map(|one| (Sent::parse(&one.payload.to_vec(), TransportChecksum::Unverified), one.acks))
            .collect();
        for flow in 0..flows {
            let of = |one: &Sent| (one.port == flow).then_some(one.acknowledgement);
            let came: Vec<_> = sent.iter().filter_map(of).collect();
            let stayed: Vec<_> = seen.iter().filter_map(|(one, _)| of(one)).collect();
            prop_assert_eq!(repeated(&came), repeated(&stayed));
            prop_assert_eq!((came.first(), came.last()), (stayed.first(), stayed.last()));
        }
        let count: usize = seen.iter().map(|(_, acks)| 1 + usize::from(*acks)).sum();
        prop_assert_eq!(count, sent.len());
    }
}

//! Tests of sequences of requests that are like a journal's commit.
use super::*;

/// Makes a sequence under `tag` that writes two blocks from `block` on, flushes, writes a third one and
/// flushes.
fn commit(tag: u64, block: u64, frame: &Frame) -> Sequence {
    let write = |at: u64| request(tag, Operation::Write, (block + at) * 8, from_ref(frame));
    let flush = || request(tag, Operation::Flush, 0, &[]);
    Sequence::of([write(0), write(2)], [flush(), write(4), flush()]).unwrap()
}

fn from_ref(frame: &Frame) -> &[Frame] {
    std::slice::from_ref(frame)
}

/// Returns the requests of [`commit`], the first two in the order of their sectors.
fn steps(block: u64) -> Vec<(Operation, u64)> {
    let write = |at: u64| (Operation::Write, (block + at) * 8);
    let flush = (Operation::Flush, 0);
    vec![write(0), write(2), flush, write(4), flush]
}

/// Returns the requests that a disk has done, with the first two steps of each commit in the order of
/// their sectors.
fn done(platter: &Platter) -> Vec<(Operation, u64)> {
    let mut log = platter.log.lock().unwrap().clone();
    log.chunks_exact_mut(5).for_each(|steps| steps[..2].sort_by_key(|step| step.1));
    log
}

#[test]
fn each_step_begins_when_those_before_it_have_ended_and_the_client_is_told_once() {
    let (platter, driver, proxy) = connected();
    let frame = filled(3);
    for round in 0..100_u64 {
        let (sink, dyn_sink) = listening();
        platter.log.lock().unwrap().clear();
        proxy.start(commit(round, round, &frame), &dyn_sink).unwrap();
        assert_eq!(sink.wait_for(1), [(round, Ok(()))]);
        assert_eq!(done(&platter), steps(round));
        assert_eq!(frame.references(), 1, "its frames are given back before it is told");
    }
    assert!(driver.disk.offered.load(SeqCst) > 100, "steps are offered, and some refused");
    assert!(proxy.has_all_slots());
    proxy.close();
    driver.kill();
}

#[test]
fn many_at_once_keep_each_its_order() {
    let (platter, driver, proxy) = connected();
    let frame = filled(3);
    let (sink, dyn_sink) = listening();
    const COUNT: u64 = 60;
    for tag in 0..COUNT {
        proxy.start(commit(tag, tag * 5, &frame), &dyn_sink).unwrap();
    }
    assert_eq!(sink.wait_for(COUNT as usize).len(), COUNT as usize);
    let log = platter.log.lock().unwrap().clone();
    let place = |sector| log.iter().position(|step| *step == (Operation::Write, sector)).unwrap();
    for tag in 0..COUNT {
        let [first, second, last] = [0, 2, 4].map(|at| place((tag * 5 + at) * 8));
        let begun = first.max(second);
        let is_flush = |step: &(Operation, u64)| step.0 == Operation::Flush;
        assert!(log[begun..last].iter().any(is_flush), "{tag}: a flush before the last write");
        assert!(log[last..].iter().any(is_flush), "{tag}: a flush behind it");
    }
    proxy.close();
    driver.kill();
}

#[test]
fn nothing_is_begun_behind_a_step_that_failed() {
    let (platter, driver, proxy) = connected();
    let frame = filled(3);
    for (failing, place, begun) in [(0, 0, 1), (2, 1, 1), (4, 3, 3)] {
        let (sink, dyn_sink) = listening();
        platter.log.lock().unwrap().clear();
        *driver.disk.mood.lock().unwrap() = Mood::FailsAt(failing * 8);
        let mut sequence = commit(0, 0, &frame);
        sequence.requests_mut().zip(10..).for_each(|(request, tag)| request.tag = tag);
        proxy.start(sequence, &dyn_sink).unwrap();
        assert_eq!(sink.wait_for(1), [(10 + place, Err(BlockError::Device))], "which failed");
        assert_eq!(platter.log.lock().unwrap().len(), begun, "{failing}");
    }
    assert!(proxy.has_all_slots());
    proxy.close();
    driver.kill();
}

#[test]
fn a_successor_is_sent_all_of_it_again() {
    let (platter, driver, proxy) = connected();
    let endpoint = driver.endpoint.clone();
    let frame = filled(3);
    let (sink, dyn_sink) = listening();
    *driver.disk.mood.lock().unwrap() = Mood::Holds;
    proxy.start(commit(1, 0, &frame), &dyn_sink).unwrap();
    proxy.start(commit(2, 100, &frame), &dyn_sink).unwrap();
    while platter.log.lock().unwrap().len() < 4 {
        thread::yield_now();
    }
    driver.kill();
    platter.log.lock().unwrap().clear();
    let driver = Driver::start(&platter, &endpoint);
    assert_eq!(proxy.restarted(), Ok(()));
    assert_eq!(sink.wait_for(2), [(1, Ok(())), (2, Ok(()))]);
    assert_eq!(done(&platter), [steps(0), steps(100)].concat(), "one behind the other");
    assert!(proxy.has_all_slots());
    proxy.close();
    driver.kill();
}

#[test]
fn a_driver_that_gives_its_rings_up_begins_no_step_any_more() {
    let (platter, driver, proxy) = connected();
    let frame = filled(3);
    for round in 1..=100 {
        let (sink, dyn_sink) = listening();
        let before = platter.log.lock().unwrap().len();
        for tag in 0..8 {
            proxy.start(commit(tag, tag * 5, &frame), &dyn_sink).unwrap();
        }
        while platter.log.lock().unwrap().len() == before {
            thread::yield_now();
        }
        assert_eq!(proxy.restarted(), Ok(()), "{round}");
        assert!(sink.wait_for(8).iter().all(|(_, result)| result.is_ok()));
    }
    assert!(proxy.has_all_slots());
    proxy.close();
    driver.kill();
}

#[test]
fn what_reads_or_is_too_long_is_refused_whole() {
    let (platter, driver, proxy) = connected();
    let (_, dyn_sink) = listening();
    let frames = [filled(3)];
    let flush = || request(1, Operation::Flush, 0, &[]);
    let read = request(1, Operation::Read, 0, &frames);
    let refused = proxy.start(Sequence::of([flush(), read], [flush()]).unwrap(), &dyn_sink);
    assert_eq!(refused.unwrap_err().more.len(), 2);
    let flushes = (0..=SEQUENCE_MAX).map(|_| flush());
    assert!(proxy.start(Sequence::of([], flushes).unwrap(), &dyn_sink).is_err());
    let large: Vec<Frame> = (0..256).map(|_| frames[0].clone()).collect();
    let writes = (0..9).map(|tag| request(tag, Operation::Write, tag * 2048, &large));
    assert!(proxy.start(Sequence::of(writes, []).unwrap(), &dyn_sink).is_err(), "no room");
    assert_eq!(platter.log.lock().unwrap().len(), 0);
    proxy.close();
    assert!(proxy.start(commit(1, 0, &frames[0]), &dyn_sink).is_err(), "it is closed");
    driver.kill();
}

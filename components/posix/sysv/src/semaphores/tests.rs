//! Tests of semaphore sets against the rules of semop(2).
use super::*;
use crate::testing::Random;

fn operation(number: u16, change: i16) -> SemaphoreOperation {
    SemaphoreOperation { number, change, flags: 0 }
}

fn request(operations: &[SemaphoreOperation]) -> Request {
    Request { operations: operations.to_vec(), process: 7, undo: None }
}

/// Does the operations or makes `waiter` sleep. Returns the waiters that were woken.
fn operate(set: &mut Set<u32>, operations: &[SemaphoreOperation], waiter: u32) -> Vec<u32> {
    let mut woken = Vec::new();
    if let RequestOutcome::Blocked(blocked) = set.operate(request(operations), &mut woken) {
        set.sleep(blocked, waiter);
    }
    woken.into_iter().map(|(waiter, answer)| answer.map(|()| waiter).unwrap()).collect()
}

#[test]
fn operations_are_done_all_or_none() {
    let mut set: Set<u32> = Set::new(3);
    let mut woken = Vec::new();
    let both = [operation(0, 2), operation(1, -1)];
    assert!(matches!(set.operate(request(&both), &mut woken), RequestOutcome::Blocked(_)));
    assert_eq!((set.values(), set.process(0)), (vec![0, 0, 0], 0));
    let up_and_down = [operation(0, 2), operation(0, -1), operation(1, 0)];
    assert!(matches!(set.operate(request(&up_and_down), &mut woken), RequestOutcome::Done));
    assert_eq!((set.values(), set.process(0)), (vec![1, 0, 0], 7));
    let too_much = [operation(2, 5), operation(0, 32_767)];
    let refused = set.operate(request(&too_much), &mut woken);
    assert!(matches!(refused, RequestOutcome::Refused(Refusal::OutOfRange)));
    let mut now = both;
    now[1].flags = NO_WAIT;
    let refused = set.operate(request(&now), &mut woken);
    assert!(matches!(refused, RequestOutcome::Refused(Refusal::WouldBlock)));
    assert_eq!(set.values(), [1, 0, 0]);
}

#[test]
fn sleepers_are_served_in_their_order_as_far_as_it_goes() {
    let mut set = Set::new(1);
    for (waiter, change) in [(1, -2), (2, -1), (3, -1)] {
        assert_eq!(operate(&mut set, &[operation(0, change)], waiter), []);
    }
    assert_eq!(set.waiting_to_take(0), 3);
    assert_eq!(operate(&mut set, &[operation(0, 1)], 0), [2], "the first one needs more");
    assert_eq!(operate(&mut set, &[operation(0, 3)], 0), [1, 3]);
    assert_eq!(set.value(0), 0);
}

#[test]
fn who_waits_for_zero_is_served_before_the_next_taker() {
    let mut set = Set::new(2);
    operate(&mut set, &[operation(0, 1)], 0);
    operate(&mut set, &[operation(0, 0)], 1);
    operate(&mut set, &[operation(0, 0), operation(1, 0)], 2);
    assert_eq!((set.waiting_for_zero(0), set.waiting_for_zero(1)), (2, 0));
    operate(&mut set, &[operation(0, -2)], 3);
    assert_eq!(operate(&mut set, &[operation(0, 1)], 0), [1, 2, 3]);
    assert_eq!(set.waiting_for_zero(0), 0);
}

#[test]
fn a_served_call_serves_others() {
    let mut set = Set::new(2);
    operate(&mut set, &[operation(1, -1)], 1);
    operate(&mut set, &[operation(0, -1), operation(1, 1)], 2);
    assert_eq!(operate(&mut set, &[operation(0, 1)], 0), [2, 1]);
    assert_eq!((set.values(), set.complex), (vec![0, 0], 0));
    assert!(set.alter.is_empty());
}

#[test]
fn what_is_undone_stays_in_range_and_serves() {
    let mut set: Set<u32> = Set::new(2);
    set.prepare_undo(1);
    let mut woken = Vec::new();
    let undone = SemaphoreOperation { flags: UNDO, ..operation(0, 5) };
    let taken = SemaphoreOperation { flags: UNDO, ..operation(1, -1) };
    operate(&mut set, &[operation(1, 3)], 0);
    let request = Request { undo: Some(1), ..request(&[undone, taken]) };
    assert!(matches!(set.operate(request, &mut woken), RequestOutcome::Done));
    operate(&mut set, &[operation(0, -4), operation(1, -2)], 0);
    assert_eq!(set.values(), [1, 0]);
    operate(&mut set, &[operation(1, -1)], 9);
    set.undo(1, 4, &mut woken);
    assert_eq!(set.values(), [0, 0], "not below zero");
    assert!(matches!(woken.as_slice(), [(9, Ok(()))]));
    assert!(!set.has_undo(1));
    set.undo(1, 4, &mut woken);
}

#[test]
fn set_values_forget_what_was_to_be_undone() {
    let mut set: Set<u32> = Set::new(2);
    set.prepare_undo(1);
    let mut woken = Vec::new();
    let undone = [
        SemaphoreOperation { flags: UNDO, ..operation(0, 5) },
        SemaphoreOperation { flags: UNDO, ..operation(1, 6) },
    ];
    let request = Request { undo: Some(1), ..request(&undone) };
    assert!(matches!(set.operate(request, &mut woken), RequestOutcome::Done));
    set.set_value(0, 9, 3, &mut woken);
    set.undo(1, 4, &mut woken);
    assert_eq!((set.values(), set.process(0), set.process(1)), (vec![9, 0], 3, 4));
    set.set_all(&[1, 2], 5, &mut woken);
    assert_eq!((set.values(), set.process(1)), (vec![1, 2], 5));
}

#[test]
fn removal_wakes_everybody() {
    let mut set = Set::new(2);
    operate(&mut set, &[operation(0, 1)], 0);
    operate(&mut set, &[operation(0, 0)], 1);
    operate(&mut set, &[operation(1, -1)], 2);
    operate(&mut set, &[operation(1, -1), operation(0, 0)], 3);
    operate(&mut set, &[operation(0, 0), operation(1, 0)], 4);
    let mut woken = Vec::new();
    set.remove(&mut woken);
    let mut waiters: Vec<u32> = woken.iter().map(|(waiter, _)| *waiter).collect();
    waiters.sort_unstable();
    assert_eq!(waiters, [1, 2, 3, 4]);
    assert!(woken.iter().all(|(_, answer)| *answer == Err(Refusal::Removed)));
}

/// Returns the values after the operations, done one after the other, if they are possible.
fn done_to(values: &[i32], operations: &[SemaphoreOperation]) -> Option<Vec<i32>> {
    let mut values = values.to_vec();
    for operation in operations {
        let value = &mut values[usize::from(operation.number)];
        if operation.change == 0 && *value != 0 {
            return None;
        }
        *value += i32::from(operation.change);
        if *value < 0 {
            return None;
        }
    }
    Some(values)
}

/// Compares the set with a model of values and sleeping calls: every call that the set serves, in its order, is possible
/// then, and none of the remaining ones is.
#[test]
fn random_operations_serve_whoever_can_be_served() {
    const COUNT: u64 = 3;
    let mut random = Random::new(11);
    let mut set = Set::new(COUNT as usize);
    let mut values = vec![0; COUNT as usize];
    let mut sleepers: BTreeMap<u32, Vec<SemaphoreOperation>> = BTreeMap::new();
    for waiter in 0..60_000 {
        if random.below(8) == 0 || sleepers.len() > 30 {
            let left = sleepers.keys().nth(random.below(31) as usize).copied();
            assert_eq!(set.leave(&left.unwrap_or(waiter)), left.is_some());
            left.map(|left| sleepers.remove(&left));
        }
        let mut change = || operation(random.below(COUNT) as u16, random.below(5) as i16 - 2);
        let mut operations = vec![change()];
        if random.below(3) == 0 {
            operations.extend([
                operation(random.below(COUNT) as u16, random.below(5) as i16 - 2),
                operation(random.below(COUNT) as u16, random.below(5) as i16 - 2),
            ]);
        }
        let mut woken = Vec::new();
        match set.operate(request(&operations), &mut woken) {
            RequestOutcome::Done => values = done_to(&values, &operations).expect("it was done"),
            RequestOutcome::Blocked(blocked) => {
                assert_eq!(done_to(&values, &operations), None);
                set.sleep(blocked, waiter);
                sleepers.insert(waiter, operations);
            }
            RequestOutcome::Refused(refusal) => panic!("{refusal:?}"),
        }
        // Calls that wait for zero are reported before the call that changes that zero.
        let mut late: Vec<Vec<SemaphoreOperation>> = Vec::new();
        for (waiter, answer) in woken {
            assert_eq!(answer, Ok(()));
            let operations = sleepers.remove(&waiter).expect("a sleeper");
            late.push(operations);
        }
        values = in_some_order(&values, late).expect("an order in which all could be served");
        assert_eq!(set.values(), values.iter().map(|value| *value as u16).collect::<Vec<_>>());
        for operations in sleepers.values() {
            assert_eq!(done_to(&values, operations), None, "{operations:?} of {values:?}");
        }
        let simple = |number: u16, is_wanted: &dyn Fn(i16) -> bool| {
            let wants = |operations: &&Vec<SemaphoreOperation>| {
                let [only] = operations.as_slice() else { return false };
                only.number == number && is_wanted(only.change)
            };
            sleepers.values().filter(wants).count()
        };
        for number in 0..COUNT as u16 {
            let takers = simple(number, &|change| change < 0);
            assert!(set.waiting_to_take(number.into()) >= takers);
            assert!(set.waiting_for_zero(number.into()) >= simple(number, &|change| change == 0));
        }
        assert_eq!(set.complex, sleepers.values().filter(|all| all.len() > 1).count());
        if values.iter().any(|value| *value > 30) {
            let mut woken = Vec::new();
            set.set_all(&[0; COUNT as usize], 1, &mut woken);
            let served = woken.into_iter().map(|(waiter, _)| sleepers.remove(&waiter).unwrap());
            values = in_some_order(&[0; COUNT as usize], served.collect()).unwrap();
        }
    }
}

/// Returns the values after all calls were served, each as soon as it was possible. A sleeping call waits for zero without a
/// change, or takes.
fn in_some_order(values: &[i32], mut served: Vec<Vec<SemaphoreOperation>>) -> Option<Vec<i32>> {
    let mut values = values.to_vec();
    while !served.is_empty() {
        // A call that changes nothing is served first.
        let constant = served.iter().position(|all| {
            all.iter().all(|operation| operation.change == 0) && done_to(&values, all).is_some()
        });
        let at = constant.or_else(|| {
            served.iter().position(|operations| done_to(&values, operations).is_some())
        })?;
        values = done_to(&values, &served.remove(at))?;
    }
    Some(values)
}

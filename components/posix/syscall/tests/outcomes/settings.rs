//! Calls that set something and store the value before: a repeated call would store the value that the first one set.
use super::world::{self, World, words};
use linux_raw_sys::general as raw;
use vfs::Errno;

/// Sets by `set`, given the address for the former value, and expects the former value `before`.
fn check(world: &World, before: &[u64], set: impl Fn(u64) -> Result<u64, Errno>) {
    let (_, at) = world.refused_everywhere(|| world.page(), |at| set(*at), || ());
    let found: Vec<u64> = world.task.memory().read_array(at, before.len()).unwrap();
    assert_eq!(found, before);
}

#[test]
fn a_refused_change_of_signal_settings_stores_the_value_before() {
    const SET_BYTES: u64 = 8;
    const USR1: u64 = raw::SIGUSR1 as u64;
    world::run(|world| {
        let masks = [1u64 << 20, 1 << 21].map(|mask| world.page_of(&mask.to_le_bytes()));
        let set = |mask, old| {
            let args = [raw::SIG_SETMASK.into(), mask, old, SET_BYTES, 0, 0];
            world.call(raw::__NR_rt_sigprocmask, args)
        };
        set(masks[0], 0).unwrap();
        check(world, &[1 << 20], |old| set(masks[1], old));

        let ignore = world.page_of(&words(&[1, 0, 0, 0]));
        let args = |old| [USR1, ignore, old, SET_BYTES, 0, 0];
        check(world, &[0; 4], |old| world.call(raw::__NR_rt_sigaction, args(old)));

        let stack = world.page_of(&words(&[0x1000, 0, 0x8000]));
        let none = words(&[0, raw::SS_DISABLE.into(), 0]);
        let before: Vec<u64> =
            none.chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
        check(world, &before, |old| world.call(raw::__NR_sigaltstack, [stack, old, 0, 0, 0, 0]));
    });
}

#[test]
fn a_refused_change_of_limits_and_timers_stores_the_value_before() {
    const CORE: u64 = raw::RLIMIT_CORE as u64;
    world::run(|world| {
        let limits = [[5u64, 90], [4, 80]].map(|limit| world.page_of(&words(&limit)));
        let set = |limit, old| world.call(raw::__NR_prlimit64, [0, CORE, limit, old, 0, 0]);
        set(limits[0], 0).unwrap();
        check(world, &[5, 90], |old| set(limits[1], old));

        let interval = world.page_of(&words(&[7, 0, 1000, 0]));
        let set = |old| world.call(raw::__NR_setitimer, [1, interval, old, 0, 0, 0]);
        check(world, &[0; 4], set);
    });
}

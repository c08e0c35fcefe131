//! rt_sigtimedwait and reads of a signalfd: no signal is lost.
use super::world::{self, World};
use linux_raw_sys::general as raw;
use vfs::Errno;

const SIGNAL: u32 = 40;
const SET: u64 = 1 << (SIGNAL - 1);
const SET_BYTES: u64 = 8;

/// Blocks the signal and sends it `count` times.
fn send(world: &World, count: usize) {
    let set = world.page_of(&SET.to_le_bytes());
    let block = [raw::SIG_BLOCK.into(), set, 0, SET_BYTES, 0, 0];
    world.call(raw::__NR_rt_sigprocmask, block).unwrap();
    let own = u64::from(world.task.process.id());
    for _ in 0..count {
        world.call(raw::__NR_kill, [own, SIGNAL.into(), 0, 0, 0, 0]).unwrap();
    }
    assert!(is_pending(world));
}

fn is_pending(world: &World) -> bool {
    process::signal::pending(&world.task) & SET != 0
}

fn wait_at_once(world: &World, info: u64) -> Result<u64, Errno> {
    let (set, time) = (world.page_of(&SET.to_le_bytes()), world.page_of(&[0; 16]));
    world.call(raw::__NR_rt_sigtimedwait, [set, info, time, SET_BYTES, 0, 0])
}

#[test]
fn a_refused_sigtimedwait_leaves_the_signal() {
    world::run(|world| {
        send(world, 2);
        let (set, time) = (world.page_of(&SET.to_le_bytes()), world.page_of(&[0; 16]));
        for _ in 0..2 {
            let (signal, info) = world.refused_everywhere(
                || world.page(),
                |info| world.call(raw::__NR_rt_sigtimedwait, [set, *info, time, SET_BYTES, 0, 0]),
                || assert!(is_pending(world)),
            );
            assert_eq!(signal, SIGNAL.into());
            assert_eq!(world.task.memory().read::<u32>(info), Ok(SIGNAL));
        }
        assert_eq!(wait_at_once(world, 0), Err(Errno::EAGAIN));
    });
}

#[test]
fn a_refused_read_of_a_signalfd_leaves_the_signals() {
    const RECORD_BYTES: u64 = 128;
    world::run(|world| {
        send(world, 3);
        let set = world.page_of(&SET.to_le_bytes());
        let flags = u64::from(raw::O_NONBLOCK);
        let file = [u64::MAX, set, SET_BYTES, flags, 0, 0];
        let fd = world.call(raw::__NR_signalfd4, file).unwrap();
        let (count, records) = world.refused_everywhere(
            || world.page(),
            |records| world.call(raw::__NR_read, [fd, *records, 3 * RECORD_BYTES, 0, 0, 0]),
            || assert!(is_pending(world)),
        );
        assert_eq!(count, 3 * RECORD_BYTES);
        let number = |at: u64| world.task.memory().read::<u32>(records + at * RECORD_BYTES);
        assert_eq!([number(0), number(1), number(2)], [Ok(SIGNAL); 3]);
        assert!(!is_pending(world));
        world.close(fd);
    });
}

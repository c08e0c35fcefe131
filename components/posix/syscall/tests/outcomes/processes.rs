//! wait4 and waitid: no child is lost.
use super::world;
use linux_raw_sys::general as raw;

const WEXITED: u64 = 4;
/// Wait status of a child that could not be started.
const NOT_STARTED: u32 = 127 << 8;

#[test]
fn a_refused_wait4_leaves_the_child() {
    world::run(|world| {
        let child = world.ended_child();
        let (id, (status, usage)) = world.refused_everywhere(
            || (world.page(), world.page()),
            |(status, usage)| world.call(raw::__NR_wait4, [child.into(), *status, 0, *usage, 0, 0]),
            || assert_eq!(world.children(), [child]),
        );
        assert_eq!((id, world.children()), (child.into(), vec![]));
        let memory = world.task.memory();
        assert_eq!(memory.read::<u32>(status), Ok(NOT_STARTED));
        assert!(memory.read::<[u64; 4]>(usage).is_ok());
    });
}

#[test]
fn a_refused_waitid_leaves_the_child() {
    world::run(|world| {
        let child = world.ended_child();
        let (_, (info, _)) = world.refused_everywhere(
            || (world.page(), world.page()),
            |(info, usage)| {
                let args = [raw::P_PID.into(), child.into(), *info, WEXITED, *usage, 0];
                world.call(raw::__NR_waitid, args)
            },
            || assert_eq!(world.children(), [child]),
        );
        assert_eq!(world.task.memory().read::<u32>(info + 16), Ok(child));
        assert_eq!(world.children(), []);
    });
}

//! wait4, waitid and clone: no child is lost, none is left behind.
use super::world;
use linux_raw_sys::general as raw;
use rt::user::{Context, Space, Trap};

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

/// A child's program: it exits at once with status 3.
fn exit(context: &mut Context, _: &Space) -> Trap {
    (context.registers.rax, context.registers.rdi) = (raw::__NR_exit_group.into(), 3);
    Trap::Syscall
}

#[test]
fn a_refused_clone_leaves_no_child_and_no_descriptor() {
    world::run(|world| {
        rt::host::set_program(exit);
        let before = world.descriptors();
        let flags = raw::CLONE_PIDFD | raw::CLONE_CHILD_SETTID | raw::SIGCHLD;
        let (child, pidfd) = world.refused_everywhere(
            || world.page(),
            |pidfd| world.call(raw::__NR_clone, [flags.into(), 0, *pidfd, *pidfd + 8, 0, 0]),
            || {
                assert_eq!(world.children(), []);
                assert_eq!(world.descriptors(), before);
            },
        );
        assert_eq!(u64::from(world.children()[0]), child);
        let waited = world.call(raw::__NR_wait4, [child, 0, 0, 0, 0, 0]);
        assert_eq!((waited, world.children()), (Ok(child), vec![]));
        let fd = world.task.memory().read::<u32>(pidfd).unwrap();
        assert_eq!(world.call(raw::__NR_close, [fd.into(), 0, 0, 0, 0, 0]), Ok(0));
        assert_eq!(world.descriptors(), before);
    });
}

//! open and mq_open with O_CREAT and O_EXCL: the call that makes the file or queue returns its descriptor.
use super::world::{self, World};
use linux_raw_sys::general as raw;
use vfs::Errno;

fn exists(world: &World, path: u64) -> bool {
    match world.call(raw::__NR_access, [path, 0, 0, 0, 0, 0]) {
        Ok(_) => true,
        Err(error) => {
            assert_eq!(error, Errno::ENOENT);
            false
        }
    }
}

#[test]
fn a_refused_open_makes_no_file() {
    const OTHERS: [(u32, &[u8]); 3] =
        [(raw::O_WRONLY, b"/w\0"), (raw::O_RDONLY, b"/r\0"), (raw::O_RDWR, b"/rw\0")];
    world::run(|world| {
        for (access, path) in OTHERS {
            let path = world.page_of(path);
            let before = world.descriptors();
            let flags = u64::from(raw::O_CREAT | raw::O_EXCL | access);
            let open = || world.call(raw::__NR_open, [path, flags, 0o600, 0, 0, 0]);
            let check = || {
                assert!(!exists(world, path));
                assert_eq!(world.descriptors(), before);
            };
            let (fd, ()) = world.refused_everywhere(|| (), |()| open(), check);
            assert!(exists(world, path));
            assert_eq!(open(), Err(Errno::EEXIST));
            world.close(fd);
        }
    });
}

#[test]
fn a_refused_open_without_a_name_leaves_no_descriptor() {
    world::run(|world| {
        let (path, before) = (world.page_of(b"/\0"), world.descriptors());
        let flags = u64::from(raw::O_TMPFILE | raw::O_RDWR);
        let (fd, ()) = world.refused_everywhere(
            || (),
            |()| world.call(raw::__NR_open, [path, flags, 0o600, 0, 0, 0]),
            || assert_eq!(world.descriptors(), before),
        );
        world.close(fd);
    });
}

#[test]
fn a_refused_mq_open_makes_no_queue() {
    world::run(|world| {
        let (name, before) = (world.page_of(b"queue\0"), world.descriptors());
        let flags = u64::from(raw::O_CREAT | raw::O_EXCL | raw::O_RDWR);
        let (fd, ()) = world.refused_everywhere(
            || (),
            |()| world.call(raw::__NR_mq_open, [name, flags, 0o600, 0, 0, 0]),
            || {
                let found = world.call(raw::__NR_mq_open, [name, 0, 0, 0, 0, 0]);
                assert_eq!((found, world.descriptors()), (Err(Errno::ENOENT), before.clone()));
            },
        );
        let unlinked = world.call(raw::__NR_mq_unlink, [name, 0, 0, 0, 0, 0]);
        assert_eq!(unlinked, Ok(0));
        world.close(fd);
    });
}

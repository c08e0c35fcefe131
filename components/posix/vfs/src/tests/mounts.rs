//! Tests of mounting, crossing, binding, flags, and removing mounts.
use super::{World, tmpfs};
use crate::{
    Credentials, Errno, MountFlags,
    namespace::{Reach, UnmountFlags},
};
use linux_raw_sys::general as raw;

fn mount(world: &World, at: &str, flags: MountFlags) {
    let place = world.walk(at).unwrap();
    world.namespace.mount(&world.who, "tmpfs", tmpfs(), &place, flags).unwrap();
}

fn unmount(world: &World, at: &str, flags: UnmountFlags) -> Result<(), Errno> {
    world.namespace.unmount(&world.who, world.walk(at).unwrap(), flags)
}

fn world() -> World {
    let world = World::new();
    world.mkdir("/m").unwrap();
    world.write("/m/below", b"below").unwrap();
    world
}

#[test]
fn a_mount_covers_its_place_until_it_goes() {
    let world = world();
    mount(&world, "/m", MountFlags::empty());
    assert_eq!(world.walk("/m/below").err(), Some(Errno::ENOENT));
    world.write("/m/above", b"above").unwrap();
    let above = world.walk("/m/above").unwrap();
    assert_eq!(world.name(&above), "/m/above");
    assert_ne!(above.status().device, world.root.status().device);
    assert_eq!(world.name(&world.walk("/m/..").unwrap()), "/");
    assert_eq!(world.rename("/m/above", "/x"), Err(Errno::EXDEV));
    assert_eq!(world.rmdir("/m"), Err(Errno::EBUSY));
    assert_eq!(unmount(&world, "/m", UnmountFlags::empty()), Err(Errno::EBUSY));
    drop(above);
    assert_eq!(unmount(&world, "/m", UnmountFlags::empty()), Ok(()));
    assert_eq!(world.read("/m/below").unwrap(), b"below");
    assert_eq!(world.rmdir("/m"), Err(Errno::ENOTEMPTY));
}

#[test]
fn mounts_stack_and_nest() {
    let world = world();
    mount(&world, "/m", MountFlags::empty());
    mount(&world, "/m", MountFlags::empty());
    world.mkdir("/m/n").unwrap();
    mount(&world, "/m/n", MountFlags::empty());
    assert_eq!(unmount(&world, "/m", UnmountFlags::empty()), Err(Errno::EBUSY));
    assert_eq!(unmount(&world, "/m/n", UnmountFlags::empty()), Ok(()));
    assert_eq!(unmount(&world, "/m", UnmountFlags::empty()), Ok(()));
    assert_eq!(world.walk("/m/n").err(), Some(Errno::ENOENT));
    assert_eq!(unmount(&world, "/m", UnmountFlags::empty()), Ok(()));
    assert_eq!(unmount(&world, "/m", UnmountFlags::empty()), Err(Errno::EINVAL));
    assert_eq!(unmount(&world, "/", UnmountFlags::empty()), Err(Errno::EBUSY));
}

#[test]
fn a_detached_mount_lives_as_long_as_it_is_used() {
    let world = world();
    mount(&world, "/m", MountFlags::empty());
    world.write("/m/f", b"data").unwrap();
    let file = world.open("/m/f", raw::O_RDONLY).unwrap();
    assert_eq!(unmount(&world, "/m", UnmountFlags::DETACH), Ok(()));
    assert_eq!(world.walk("/m/f").err(), Some(Errno::ENOENT));
    assert_eq!(super::get(&file).unwrap(), b"data");
    assert!(!file.path().describe(&world.root).is_reachable);
}

#[test]
fn a_read_only_mount_refuses_every_change_and_keeps_times() {
    let world = world();
    mount(&world, "/m", MountFlags::empty());
    world.write("/m/f", b"data").unwrap();
    let place = world.walk("/m").unwrap();
    let read_only = MountFlags::READ_ONLY;
    world.namespace.remount(&world.who, &place, read_only, Reach::FileSystem).unwrap();
    let file = world.walk("/m/f").unwrap();
    let before = file.status().attributes;
    assert_eq!(world.read("/m/f").unwrap(), b"data");
    assert_eq!(file.status().attributes, before);
    assert_eq!(world.open("/m/f", raw::O_WRONLY).err(), Some(Errno::EROFS));
    assert_eq!(world.write("/m/new", b"").err(), Some(Errno::EROFS));
    assert_eq!(world.mkdir("/m/d"), Err(Errno::EROFS));
    assert_eq!(world.mkdir("/m/f"), Err(Errno::EEXIST));
    assert_eq!(world.unlink("/m/f"), Err(Errno::EROFS));
    assert_eq!(world.caller().change_mode(&file, 0), Err(Errno::EROFS));
    assert_eq!(world.rename("/m/f", "/m/g"), Err(Errno::EROFS));
    world.namespace.remount(&world.who, &place, MountFlags::empty(), Reach::FileSystem).unwrap();
    assert_eq!(world.unlink("/m/f"), Ok(()));
}

#[test]
fn a_bind_shows_the_same_files_twice() {
    let world = world();
    world.mkdir("/other").unwrap();
    let from = world.walk("/m").unwrap();
    let to = world.walk("/other").unwrap();
    world.namespace.bind(&world.who, &from, &to).unwrap();
    world.write("/other/both", b"1").unwrap();
    assert_eq!(world.read("/m/both").unwrap(), b"1");
    assert_eq!(world.name(&world.walk("/other/both").unwrap()), "/other/both");
    assert_eq!(world.name(&world.walk("/other/..").unwrap()), "/");
    let file = world.walk("/m/below").unwrap();
    assert_eq!(world.namespace.bind(&world.who, &file, &to).err(), Some(Errno::ENOTDIR));
}

#[test]
fn a_recursive_bind_takes_the_mounts_below_along() {
    let world = world();
    world.mkdir("/m/in").unwrap();
    world.mkdir("/copy").unwrap();
    mount(&world, "/m/in", MountFlags::empty());
    world.write("/m/in/f", b"deep").unwrap();
    let (from, to) = (world.walk("/m").unwrap(), world.walk("/copy").unwrap());
    world.namespace.bind_recursively(&world.who, &from, &to).unwrap();
    assert_eq!(world.read("/copy/in/f").unwrap(), b"deep");
}

#[test]
fn a_mount_can_be_moved_but_not_into_itself() {
    let world = world();
    world.mkdir("/to").unwrap();
    mount(&world, "/m", MountFlags::empty());
    world.write("/m/f", b"moved").unwrap();
    let (from, to) = (world.walk("/m").unwrap(), world.walk("/to").unwrap());
    world.mkdir("/m/sub").unwrap();
    let inside = world.walk("/m/sub").unwrap();
    assert_eq!(world.namespace.move_mount(&world.who, &from, &inside), Err(Errno::ELOOP));
    world.namespace.move_mount(&world.who, &from, &to).unwrap();
    assert_eq!(world.read("/to/f").unwrap(), b"moved");
    assert_eq!(world.read("/m/below").unwrap(), b"below");
    assert_eq!(world.namespace.move_mount(&world.who, &to, &from), Err(Errno::EINVAL));
}

#[test]
fn mounting_is_for_administrators() {
    let world = world();
    let user = Credentials::user(1, 1, &[]);
    let place = world.walk("/m").unwrap();
    let refused = world.namespace.mount(&user, "t", tmpfs(), &place, MountFlags::empty());
    assert_eq!(refused.err(), Some(Errno::EPERM));
    let gone = world.namespace.unmount(&user, place, UnmountFlags::empty());
    assert_eq!(gone, Err(Errno::EPERM));
}

#[test]
fn flags_forbid_devices_and_programs() {
    let world = world();
    mount(&world, "/m", MountFlags::NO_DEVICES | MountFlags::NO_EXECUTE);
    let character = interfaces::file_system::FileType::Character;
    let caller = world.caller();
    caller.make_node(crate::Base::Cwd, b"/m/null", (character, 0o666), (1, 3)).unwrap();
    assert_eq!(world.open("/m/null", raw::O_RDONLY).err(), Some(Errno::EACCES));
    world.write("/m/program", b"#!").unwrap();
    let program = world.walk("/m/program").unwrap();
    caller.change_mode(&program, 0o755).unwrap();
    let run = caller.open_executable(crate::Base::Cwd, b"/m/program", crate::Walk::FOLLOW);
    assert_eq!(run.err(), Some(Errno::EACCES));
    assert_eq!(program.mount.flags().describe(), "rw,nodev,noexec,relatime");
}

#[test]
fn the_root_can_change_places_with_another_mount() {
    let world = world();
    mount(&world, "/m", MountFlags::empty());
    world.mkdir("/m/old").unwrap();
    world.mkdir("/m/plain").unwrap();
    world.mkdir("/elsewhere").unwrap();
    let pivot = |new: &str, put: &str| {
        let (new, put) = (world.walk(new).unwrap(), world.walk(put).unwrap());
        world.namespace.pivot(&world.who, (&world.root, &new), &put)
    };
    assert_eq!(pivot("/m", "/elsewhere"), Err(Errno::EBUSY));
    assert_eq!(pivot("/elsewhere", "/m/old"), Err(Errno::EBUSY));
    assert_eq!(pivot("/m/plain", "/m/old"), Err(Errno::EINVAL));
    assert_eq!(pivot("/m", "/m/old"), Ok(()));
    let root = world.namespace.root();
    let moved = crate::Caller { root: &root, cwd: &root, ..world.caller() };
    let walk = |path: &str| moved.walk(crate::Base::Cwd, path.as_bytes(), crate::Walk::FOLLOW);
    assert!(walk("/plain").is_ok());
    assert!(walk("/old/elsewhere").is_ok());
    assert_eq!(walk("/old/m").unwrap().describe(&root).text, b"/old/m");
    assert_eq!(walk("/old/..").unwrap().describe(&root).text, b"/");
}

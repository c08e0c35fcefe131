//! Tests of the rights of users.
use super::{World, put};
use crate::{
    Base, Credentials, Errno, Walk,
    operations::attributes::{AccessIds, TimeSetting},
    permission::Want,
};
use interfaces::file_system::{FileTime, FileType};
use linux_raw_sys::general as raw;

fn chmod(world: &World, path: &str, mode: u16) {
    world.caller().change_mode(&world.walk(path).unwrap(), mode).unwrap();
}

fn chown(world: &World, path: &str, user: u32, group: u32) {
    world.caller().change_owner(&world.walk(path).unwrap(), Some(user), Some(group)).unwrap();
}

fn mode(world: &World, path: &str) -> u16 {
    world.walk(path).unwrap().status().attributes.permissions
}

#[test]
fn owner_group_and_others_get_their_own_bits() {
    let root = World::new();
    root.write("/f", b"x").unwrap();
    chown(&root, "/f", 10, 20);
    chmod(&root, "/f", 0o640);
    let owner = root.with(Credentials::user(10, 1, &[]));
    let member = root.with(Credentials::user(11, 1, &[5, 20]));
    let other = root.with(Credentials::user(12, 1, &[]));
    assert!(owner.open("/f", raw::O_RDWR).is_ok());
    assert!(member.open("/f", raw::O_RDONLY).is_ok());
    assert_eq!(member.open("/f", raw::O_RDWR).err(), Some(Errno::EACCES));
    assert_eq!(other.open("/f", raw::O_RDONLY).err(), Some(Errno::EACCES));
    chmod(&root, "/f", 0o077);
    assert_eq!(owner.open("/f", raw::O_RDONLY).err(), Some(Errno::EACCES));
    assert!(root.open("/f", raw::O_RDWR).is_ok());
}

#[test]
fn directories_are_searched_with_permission_only() {
    let root = World::new();
    root.mkdir("/d").unwrap();
    root.write("/d/f", b"x").unwrap();
    chmod(&root, "/d", 0o700);
    let user = root.with(Credentials::user(10, 10, &[]));
    assert_eq!(user.walk("/d/f").err(), Some(Errno::EACCES));
    assert_eq!(user.walk("/d/none").err(), Some(Errno::EACCES));
    chmod(&root, "/d", 0o711);
    assert!(user.walk("/d/f").is_ok());
    assert_eq!(user.open("/d", raw::O_RDONLY).err(), Some(Errno::EACCES));
    assert_eq!(user.write("/d/new", b"").err(), Some(Errno::EACCES));
    assert_eq!(user.unlink("/d/f"), Err(Errno::EACCES));
}

#[test]
fn a_sticky_directory_keeps_names_from_strangers() {
    let root = World::new();
    root.mkdir("/tmp").unwrap();
    chmod(&root, "/tmp", 0o1777);
    let one = root.with(Credentials::user(1, 1, &[]));
    let two = root.with(Credentials::user(2, 2, &[]));
    one.write("/tmp/f", b"").unwrap();
    two.write("/tmp/g", b"").unwrap();
    assert_eq!(two.unlink("/tmp/f"), Err(Errno::EPERM));
    assert_eq!(two.rename("/tmp/f", "/tmp/h"), Err(Errno::EPERM));
    assert_eq!(two.rename("/tmp/g", "/tmp/f"), Err(Errno::EPERM));
    assert_eq!(one.unlink("/tmp/f"), Ok(()));
    assert_eq!(root.unlink("/tmp/g"), Ok(()));
}

#[test]
fn setgid_directories_pass_their_group_on() {
    let root = World::new();
    root.mkdir("/d").unwrap();
    chown(&root, "/d", 0, 77);
    chmod(&root, "/d", 0o2777);
    let user = root.with(Credentials::user(1, 1, &[]));
    user.mkdir("/d/sub").unwrap();
    user.write("/d/f", b"").unwrap();
    assert_eq!(user.walk("/d/sub").unwrap().vnode().owner(), (1, 77));
    assert_eq!(mode(&user, "/d/sub"), 0o2755);
    assert_eq!(user.walk("/d/f").unwrap().vnode().owner(), (1, 77));
    assert_eq!(mode(&user, "/d/f"), 0o644);
}

#[test]
fn the_umask_takes_bits_away() {
    let mut world = World::new();
    world.umask = 0o077;
    world.write("/f", b"").unwrap();
    world.mkdir("/d").unwrap();
    assert_eq!((mode(&world, "/f"), mode(&world, "/d")), (0o600, 0o700));
}

#[test]
fn writing_and_giving_away_clear_setuid() {
    let root = World::new();
    root.write("/f", b"").unwrap();
    chown(&root, "/f", 1, 1);
    chmod(&root, "/f", 0o6777);
    let user = root.with(Credentials::user(2, 2, &[]));
    put(&user.open("/f", raw::O_WRONLY).unwrap(), b"x").unwrap();
    assert_eq!(mode(&root, "/f"), 0o777);
    chmod(&root, "/f", 0o6777);
    chown(&root, "/f", 3, 3);
    assert_eq!(mode(&root, "/f"), 0o777);
    chmod(&root, "/f", 0o2644);
    chown(&root, "/f", 3, 4);
    assert_eq!(mode(&root, "/f"), 0o2644);
}

#[test]
fn only_owners_change_modes_and_only_root_gives_away() {
    let root = World::new();
    root.write("/f", b"").unwrap();
    chown(&root, "/f", 1, 1);
    let owner = root.with(Credentials::user(1, 1, &[9]));
    let other = root.with(Credentials::user(2, 2, &[]));
    let file = root.walk("/f").unwrap();
    assert_eq!(other.caller().change_mode(&file, 0o777), Err(Errno::EPERM));
    assert_eq!(owner.caller().change_mode(&file, 0o600), Ok(()));
    assert_eq!(owner.caller().change_owner(&file, Some(2), None), Err(Errno::EPERM));
    assert_eq!(owner.caller().change_owner(&file, None, Some(8)), Err(Errno::EPERM));
    assert_eq!(owner.caller().change_owner(&file, None, Some(9)), Ok(()));
    chown(&root, "/f", 1, 8);
    owner.caller().change_mode(&file, 0o2755).unwrap();
    assert_eq!(file.vnode().permissions(), 0o755);
}

#[test]
fn times_are_set_by_owners_and_touched_by_writers() {
    let root = World::new();
    root.write("/f", b"").unwrap();
    chmod(&root, "/f", 0o666);
    let other = root.with(Credentials::user(2, 2, &[]));
    let file = root.walk("/f").unwrap();
    let at = FileTime { seconds: 1000, nanoseconds: 7 };
    let set =
        |world: &World, accessed, modified| world.caller().set_times(&file, accessed, modified);
    assert_eq!(set(&root, TimeSetting::At(at), TimeSetting::Omit), Ok(()));
    assert_eq!(file.status().attributes.accessed, at);
    assert_ne!(file.status().attributes.modified, at);
    assert_eq!(set(&other, TimeSetting::At(at), TimeSetting::At(at)), Err(Errno::EPERM));
    assert_eq!(set(&other, TimeSetting::Now, TimeSetting::Omit), Err(Errno::EPERM));
    assert_eq!(set(&other, TimeSetting::Now, TimeSetting::Now), Ok(()));
    chmod(&root, "/f", 0o644);
    assert_eq!(set(&other, TimeSetting::Now, TimeSetting::Now), Err(Errno::EACCES));
    assert_eq!(set(&other, TimeSetting::Omit, TimeSetting::Omit), Ok(()));
}

#[test]
fn reading_updates_the_access_time_once_after_a_change() {
    let world = World::new();
    world.write("/f", b"x").unwrap();
    let file = world.walk("/f").unwrap();
    let old = FileTime { seconds: 1, nanoseconds: 0 };
    world.caller().set_times(&file, TimeSetting::At(old), TimeSetting::At(old)).unwrap();
    world.read("/f").unwrap();
    let first = file.status().attributes.accessed;
    assert!(first > old);
    world.read("/f").unwrap();
    assert_eq!(file.status().attributes.accessed, first);
    let quiet = world.open("/f", raw::O_RDONLY | raw::O_NOATIME).unwrap();
    world.caller().set_times(&file, TimeSetting::At(old), TimeSetting::At(old)).unwrap();
    super::get(&quiet).unwrap();
    assert_eq!(file.status().attributes.accessed, old);
}

#[test]
fn access_asks_with_real_ids_unless_told() {
    let root = World::new();
    root.write("/f", b"").unwrap();
    chmod(&root, "/f", 0o600);
    let mut who = Credentials::root();
    who.user.real = 5;
    let setuid = root.with(who);
    let access = |want, ids| setuid.caller().access(Base::Cwd, b"/f", (want, ids), Walk::FOLLOW);
    assert_eq!(access(Want::READ, AccessIds::Real), Err(Errno::EACCES));
    assert_eq!(access(Want::READ, AccessIds::Effective), Ok(()));
    assert_eq!(access(Want::EXECUTE, AccessIds::Effective), Err(Errno::EACCES));
    assert_eq!(access(Want::empty(), AccessIds::Real), Ok(()));
}

#[test]
fn device_nodes_need_a_capability_and_an_opener() {
    let root = World::new();
    let make = |world: &World, kind, path: &[u8]| {
        world.caller().make_node(Base::Cwd, path, (kind, 0o666), (1, 3)).map(drop)
    };
    assert_eq!(make(&root, FileType::Character, b"/null"), Ok(()));
    chmod(&root, "/", 0o777);
    let user = root.with(Credentials::user(1, 1, &[]));
    assert_eq!(make(&user, FileType::Character, b"/null2"), Err(Errno::EPERM));
    assert_eq!(make(&user, FileType::Fifo, b"/fifo"), Ok(()));
    assert_eq!(make(&user, FileType::Socket, b"/socket"), Ok(()));
    assert_eq!(root.open("/null", raw::O_RDWR).err(), Some(Errno::ENXIO));
    assert_eq!(user.open("/null", raw::O_RDWR).err(), Some(Errno::EACCES));
    assert_eq!(user.open("/socket", raw::O_RDWR).err(), Some(Errno::ENXIO));
    assert_eq!(root.walk("/null").unwrap().status().attributes.device, (1, 3));
}

#[test]
fn a_program_being_run_is_not_written_and_a_file_being_written_not_run() {
    let world = World::new();
    world.write("/program", b"x").unwrap();
    let vnode = world.walk("/program").unwrap().vnode().clone();
    let running = vnode.deny_write().unwrap();
    assert_eq!(world.open("/program", raw::O_WRONLY).err(), Some(Errno::ETXTBSY));
    drop(running);
    let writing = world.open("/program", raw::O_WRONLY).unwrap();
    assert!(vnode.deny_write().is_err());
    drop(writing);
    assert!(vnode.deny_write().is_ok());
}

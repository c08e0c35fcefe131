//! Tests of path walks: links, dots, slashes, limits, scopes.
use super::World;
use crate::{Base, Errno, OpenHow, Walk};
use linux_raw_sys::general as raw;

fn tree() -> World {
    let world = World::new();
    world.mkdir("/a").unwrap();
    world.mkdir("/a/b").unwrap();
    world.write("/a/b/file", b"text").unwrap();
    world.symlink("b/file", "/a/relative").unwrap();
    world.symlink("/a/b", "/absolute").unwrap();
    world.symlink("loop", "/loop").unwrap();
    world.symlink("nowhere", "/dangling").unwrap();
    world
}

#[test]
fn dots_and_slashes_lead_where_they_should() {
    let world = tree();
    for path in ["/a/b/file", "//a///b/./file", "a/b/../b/file", "/../../a/b/file", "./a/b/file"] {
        assert_eq!(world.name(&world.walk(path).unwrap()), "/a/b/file", "{path}");
    }
    assert_eq!(world.name(&world.walk("/").unwrap()), "/");
    assert_eq!(world.name(&world.walk("/..").unwrap()), "/");
}

#[test]
fn links_are_followed_in_the_middle_and_at_the_end() {
    let world = tree();
    assert_eq!(world.read("/a/relative").unwrap(), b"text");
    assert_eq!(world.read("/absolute/file").unwrap(), b"text");
    assert_eq!(world.name(&world.walk("/absolute/../relative").unwrap()), "/a/b/file");
    assert_eq!(world.name(&world.walk_link("/absolute").unwrap()), "/absolute");
    assert_eq!(world.name(&world.walk_link("/absolute/").unwrap()), "/a/b");
}

#[test]
fn forty_links_are_followed_and_one_more_is_a_loop() {
    let world = tree();
    assert_eq!(world.walk("/loop").err(), Some(Errno::ELOOP));
    world.symlink("/a/b/file", "/l0").unwrap();
    for link in 1..=40 {
        world.symlink(&format!("/l{}", link - 1), &format!("/l{link}")).unwrap();
    }
    assert!(world.walk("/l39").is_ok());
    assert_eq!(world.walk("/l40").err(), Some(Errno::ELOOP));
}

#[test]
fn a_trailing_slash_wants_a_directory() {
    let world = tree();
    assert_eq!(world.walk("/a/b/file/").err(), Some(Errno::ENOTDIR));
    assert_eq!(world.walk("/a/b/file/.").err(), Some(Errno::ENOTDIR));
    assert_eq!(world.walk("/a/relative/").err(), Some(Errno::ENOTDIR));
    assert!(world.walk("/a/b//").is_ok());
    assert_eq!(world.mkdir("/a/new/"), Ok(()));
    assert_eq!(world.open("/a/other/", raw::O_CREAT | raw::O_WRONLY).err(), Some(Errno::EISDIR));
    assert_eq!(world.unlink("/a/b/file/"), Err(Errno::ENOTDIR));
    assert_eq!(world.unlink("/a/b/"), Err(Errno::EISDIR));
    assert_eq!(world.symlink("x", "/a/none/"), Err(Errno::ENOENT));
}

#[test]
fn limits_and_emptiness_are_told_apart() {
    let world = tree();
    let long = "n".repeat(255);
    assert_eq!(world.walk(&long).err(), Some(Errno::ENOENT));
    assert_eq!(world.walk(&format!("{long}n")).err(), Some(Errno::ENAMETOOLONG));
    assert_eq!(world.walk(&format!("{long}n/x")).err(), Some(Errno::ENAMETOOLONG));
    assert_eq!(world.mkdir(&format!("{long}n")), Err(Errno::ENAMETOOLONG));
    assert!(world.walk(&"./".repeat(2047)).is_ok());
    assert_eq!(world.walk(&"./".repeat(2048)).err(), Some(Errno::ENAMETOOLONG));
    assert_eq!(world.walk("").err(), Some(Errno::ENOENT));
    assert_eq!(world.walk("/a/b/file/x").err(), Some(Errno::ENOTDIR));
    assert_eq!(world.walk("/none/x").err(), Some(Errno::ENOENT));
}

#[test]
fn an_empty_path_can_mean_the_descriptor_itself() {
    let world = tree();
    let file = world.walk("/a/b/file").unwrap();
    let found = world.caller().walk(Base::At(&file), b"", Walk::EMPTY).unwrap();
    assert!(found.is_same(&file));
    let below = world.caller().walk(Base::At(&file), b"x", Walk::EMPTY);
    assert_eq!(below.err(), Some(Errno::ENOTDIR));
}

#[test]
fn open_does_not_follow_where_told_not_to() {
    let world = tree();
    let nofollow = raw::O_NOFOLLOW;
    assert_eq!(world.open("/a/relative", nofollow).err(), Some(Errno::ELOOP));
    assert_eq!(world.open("/absolute", nofollow | raw::O_DIRECTORY).err(), Some(Errno::ENOTDIR));
    let link = world.open("/a/relative", nofollow | raw::O_PATH).unwrap();
    assert_eq!(world.caller().read_link(link.path()).unwrap(), b"b/file");
    assert_eq!(super::get(&link).err(), Some(Errno::EBADF));
    let exclusive = raw::O_CREAT | raw::O_EXCL | raw::O_WRONLY;
    assert_eq!(world.open("/dangling", exclusive).err(), Some(Errno::EEXIST));
}

#[test]
fn creating_through_a_dangling_link_makes_its_target() {
    let world = tree();
    world.write("/dangling", b"now").unwrap();
    assert_eq!(world.read("/nowhere").unwrap(), b"now");
}

#[test]
fn a_scoped_walk_stays_in_its_scope() {
    let world = tree();
    let base = world.walk("/a").unwrap();
    world.symlink("../b", "/a/b/up").unwrap();
    world.symlink("../../absolute", "/a/b/out").unwrap();
    let walk = |path: &str, flags| {
        let found = world.caller().walk(Base::At(&base), path.as_bytes(), flags | Walk::FOLLOW);
        found.map(|found| world.name(&found))
    };
    assert_eq!(walk("b/up/file", Walk::BENEATH), Ok("/a/b/file".into()));
    assert_eq!(walk("..", Walk::BENEATH), Err(Errno::EXDEV));
    assert_eq!(walk("b/out", Walk::BENEATH), Err(Errno::EXDEV));
    assert_eq!(walk("/b", Walk::BENEATH), Err(Errno::EXDEV));
    assert_eq!(walk("/b", Walk::IN_ROOT), Ok("/a/b".into()));
    assert_eq!(walk("../../b", Walk::IN_ROOT), Ok("/a/b".into()));
    assert_eq!(walk("relative", Walk::NO_SYMLINKS), Err(Errno::ELOOP));
    let how = OpenHow { flags: raw::O_CREAT | raw::O_WRONLY, mode: 0o600, resolve: Walk::BENEATH };
    assert_eq!(world.caller().open(Base::At(&base), b"../x", how).err(), Some(Errno::EXDEV));
}

#[test]
fn a_chroot_is_not_left_by_dots() {
    let mut world = tree();
    world.root = world.walk("/a").unwrap();
    world.cwd = world.root.clone();
    assert_eq!(world.name(&world.walk("/../../b").unwrap()), "/b");
    assert_eq!(world.walk("/a").err(), Some(Errno::ENOENT));
}

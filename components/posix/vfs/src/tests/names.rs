//! Tests of names that are made and removed: create, link, unlink, rename, the name cache, many
//! threads at once.
use super::{World, get, put};
use crate::{Base, Errno, operations::RenameMode};
use linux_raw_sys::general as raw;
use std::{sync::Arc, thread};

#[test]
fn exclusive_creation_happens_once() {
    let world = World::new();
    let exclusive = raw::O_CREAT | raw::O_EXCL | raw::O_RDWR;
    assert!(world.open("/f", exclusive).is_ok());
    assert_eq!(world.open("/f", exclusive).err(), Some(Errno::EEXIST));
    assert!(world.open("/f", raw::O_CREAT | raw::O_RDWR).is_ok());
    assert_eq!(world.mkdir("/f"), Err(Errno::EEXIST));
    assert_eq!(world.mkdir("/."), Err(Errno::EEXIST));
    assert_eq!(world.mkdir("/"), Err(Errno::EEXIST));
}

#[test]
fn an_unlinked_file_lives_while_it_is_open() {
    let world = World::new();
    world.write("/f", b"still here").unwrap();
    let file = world.open("/f", raw::O_RDONLY).unwrap();
    world.unlink("/f").unwrap();
    assert_eq!(world.walk("/f").err(), Some(Errno::ENOENT));
    assert_eq!(get(&file).unwrap(), b"still here");
    assert_eq!(file.path().status().attributes.links, 0);
    assert!(file.path().describe(&world.root).is_deleted);
}

#[test]
fn names_that_are_nowhere_else_stay_in_the_cache() {
    let world = World::new();
    world.write("/f", b"kept").unwrap();
    world.root.mount.instance().names().shrink();
    world.root.mount.instance().names().shrink();
    assert_eq!(world.root.mount.instance().names().len(), 1);
    assert_eq!(world.read("/f").unwrap(), b"kept");
}

#[test]
fn links_share_data_and_attributes() {
    let world = World::new();
    world.write("/one", b"1").unwrap();
    let place = world.walk("/one").unwrap();
    world.caller().link(&place, Base::Cwd, b"/two").unwrap();
    assert_eq!(world.caller().link(&place, Base::Cwd, b"/two"), Err(Errno::EEXIST));
    world.write("/two", b"both").unwrap();
    assert_eq!(world.read("/one").unwrap(), b"both");
    assert_eq!(place.status().attributes.links, 2);
    world.unlink("/one").unwrap();
    assert_eq!(world.read("/two").unwrap(), b"both");
    assert_eq!(world.walk("/two").unwrap().status().attributes.links, 1);
    world.mkdir("/d").unwrap();
    let directory = world.walk("/d").unwrap();
    assert_eq!(world.caller().link(&directory, Base::Cwd, b"/e"), Err(Errno::EPERM));
}

#[test]
fn directories_are_removed_only_when_empty_and_then_take_no_names() {
    let mut world = World::new();
    world.mkdir("/d").unwrap();
    world.write("/d/f", b"").unwrap();
    assert_eq!(world.rmdir("/d"), Err(Errno::ENOTEMPTY));
    assert_eq!(world.rmdir("/d/."), Err(Errno::EINVAL));
    assert_eq!(world.rmdir("/d/.."), Err(Errno::ENOTEMPTY));
    assert_eq!(world.rmdir("/"), Err(Errno::EBUSY));
    assert_eq!(world.rmdir("/d/f"), Err(Errno::ENOTDIR));
    assert_eq!(world.unlink("/d"), Err(Errno::EISDIR));
    world.unlink("/d/f").unwrap();
    world.cwd = world.walk("/d").unwrap();
    world.rmdir("/d").unwrap();
    assert_eq!(world.mkdir("x"), Err(Errno::ENOENT));
    assert_eq!(world.walk("x").err(), Some(Errno::ENOENT));
    assert_eq!(world.name(&world.walk("..").unwrap()), "/");
    assert!(world.cwd.describe(&world.root).is_deleted);
}

#[test]
fn rename_moves_replaces_and_refuses() {
    let world = World::new();
    world.mkdir("/a").unwrap();
    world.mkdir("/b").unwrap();
    world.write("/a/f", b"f").unwrap();
    world.write("/b/g", b"g").unwrap();
    world.rename("/a/f", "/b/g").unwrap();
    assert_eq!(world.read("/b/g").unwrap(), b"f");
    assert_eq!(world.walk("/a/f").err(), Some(Errno::ENOENT));
    assert_eq!(world.rename("/a/f", "/x"), Err(Errno::ENOENT));
    assert_eq!(world.rename("/b/g", "/a"), Err(Errno::EISDIR));
    assert_eq!(world.rename("/a", "/b/g"), Err(Errno::ENOTDIR));
    assert_eq!(world.rename("/a", "/a/below"), Err(Errno::EINVAL));
    assert_eq!(world.rename("/b/g", "/b"), Err(Errno::ENOTEMPTY));
    assert_eq!(world.rename("/b/g", "/x/"), Err(Errno::ENOTDIR));
    assert_eq!(world.rename("/a/.", "/x"), Err(Errno::EBUSY));
    assert_eq!(world.rename("/a", "/b"), Err(Errno::ENOTEMPTY));
    assert_eq!(world.rename("/b", "/a"), Ok(()));
    assert_eq!(world.read("/a/g").unwrap(), b"f");
    assert_eq!(world.rename_as("/a", "/a2", RenameMode::NoReplace), Ok(()));
    world.mkdir("/c").unwrap();
    assert_eq!(world.rename_as("/a2", "/c", RenameMode::NoReplace), Err(Errno::EEXIST));
    assert_eq!(world.rename_as("/a2/g", "/c", RenameMode::Exchange), Ok(()));
    assert_eq!(world.read("/c").unwrap(), b"f");
    assert_eq!(world.rename_as("/c", "/none", RenameMode::Exchange), Err(Errno::ENOENT));
}

#[test]
fn a_working_directory_follows_renames_above_it() {
    let mut world = World::new();
    world.mkdir("/a").unwrap();
    world.mkdir("/a/b").unwrap();
    world.mkdir("/z").unwrap();
    world.cwd = world.walk("/a/b").unwrap();
    world.rename("/a", "/z/moved").unwrap();
    assert_eq!(world.name(&world.cwd), "/z/moved/b");
    assert_eq!(world.name(&world.walk("../..").unwrap()), "/z");
}

#[test]
fn deep_trees_are_dropped_without_deep_stacks() {
    let mut world = World::new();
    for _ in 0..20_000 {
        world.mkdir("d").unwrap();
        world.cwd = world.walk("d").unwrap();
    }
    world.cwd = world.root.clone();
    drop(world);
}

#[test]
fn lookups_race_with_renames_and_always_find_one_of_the_names() {
    let world = Arc::new(World::new());
    world.mkdir("/x").unwrap();
    world.mkdir("/y").unwrap();
    world.write("/x/f", b"data").unwrap();
    let renamer = {
        let world = world.clone();
        thread::spawn(move || {
            for _ in 0..2000 {
                world.rename("/x/f", "/y/f").unwrap();
                world.rename("/y/f", "/x/f").unwrap();
            }
        })
    };
    let mut found = 0;
    while !renamer.is_finished() {
        let names = [world.walk("/x/f"), world.walk("/y/f"), world.walk("/x/f")];
        for name in names.into_iter().flatten() {
            assert_eq!(name.status().attributes.size, 4);
            found += 1;
        }
    }
    renamer.join().unwrap();
    assert_eq!(world.read("/x/f").unwrap(), b"data");
    assert_eq!(world.walk("/y/f").err(), Some(Errno::ENOENT));
    let _ = found;
}

#[test]
fn threads_that_make_and_remove_the_same_names_agree_with_the_file_system() {
    let world = Arc::new(World::new());
    world.mkdir("/d").unwrap();
    let threads: Vec<_> = (0..4)
        .map(|me| {
            let world = world.clone();
            thread::spawn(move || {
                for round in 0..1000 {
                    let name = format!("/d/{}", (round * 7 + me) % 5);
                    match round % 4 {
                        0 => drop(world.write(&name, b"x")),
                        1 => drop(world.unlink(&name)),
                        2 => drop(world.rename(&name, &format!("/d/{}", (round + me) % 5))),
                        _ => drop(world.walk(&name)),
                    }
                    if round % 100 == 0 {
                        world.root.mount.instance().names().shrink();
                    }
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    let listed: Vec<String> =
        world.list("/d").into_iter().filter(|name| !name.starts_with('.')).collect();
    for name in 0..5 {
        let is_found = world.walk(&format!("/d/{name}")).is_ok();
        assert_eq!(is_found, listed.contains(&name.to_string()), "{name}");
    }
}

#[test]
fn two_opposite_directory_renames_never_make_a_loop() {
    let world = Arc::new(World::new());
    world.mkdir("/a").unwrap();
    world.mkdir("/b").unwrap();
    let mover = |from: &'static str, to: &'static str| {
        let world = world.clone();
        thread::spawn(move || {
            for _ in 0..1000 {
                let _ = world.rename(from, &format!("{to}/in"));
                let _ = world.rename(&format!("{to}/in"), from);
            }
        })
    };
    let threads = [mover("/a", "/b"), mover("/b", "/a")];
    for thread in threads {
        thread.join().unwrap();
    }
    let top: Vec<String> =
        world.list("/").into_iter().filter(|name| !name.starts_with('.')).collect();
    assert!(!top.is_empty(), "both directories vanished into each other");
}

#[test]
fn appends_of_many_threads_do_not_overlap() {
    let world = Arc::new(World::new());
    world.write("/log", b"").unwrap();
    let threads: Vec<_> = (0..4u8)
        .map(|me| {
            let world = world.clone();
            thread::spawn(move || {
                let file = world.open("/log", raw::O_WRONLY | raw::O_APPEND).unwrap();
                for _ in 0..500 {
                    assert_eq!(put(&file, &[b'a' + me; 37]), Ok(37));
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    let log = world.read("/log").unwrap();
    assert_eq!(log.len(), 4 * 500 * 37);
    for record in log.chunks(37) {
        assert!(record.iter().all(|byte| *byte == record[0]));
    }
}

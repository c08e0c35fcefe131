//! Tests of files that exist in the caches only: contents and counts of a directory, the space of an inode and
//! its release.
use super::World;
use crate::{
    Active, Base, Errno, NOBODY, OpenHow, Path, operations::RenameMode, security::SecuritySubject,
};
use linux_raw_sys::general as raw;
use std::{collections::BTreeSet, sync::Arc};

fn limited(inodes: u64) -> World {
    let options = tmpfs::Options { inodes: Some(inodes), permissions: 0o755, ..Default::default() };
    World::over(Active::stored(&(), tmpfs::new(options).unwrap(), None).unwrap())
}

fn free(world: &World) -> u64 {
    world.root.mount.usage(&SecuritySubject::kernel()).unwrap().0.files_free
}

fn links(path: &Path) -> u32 {
    path.status().attributes.links
}

fn create(world: &World, path: &str) -> Result<(), Errno> {
    world.open(path, raw::O_CREAT | raw::O_EXCL | raw::O_WRONLY).map(|_| ())
}

fn link(world: &World, from: &str, to: &str) -> Result<(), Errno> {
    world.caller().link(&world.walk_link(from)?, Base::Cwd, to.as_bytes())
}

/// Returns at most `most` names from `position` on, each with the position at which a reader continues after it.
fn shown(world: &World, path: &str, position: u64, most: usize) -> Vec<(String, u64)> {
    let directory = world.open(path, raw::O_RDONLY | raw::O_DIRECTORY).unwrap();
    let mut names = Vec::new();
    directory
        .file()
        .read_directory(position, NOBODY, &mut |entry| {
            names.push((String::from_utf8(entry.name.to_vec()).unwrap(), entry.next));
            match names.len() < most {
                true => std::ops::ControlFlow::Continue(()),
                false => std::ops::ControlFlow::Break(()),
            }
        })
        .unwrap();
    names
}

fn names(world: &World, path: &str) -> Vec<String> {
    let all = shown(world, path, 0, usize::MAX);
    all.into_iter().map(|(name, _)| name).filter(|name| !name.starts_with('.')).collect()
}

#[test]
fn the_newest_name_is_shown_first_and_who_replaces_takes_the_place() {
    let world = World::new();
    for name in ["/a", "/c", "/b"] {
        create(&world, name).unwrap();
    }
    assert_eq!(names(&world, "/"), ["b", "c", "a"]);
    world.rename("/a", "/c").unwrap();
    assert_eq!(names(&world, "/"), ["b", "c"]);
    world.rename("/c", "/new").unwrap();
    assert_eq!(names(&world, "/"), ["new", "b"]);
    world.rename_as("/new", "/b", RenameMode::Exchange).unwrap();
    assert_eq!(names(&world, "/"), ["new", "b"]);
}

#[test]
fn a_reader_sees_every_lasting_name_once_under_change() {
    let world = World::new();
    for number in 0..100 {
        create(&world, &format!("/keep{number}")).unwrap();
        create(&world, &format!("/drop{number}")).unwrap();
    }
    let (mut position, mut seen, mut round) = (0, Vec::new(), 0);
    loop {
        let entries = shown(&world, "/", position, 7);
        let Some(last) = entries.last() else { break };
        position = last.1;
        seen.extend(entries.into_iter().map(|(name, _)| name));
        if round < 100 {
            let _ = world.unlink(&format!("/drop{round}"));
            create(&world, &format!("/new{round}")).unwrap();
            let _ = world.rename(&format!("/drop{}", 99 - round), &format!("/moved{round}"));
        }
        round += 1;
    }
    let kept: Vec<_> = seen.iter().filter(|name| name.starts_with("keep")).collect();
    assert_eq!(kept.len(), 100);
    assert_eq!(kept.iter().collect::<BTreeSet<_>>().len(), 100);
}

#[test]
fn names_are_found_at_their_positions_whatever_gaps_there_are() {
    let world = World::new();
    for number in 0..500 {
        create(&world, &format!("/{number}")).unwrap();
    }
    let mut left: Vec<u32> = (0..500).collect();
    // The stride decides which names are removed: gaps in the middle, at the front and at the back.
    for (stride, offset) in [(3, 1), (2, 0), (5, 4), (7, 6), (1, 0)] {
        let gone: Vec<u32> = left.iter().copied().skip(offset).step_by(stride).collect();
        for number in &gone {
            world.unlink(&format!("/{number}")).unwrap();
            left.retain(|it| it != number);
        }
        let expected: Vec<String> = left.iter().rev().map(u32::to_string).collect();
        assert_eq!(names(&world, "/"), expected);
        assert_eq!(world.root.status().attributes.size, 40 + 20 * left.len() as u64);
    }
    create(&world, "/again").unwrap();
    assert_eq!(names(&world, "/"), ["again"]);
}

#[test]
fn directories_count_their_subdirectories() {
    let world = World::new();
    for name in ["/a", "/b", "/a/m", "/b/r"] {
        world.mkdir(name).unwrap();
    }
    let at = |path| world.walk(path).unwrap();
    let (a, b, replaced) = (at("/a"), at("/b"), at("/b/r"));
    assert_eq!((links(&world.root), links(&a), links(&b)), (4, 3, 3));
    world.rename("/a/m", "/b/r").unwrap();
    assert_eq!((links(&a), links(&b), links(&replaced)), (2, 3, 0));
    world.rename("/b/r", "/top").unwrap();
    assert_eq!((links(&world.root), links(&b)), (5, 2));
    create(&world, "/b/file").unwrap();
    world.rename_as("/top", "/b/file", RenameMode::Exchange).unwrap();
    assert_eq!((links(&world.root), links(&b)), (4, 3));
    assert_eq!(world.rmdir("/b"), Err(Errno::ENOTEMPTY));
    assert_eq!(world.rename("/a", "/b"), Err(Errno::ENOTEMPTY));
    world.rmdir("/b/file").unwrap();
    assert_eq!((links(&b), b.status().attributes.size), (2, 40));
}

#[test]
fn an_unnamed_file_gets_a_name_and_a_file_without_one_gets_none() {
    let world = World::new();
    let how = OpenHow::with_mode(raw::O_TMPFILE | raw::O_RDWR, 0o600);
    let file = world.caller().open(Base::Cwd, b"/", how).unwrap();
    world.caller().link(file.path(), Base::Cwd, b"/f").unwrap();
    assert_eq!(links(&world.walk("/f").unwrap()), 1);
    let place = world.walk("/f").unwrap();
    create(&world, "/g").unwrap();
    let other = world.walk("/g").unwrap();
    world.unlink("/g").unwrap();
    assert_eq!(world.caller().link(&other, Base::Cwd, b"/h"), Err(Errno::ENOENT));
    assert_eq!((links(&place), names(&world, "/")), (1, vec!["f".to_string()]));
}

#[test]
fn inodes_links_and_long_targets_take_from_the_limit_and_give_back() {
    let world = limited(20);
    let before = free(&world);
    assert_eq!(before, 19);
    create(&world, "/f").unwrap();
    link(&world, "/f", "/g").unwrap();
    world.symlink(&"x".repeat(4000), "/long").unwrap();
    world.symlink("short", "/short").unwrap();
    assert_eq!(free(&world), before - 8, "a target of 4000 bytes takes four");
    world.unlink("/f").unwrap();
    let open = world.open("/g", raw::O_RDONLY).unwrap();
    world.unlink("/g").unwrap();
    world.unlink("/long").unwrap();
    assert_eq!(free(&world), before - 2, "an open file lives");
    drop(open);
    world.unlink("/short").unwrap();
    assert_eq!(free(&world), before);
    let made = (0..30).map_while(|number| create(&world, &format!("/{number}")).ok()).count();
    assert_eq!((made, free(&world)), (19, 0));
    assert_eq!(create(&world, "/more"), Err(Errno::ENOSPC));
    assert_eq!(link(&world, "/0", "/more"), Err(Errno::ENOSPC));
    assert_eq!(names(&world, "/").len(), 19);
    world.rename("/0", "/1").unwrap();
    assert_eq!(free(&world), 1);
}

#[test]
fn memory_refused_leaves_nothing_behind() {
    let world = limited(100);
    create(&world, "/there").unwrap();
    let (before, vnodes) = (free(&world), world.root.vnode().instance().vnode_count());
    for what in ["create", "link", "rename"] {
        for grants in 0.. {
            rt::host::refuse_after(Some(grants));
            let outcome = match what {
                "create" => world.mkdir("/made"),
                "link" => link(&world, "/there", "/made"),
                _ => world.rename("/there", "/made"),
            };
            rt::host::refuse_after(None);
            if outcome.is_ok() {
                break;
            }
            assert_eq!(outcome, Err(Errno::Refused), "{what} with {grants}");
            assert_eq!((names(&world, "/"), free(&world)), (vec!["there".to_string()], before));
            assert_eq!(links(&world.walk("/there").unwrap()), 1, "{what} with {grants}");
        }
        match what {
            "create" => world.rmdir("/made"),
            "link" => world.unlink("/made"),
            _ => world.rename("/made", "/there"),
        }
        .unwrap();
    }
    assert_eq!(world.root.vnode().instance().vnode_count(), vnodes);
}

#[test]
fn all_goes_with_the_last_mount_but_what_is_held() {
    let fs = tmpfs::new(tmpfs::Options { permissions: 0o755, ..Default::default() }).unwrap();
    let world = World::over(Active::stored(&(), fs.clone(), None).unwrap());
    world.mkdir("/d").unwrap();
    world.write("/d/f", b"bytes").unwrap();
    link(&world, "/d/f", "/g").unwrap();
    let vnode = world.walk("/g").unwrap().vnode().clone();
    let instance = Arc::downgrade(vnode.instance());
    drop(world);
    assert_eq!(instance.upgrade().unwrap().vnode_count(), 1);
    drop(vnode);
    assert!(instance.upgrade().is_none());
    assert_eq!(Arc::strong_count(&fs), 1);
}

/// Returns the next number of a small xorshift generator; each thread has its own.
fn next(state: &mut u64) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state >> 11) as usize
}

const DIRECTORIES: [&str; 5] = ["", "/p", "/p/q", "/p/q/r", "/p/q/r/s"];

/// Makes one random change of a small tree.
fn storm(world: &World, random: &mut u64) {
    let mut place = || {
        let directory = DIRECTORIES[next(random) % DIRECTORIES.len()];
        format!("{directory}/{}", (b'a' + (next(random) % 6) as u8) as char)
    };
    let (from, to) = (place(), place());
    let _ = match next(random) % 8 {
        0 => world.mkdir(&from),
        1 | 2 => create(world, &from),
        3 => world.unlink(&from),
        4 => world.rmdir(&from),
        5 => world.rename(&from, &to),
        6 => world.rename_as(&from, &to, RenameMode::Exchange),
        _ => link(world, &from, &to),
    };
}

fn check_tree(world: &World, path: &str, seen: &mut Vec<(u64, u32)>) {
    let directory = world.walk(&format!("{path}/")).unwrap();
    let (mut subdirectories, mut count) = (0, 0);
    for name in names(world, &format!("{path}/")).iter().map(|name| format!("{path}/{name}")) {
        let found = world.walk(&name).unwrap();
        count += 1;
        assert!(Arc::ptr_eq(&found.dentry.parent().unwrap(), &directory.dentry), "{name}");
        if found.vnode().is_directory() {
            subdirectories += 1;
            check_tree(world, &name, seen);
        } else {
            seen.push((found.vnode().inode(), links(&found)));
        }
    }
    let attributes = directory.status().attributes;
    assert_eq!((attributes.links, attributes.size), (2 + subdirectories, 40 + 20 * count));
}

#[test]
fn a_storm_of_changes_from_four_threads_keeps_a_tree_and_its_counts() {
    let world = limited(10_000);
    DIRECTORIES.iter().skip(1).for_each(|directory| world.mkdir(directory).unwrap());
    std::thread::scope(|scope| {
        for seed in 1..=4_u64 {
            let world = &world;
            scope.spawn(move || {
                let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                (0..5_000).for_each(|_| storm(world, &mut random));
            });
        }
    });
    let mut files = Vec::new();
    check_tree(&world, "", &mut files);
    let inodes: BTreeSet<_> = files.iter().copied().collect();
    for (inode, links) in &inodes {
        let names = files.iter().filter(|file| file.0 == *inode).count();
        assert_eq!(names as u32, *links);
    }
    let instance = world.root.vnode().instance();
    // Each name uses one inode of the limit, and so does the root.
    assert_eq!(free(&world), 10_000 - 1 - instance.names().len() as u64);
}

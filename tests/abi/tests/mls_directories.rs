//! Multilevel directories (`docs/mls.md`), on disk and in memory: tests for systems with a monitor. They do nothing elsewhere.
use abi::{
    Ended, Scratch, c, check, close, isolated,
    mls::{self, HIGH, LOW, Stage},
    must, read,
};
use libc::*;
use std::{
    env, fs,
    io::{Error, ErrorKind, Write},
    os::unix::{
        fs::{MetadataExt, PermissionsExt},
        net::{UnixListener, UnixStream},
    },
    path::Path,
};

/// The type of multilevel directories, and the context of those of the lowest level.
const MULTILEVEL: &str = "system_u:object_r:tmp_root_t:s0";

fn names(folder: &str) -> Vec<String> {
    let names = fs::read_dir(folder).expect("reading the folder");
    let mut names: Vec<String> =
        names.map(|name| name.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn inode(path: &str) -> i32 {
    fs::metadata(path).expect(path).ino() as i32
}

fn context(path: &str) -> String {
    let mut value = [0u8; 256];
    let (path, name) = (c(Path::new(path)), c"security.selinux".as_ptr());
    // SAFETY: there is room for that many bytes.
    let length = check(unsafe {
        getxattr(path.as_ptr(), name, value.as_mut_ptr().cast(), value.len()) as i64
    });
    String::from_utf8(value[..length.expect("it has a label") as usize - 1].to_vec()).unwrap()
}

/// Fills the working directory, which no other level has used, and returns what it made in the end.
fn fill(level: &str) {
    assert_eq!(names("."), [""; 0]);
    assert_eq!((inode("."), inode("..")), (inode("../shared"), mls::given("PARENT")));
    assert!(env::current_dir().unwrap().ends_with("shared"));
    // SAFETY: takes no pointers.
    let watch = must(unsafe { inotify_init1(IN_NONBLOCK) }) as i32;
    // SAFETY: a NUL-terminated path.
    must(unsafe { inotify_add_watch(watch, c".".as_ptr(), IN_CREATE) });
    fs::write("same", level).unwrap();
    assert_eq!(read(watch, 64).expect("an event").len(), 32);
    assert_eq!(context("."), format!("system_u:object_r:tmp_root_t:{level}"));
    assert_eq!(context("same"), format!("user_u:object_r:tmp_t:{level}"));
    fs::create_dir("folder").unwrap();
    fs::write("folder/old", "x").unwrap();
    fs::rename("folder/old", "new").unwrap();
    fs::rename("new", "folder/new").unwrap();
    fs::hard_link("folder/new", "linked").unwrap();
    let listener = UnixListener::bind("socket").unwrap();
    let _stream = UnixStream::connect("../shared/socket").unwrap();
    drop(listener);
    // SAFETY: a NUL-terminated path.
    let nameless = must(unsafe { open(c".".as_ptr(), O_TMPFILE | O_RDWR, 0o600) });
    assert!(nameless >= 0);
    env::set_current_dir("folder").unwrap();
    assert!(env::current_dir().unwrap().ends_with("shared/folder"));
    env::set_current_dir("..").unwrap();
    assert_eq!(inode("."), inode("../shared"));
    assert_eq!(names("."), ["folder", "linked", "same", "socket"]);
}

fn error<T>(result: Result<T, Error>) -> ErrorKind {
    result.map(drop).expect_err("it fails").kind()
}

fn play(part: &str) {
    match part {
        "fill high" => fill("s2"),
        "fill low" => fill("s0"),
        "return" => {
            assert_eq!(fs::read("same").unwrap(), b"s2");
            assert_ne!(inode("."), mls::given("SHARED"));
        }
        "look" => {
            assert_eq!(inode("."), mls::given("SHARED"));
            assert_eq!(names("."), ["folder", "linked", "same", "socket"]);
            for name in [".mls:s2", ".mls:s3"] {
                assert_eq!(error(fs::metadata(name)), ErrorKind::NotFound);
                assert_eq!(error(fs::create_dir(name)), ErrorKind::PermissionDenied);
                assert_eq!(error(fs::remove_dir(name)), ErrorKind::NotFound);
                assert_eq!(error(fs::rename("same", name)), ErrorKind::PermissionDenied);
            }
        }
        other => panic!("there is no part {other}"),
    }
}

/// Lets two levels use the multilevel directory `shared` in `scratch`.
fn share(scratch: &Scratch, test: &str) {
    let shared = scratch.path("shared");
    fs::create_dir(&shared).unwrap();
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o1777)).unwrap();
    mls::label(&shared, MULTILEVEL);
    env::set_current_dir(&shared).unwrap();
    let stage = Stage::new(test).give("PARENT", inode("..")).give("SHARED", inode("."));
    assert_eq!(stage.run(LOW, "fill low"), Ended::Exited(0));
    let seen =
        || fs::metadata(".").map(|of| (of.len(), of.nlink(), of.mtime_nsec(), of.ctime_nsec()));
    let before = seen().unwrap();
    assert_eq!(stage.run(HIGH, "fill high"), Ended::Exited(0));
    assert_eq!(seen().unwrap(), before, "a level below sees no change");
    assert_eq!(stage.run(LOW, "look"), Ended::Exited(0));
    // Forgets names, so that they are read from the disk again.
    fs::File::create("/proc/sys/vm/drop_caches").unwrap().write_all(b"3").unwrap();
    assert_eq!(stage.run(LOW, "look"), Ended::Exited(0));
    assert_eq!(stage.run(HIGH, "return"), Ended::Exited(0));
    // A trusted program sees all, and cleans up.
    assert_eq!(names("."), [".mls:s2", "folder", "linked", "same", "socket"]);
    assert_eq!(names(".mls:s2"), ["folder", "linked", "same", "socket"]);
    assert_eq!(fs::read(".mls:s2/same").unwrap(), b"s2");
    assert_eq!(error(fs::rename(".mls:s2", "other")), ErrorKind::ResourceBusy);
    fs::remove_dir_all(".mls:s2").unwrap();
    assert_eq!(names("."), ["folder", "linked", "same", "socket"]);
    env::set_current_dir("/").unwrap();
    fs::remove_dir_all(&shared).unwrap();
}

#[test]
fn each_level_has_names_of_its_own() {
    if !mls::is_here() {
        return;
    }
    match mls::part() {
        Some(part) => play(&part),
        None => isolated(|| {
            for scratch in [Scratch::of_levels_on_disk(), Scratch::of_levels()] {
                share(&scratch, "each_level_has_names_of_its_own");
            }
        }),
    }
}

/// Uses the directory `upgraded`, which is above, and `empty`, which is too, in the working directory.
fn look_up() {
    assert_eq!(names("."), ["empty", "own", "upgraded"], "the names are the lower directory's");
    for folder in ["empty", "upgraded"] {
        assert_eq!(error(fs::metadata(folder)), ErrorKind::PermissionDenied);
        assert_eq!(error(fs::read_dir(folder)), ErrorKind::PermissionDenied);
        assert_eq!(error(fs::metadata(format!("{folder}/none"))), ErrorKind::PermissionDenied);
        assert_eq!(error(fs::write(format!("{folder}/new"), "x")), ErrorKind::PermissionDenied);
        assert_eq!(error(fs::remove_dir(folder)), ErrorKind::PermissionDenied, "{folder}");
        assert_eq!(error(fs::rename(folder, "moved")), ErrorKind::PermissionDenied);
        assert_eq!(error(fs::rename("own", folder)), ErrorKind::PermissionDenied);
        assert_eq!(error(fs::create_dir(folder)), ErrorKind::AlreadyExists);
    }
}

#[test]
fn an_upgraded_directory_is_a_name_for_those_below() {
    if !mls::is_here() {
        return;
    }
    match mls::part().as_deref() {
        Some("low") => look_up(),
        Some("high") => {
            assert_eq!(names("upgraded"), [""; 0]);
            fs::write("upgraded/secret", "x").unwrap();
            assert_eq!(context("upgraded/secret"), "user_u:object_r:home_t:s2");
            fs::rename("upgraded/secret", "upgraded/moved").unwrap();
            // The name is in a directory that is below.
            assert_eq!(error(fs::remove_dir("empty")), ErrorKind::PermissionDenied);
            assert_eq!(error(fs::rename("upgraded/moved", "out")), ErrorKind::PermissionDenied);
        }
        _ => isolated(|| {
            let test = "an_upgraded_directory_is_a_name_for_those_below";
            for scratch in [Scratch::of_levels_on_disk(), Scratch::of_levels()] {
                let place = scratch.path("place");
                fs::create_dir(&place).unwrap();
                mls::label(&place, "system_u:object_r:home_t:s0");
                env::set_current_dir(&place).unwrap();
                for folder in ["own", "upgraded", "empty"] {
                    fs::create_dir(folder).unwrap();
                    fs::set_permissions(folder, fs::Permissions::from_mode(0o777)).unwrap();
                }
                fs::set_permissions(&place, fs::Permissions::from_mode(0o777)).unwrap();
                for folder in ["upgraded", "empty"] {
                    mls::label(Path::new(folder), "system_u:object_r:home_t:s2");
                }
                let stage = Stage::new(test);
                assert_eq!(stage.run(LOW, "low"), Ended::Exited(0));
                // SAFETY: takes no pointers.
                let watch = must(unsafe { inotify_init1(IN_NONBLOCK) }) as i32;
                // SAFETY: a NUL-terminated path.
                must(unsafe { inotify_add_watch(watch, c".".as_ptr(), IN_ALL_EVENTS) });
                assert_eq!(stage.run(HIGH, "high"), Ended::Exited(0));
                assert_eq!(read(watch, 64), Err(EAGAIN), "no event of what a level above uses");
                close(watch);
                assert_eq!(stage.run(LOW, "low"), Ended::Exited(0), "nothing has changed below");
                env::set_current_dir("/").unwrap();
            }
        }),
    }
}

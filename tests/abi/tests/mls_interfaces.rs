//! SELinux's interfaces: the contexts of a thread in `/proc/PID/attr`. A system without a monitor has none: the tests do nothing there,
//! as on a Linux without SELinux.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]
use abi::{Ended, Scratch, c, check, close, fork, isolated, must, pipe, pty, wait};
use libc::*;
use std::{
    fs::{self, OpenOptions},
    os::{
        fd::AsRawFd,
        unix::{fs::PermissionsExt, process::CommandExt},
    },
    path::Path,
    process::Command,
};

const ATTRIBUTES: [(&str, u32); 6] = [
    ("current", 0o666),
    ("prev", 0o444),
    ("exec", 0o666),
    ("fscreate", 0o666),
    ("keycreate", 0o666),
    ("sockcreate", 0o666),
];

/// Runs a test in a system with a monitor.
fn labelled(body: impl FnOnce()) {
    let is_labelled = fs::read("/proc/thread-self/attr/current")
        .is_ok_and(|text| text.starts_with(b"system_u:system_r:kernel_t:"));
    if is_labelled {
        isolated(body);
    }
}

fn get(name: &str) -> Vec<u8> {
    fs::read(format!("/proc/thread-self/attr/{name}")).expect("a context of the thread itself")
}

/// Writes in one call. Returns the error number.
fn put_at(path: &str, text: &[u8]) -> Result<i64, i32> {
    let opened = OpenOptions::new().write(true).open(path);
    let file = opened.map_err(|error| error.raw_os_error().unwrap_or(0))?;
    // SAFETY: the text is readable for its length.
    check(unsafe { write(file.as_raw_fd(), text.as_ptr().cast(), text.len()) } as i64)
}

fn put(name: &str, text: &str) -> Result<(), i32> {
    put_at(&format!("/proc/thread-self/attr/{name}"), text.as_bytes()).map(|_| ())
}

fn label(path: &Path, context: &str) -> Result<i64, i32> {
    let (name, value) = (c("security.selinux"), c(context));
    let (path, bytes) = (c(path), value.as_bytes_with_nul());
    // SAFETY: names with a NUL at the end, and a value of that length.
    check(unsafe { setxattr(path.as_ptr(), name.as_ptr(), bytes.as_ptr().cast(), bytes.len(), 0) })
}

fn label_of(path: &Path) -> String {
    let (name, path, mut text) = (c("security.selinux"), c(path), vec![0u8; 4096]);
    // SAFETY: names with a NUL at the end, and a buffer of that length.
    let length =
        must(
            unsafe { getxattr(path.as_ptr(), name.as_ptr(), text.as_mut_ptr().cast(), text.len()) }
                as i64,
        );
    text.truncate(length as usize);
    String::from_utf8(text).expect("a context is text")
}

/// Makes a shell that the policy lets a user enter by.
fn shell(scratch: &Scratch) -> std::path::PathBuf {
    let shell = scratch.path("sh");
    fs::copy("/bin/sh", &shell).expect("a shell");
    assert_eq!(label(&shell, "system_u:object_r:shell_exec_t:s0"), Ok(0));
    shell
}

/// Runs a script by a shell. Returns what it wrote to its standard streams, which are files with a context: a program in another
/// domain keeps no pipe of this one's.
fn output_of(shell: &Path, script: &str, scratch: &Scratch, context: &str) -> [String; 2] {
    let paths = ["out", "err"].map(|name| scratch.file(name, b""));
    let files = paths.each_ref().map(|path| {
        assert_eq!(label(path, context), Ok(0));
        OpenOptions::new().write(true).open(path).expect("a file")
    });
    let [out, err] = files;
    let mut command = Command::new(shell);
    command.args(["-c", script]).stdout(out).stderr(err).status().expect("a shell");
    paths.map(|path| fs::read_to_string(path).expect("what it wrote"))
}

#[test]
fn a_thread_has_the_files_of_linux_and_its_context_ends_with_a_nul() {
    labelled(|| {
        for folder in ["/proc/self", "/proc/thread-self"] {
            let names = fs::read_dir(format!("{folder}/attr")).expect("the folder");
            let names: Vec<_> = names.map(|entry| entry.expect("an entry").file_name()).collect();
            assert_eq!(names, ATTRIBUTES.map(|(name, _)| name));
            for (name, mode) in ATTRIBUTES {
                let found = fs::metadata(format!("{folder}/attr/{name}")).expect("it is there");
                assert_eq!(found.permissions().mode() & 0o7777, mode, "{name}");
            }
        }
        let current = get("current");
        assert_eq!(current, b"system_u:system_r:kernel_t:s0-s15:c0.c1023\0");
        assert_eq!(get("prev"), current);
        for name in ["exec", "fscreate", "keycreate", "sockcreate"] {
            assert_eq!(get(name), b"", "{name}");
        }
    });
}

#[test]
fn what_is_asked_for_is_shown_until_it_is_cleared() {
    labelled(|| {
        let subject = "user_u:user_r:user_t:s0";
        let object = "system_u:object_r:tmp_t:s0";
        for (name, context) in [
            ("exec", subject),
            ("fscreate", object),
            ("keycreate", subject),
            ("sockcreate", object),
        ] {
            for end in ["", "\n", "\0", "\0rest"] {
                put(name, &format!("{context}{end}")).expect("a context");
                assert_eq!(get(name), format!("{context}\0").as_bytes(), "{name}");
            }
            assert_eq!(put(name, "nonsense"), Err(EINVAL), "{name}");
            assert_eq!(put(name, "system_u:object_r:no_such_t:s0"), Err(EINVAL), "{name}");
            assert_eq!(get(name), format!("{context}\0").as_bytes(), "{name}");
            for nothing in ["", "\n", "\0"] {
                put(name, context).expect("a context");
                put(name, nothing).expect("nothing clears it");
                assert_eq!(get(name), b"", "{name}");
            }
        }
        assert_eq!(put("exec", object), Err(EINVAL));
        assert_eq!(put("fscreate", subject), Err(EINVAL));
        assert_eq!(put("prev", subject), Err(EINVAL));
    });
}

#[test]
fn a_program_runs_in_the_domain_that_was_asked_for() {
    labelled(|| {
        let scratch = Scratch::of_levels();
        let shell = shell(&scratch);
        put("exec", "user_u:user_r:user_t:s0").expect("a subject");
        put("fscreate", "system_u:object_r:tmp_t:s0").expect("an object");
        let of_files = "system_u:object_r:tmp_t:s0";
        let script = "cat /proc/self/attr/current /proc/self/attr/prev /proc/$$/attr/prev; \
            cat /proc/$$/attr/exec /proc/$$/attr/fscreate; echo -n user_u:user_r:user_t:s0:c1 \
            > /proc/self/attr/current";
        let [said, complaint] = output_of(&shell, script, &scratch, of_files);
        let own = "user_u:user_r:user_t:s0\0";
        let expected = format!("{own}{own}system_u:system_r:kernel_t:s0-s15:c0.c1023\0");
        assert_eq!(said, expected);
        assert!(complaint.to_lowercase().contains("permission denied"), "{complaint}");
    });
}

#[test]
fn files_get_the_context_that_was_asked_for() {
    labelled(|| {
        let scratch = Scratch::of_levels();
        let before = scratch.file("before", b"");
        let context = "system_u:object_r:home_t:s3:c1";
        put("fscreate", context).expect("kernel_t may relabel");
        let made = scratch.file("made", b"");
        put("fscreate", "").expect("clearing");
        let after = scratch.file("after", b"");
        assert_eq!(label_of(&made), format!("{context}\0"));
        assert_eq!(label_of(&before), label_of(&after));
        assert_ne!(label_of(&before), label_of(&made));
    });
}

#[test]
fn a_terminal_of_a_pair_gets_a_context_that_the_same_subjects_may_use() {
    labelled(|| {
        let master = pty::master(0);
        let slave = pty::path(master);
        let slave = Path::new(&slave);
        assert_eq!(label_of(slave), "system_u:object_r:pipe_t:s0\0");
        for context in ["user_u:object_r:pipe_t:s0", "user_u:object_r:tty_t:s0"] {
            assert_eq!(label(slave, context), Ok(0));
            assert_eq!(label_of(slave), format!("{context}\0"));
        }
        for other in ["user_u:object_r:tty_t:s1", "user_u:object_r:etc_t:s0"] {
            assert_eq!(label(slave, other), Err(EBUSY), "{other}");
        }
        assert_eq!(label_of(slave), "user_u:object_r:tty_t:s0\0");
        close(master);
    });
}

#[test]
fn only_a_thread_itself_sets_its_contexts() {
    labelled(|| {
        let context = b"user_u:user_r:user_t:s0";
        let (end, held) = pipe();
        let child = fork(|| {
            abi::close(held);
            let _ = abi::read(end, 1);
        });
        for folder in [format!("/proc/{child}"), format!("/proc/{child}/task/{child}")] {
            assert_eq!(put_at(&format!("{folder}/attr/exec"), context), Err(EACCES));
            let current = fs::read(format!("{folder}/attr/current")).expect("to be read");
            assert_eq!(current, get("current"));
        }
        abi::close(held);
        assert_eq!(wait(child), Ended::Exited(0));
        // A thread other than the first has files of its own.
        std::thread::spawn(move || {
            assert_eq!(put_at("/proc/self/attr/exec", context), Err(EACCES));
            assert_eq!(put_at("/proc/thread-self/attr/current", context), Err(EACCES));
            put_at("/proc/thread-self/attr/exec", context).expect("its own");
            assert_ne!(get("exec"), b"");
        })
        .join()
        .expect("the thread's checks");
        assert_eq!(get("exec"), b"");
    });
}

#[test]
fn a_descriptor_of_another_program_sets_nothing() {
    labelled(|| {
        let own = OpenOptions::new().write(true).open("/proc/self/attr/exec").expect("opening");
        let context = b"user_u:user_r:user_t:s0";
        let fd = own.as_raw_fd();
        // SAFETY: the text is readable for its length.
        let put = || check(unsafe { write(fd, context.as_ptr().cast(), context.len()) } as i64);
        assert_eq!(put(), Ok(context.len() as i64));
        assert_eq!(put(), Err(EINVAL), "the offset is not 0");
        assert_eq!(wait(fork(|| assert_eq!(put(), Err(EPERM)))), Ended::Exited(0));
        // SAFETY: the offset of the own descriptor.
        must(unsafe { lseek(fd, 0, SEEK_SET) });
        // SAFETY: as above. The next program has the same process and the descriptor.
        must(unsafe { fcntl(fd, F_SETFD, 0) });
        let child = fork(|| {
            self::put("exec", "").expect("clearing what it has from its parent");
            let script = format!("echo {} >&{fd}", "user_u:user_r:user_t:s0");
            panic!("{}", Command::new("/bin/sh").args(["-c", &script]).exec());
        });
        assert_eq!(wait(child), Ended::Exited(1));
    });
}

#[test]
fn a_trusted_program_of_one_thread_changes_its_range_and_nothing_else() {
    labelled(|| {
        for other in [
            "system_u:system_r:login_t:s0-s15:c0.c1023",
            "root:system_r:kernel_t:s0-s15:c0.c1023",
            "user_u:user_r:user_t:s0",
        ] {
            assert_eq!(put("current", other), Err(EACCES), "{other}");
        }
        assert_eq!(put("current", ""), Err(EINVAL));
        assert_eq!(put("current", "system_u:object_r:tmp_t:s0"), Err(EINVAL));
        put("current", "system_u:system_r:kernel_t:s2-s5:c1").expect("a range within");
        assert_eq!(get("current"), b"system_u:system_r:kernel_t:s2-s5:c1\0");
    });
}

#[test]
fn a_program_that_changes_its_range_keeps_no_descriptor_to_write_below() {
    labelled(|| {
        let scratch = Scratch::of_levels();
        let path = scratch.file("low", b"");
        label(&path, "system_u:object_r:tmp_t:s0").expect("kernel_t may relabel");
        let low = OpenOptions::new().append(true).open(&path).expect("opening");
        put("current", "system_u:system_r:kernel_t:s2-s5:c1").expect("a range above");
        // SAFETY: the text is readable for its length.
        let written = unsafe { write(low.as_raw_fd(), c"high".as_ptr().cast(), 4) };
        assert_eq!(written, 4, "/dev/null has its place");
        assert_eq!(fs::read(&path).expect("reading down"), b"");
    });
}

const MOUNTED: &str = "/sys/fs/selinux";

/// Asks a file of questions: writes, and reads the answer at the same descriptor.
fn ask(file: &str, question: &str) -> Result<String, i32> {
    let opened = OpenOptions::new().read(true).write(true).open(format!("{MOUNTED}/{file}"));
    let file = opened.map_err(|error| error.raw_os_error().unwrap_or(0))?;
    let fd = file.as_raw_fd();
    // SAFETY: the question is readable for its length.
    check(unsafe { write(fd, question.as_ptr().cast(), question.len()) } as i64)?;
    // SAFETY: as above.
    let again = check(unsafe { write(fd, question.as_ptr().cast(), question.len()) } as i64);
    assert_eq!(again, Err(EBUSY), "one question for each descriptor");
    Ok(String::from_utf8(abi::read(fd, 4096)?).expect("text"))
}

fn number_of(path: &str) -> u32 {
    let text = fs::read_to_string(format!("{MOUNTED}/class/{path}")).expect("a number");
    text.parse().expect("a number and nothing else")
}

#[test]
fn selinuxfs_is_mounted_and_has_the_files_and_modes_of_linux() {
    labelled(|| {
        // SAFETY: a NUL-terminated path and room for the answer.
        let magic = unsafe {
            let mut about: statfs = std::mem::zeroed();
            must(statfs(c(MOUNTED).as_ptr(), &mut about));
            about.f_type as u32
        };
        assert_eq!(magic, 0xf97c_ff8c);
        let types = fs::read_to_string("/proc/filesystems").expect("types");
        assert!(types.contains("nodev\tselinuxfs\n"), "{types}");
        for (name, mode, content) in [
            ("enforce", 0o644, "1"),
            ("mls", 0o444, "1"),
            ("policyvers", 0o444, "33"),
            ("deny_unknown", 0o444, "0"),
            ("reject_unknown", 0o444, "0"),
            ("checkreqprot", 0o644, "0"),
            ("initial_contexts/kernel", 0o444, "system_u:system_r:kernel_t:s0-s15:c0.c1023\0"),
        ] {
            let path = format!("{MOUNTED}/{name}");
            assert_eq!(fs::read_to_string(&path).expect("content"), content, "{name}");
            let found = fs::metadata(&path).expect("it is there");
            assert_eq!(found.permissions().mode() & 0o7777, mode, "{name}");
        }
        for (name, mode) in [("load", 0o600), ("disable", 0o200), ("access", 0o666)] {
            let found = fs::metadata(format!("{MOUNTED}/{name}")).expect("it is there");
            assert_eq!(found.permissions().mode() & 0o7777, mode, "{name}");
        }
        for (file, text, result) in [
            ("enforce", "1", Ok(1)),
            ("enforce", "0", Err(EACCES)),
            ("enforce", "x", Err(EINVAL)),
            ("disable", "1", Err(EACCES)),
            ("checkreqprot", "1", Err(EACCES)),
            ("mls", "0", Err(EINVAL)),
        ] {
            assert_eq!(put_at(&format!("{MOUNTED}/{file}"), text.as_bytes()), result, "{file}");
        }
        fs::write(format!("{MOUNTED}/null"), b"gone").expect("a null device");
        assert_eq!(fs::read_dir(format!("{MOUNTED}/booleans")).expect("a folder").count(), 0);
    });
}

#[test]
fn questions_are_answered_from_the_policy() {
    labelled(|| {
        let subject = "user_u:user_r:user_t:s1:c1";
        let process = number_of("process/index");
        let file = number_of("file/index");
        assert_eq!(ask("context", "user_u:user_r:user_t:s1:c1,c2,c3"), {
            Ok("user_u:user_r:user_t:s1:c1.c3\0".into())
        });
        assert_eq!(ask("context", "nonsense"), Err(EINVAL));
        assert_eq!(ask("context", "user_u:user_r:kernel_t:s1"), Err(EINVAL));
        for (target, reads, writes) in [
            ("user_u:object_r:tmp_t:s1:c1", true, true),
            ("user_u:object_r:tmp_t:s0", true, false),
            ("user_u:object_r:tmp_t:s1:c1.c2", false, false),
            ("user_u:object_r:bin_t:s1:c1", true, false),
        ] {
            let answer = ask("access", &format!("{subject} {target} {file}")).expect("an answer");
            let words: Vec<&str> = answer.split(' ').collect();
            assert_eq!(words[1..4], ["ffffffff", "0", "ffffffff"], "{answer}");
            let allowed = u32::from_str_radix(words[0], 16).expect("hexadecimal");
            let has = |name: &str| {
                let bit = number_of(&format!("file/perms/{name}")) - 1;
                allowed & 1 << bit != 0
            };
            assert_eq!((has("read"), has("write")), (reads, writes), "{target}");
            assert!(!has("relabelto"), "user_t has no privilege");
        }
        let made = format!("{subject} system_u:object_r:tmp_t:s0 {file}");
        assert_eq!(ask("create", &made), Ok("user_u:object_r:tmp_t:s1:c1\0".into()));
        assert_eq!(ask("relabel", &made), Ok("user_u:object_r:tmp_t:s1:c1\0".into()));
        assert_eq!(ask("member", &made), Ok("system_u:object_r:tmp_t:s1:c1\0".into()));
        let passwd = format!("{subject} system_u:object_r:passwd_exec_t:s0 {process}");
        assert_eq!(ask("create", &passwd), Ok("user_u:user_r:passwd_t:s1:c1\0".into()));
        let of_user = ask("user", "system_u:system_r:kernel_t:s0 user_u").expect("contexts");
        assert!(of_user.starts_with("5\0") && of_user.contains("\0user_u:user_r:user_t:s0\0"));
    });
}

#[test]
fn a_subject_of_each_level_asks_and_reads() {
    labelled(|| {
        let scratch = Scratch::of_levels();
        put("exec", "user_u:user_r:user_t:s1:c1").expect("a subject");
        let script = format!(
            "cat {MOUNTED}/enforce; cd {MOUNTED}; exec 3<>context; \
            echo -n user_u:user_r:user_t:s1 >&3; cat <&3; echo 1 2>&- >enforce || echo refused"
        );
        let of_files = "system_u:object_r:tmp_t:s1:c1";
        let [said, complaint] = output_of(&shell(&scratch), &script, &scratch, of_files);
        assert_eq!(said, "1user_u:user_r:user_t:s1\0refused\n", "{complaint}");
    });
}

/// Opens a socket that hears of a new policy.
fn keeper() -> Result<i32, i32> {
    const NETLINK_SELINUX: i32 = 7;
    // SAFETY: takes no pointers.
    let fd =
        check(unsafe { socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK, NETLINK_SELINUX) })? as i32;
    // SAFETY: plain bytes.
    let mut name: sockaddr_nl = unsafe { std::mem::zeroed() };
    (name.nl_family, name.nl_groups) = (AF_NETLINK as u16, 1);
    // SAFETY: the name lives until the call ends.
    must(unsafe { bind(fd, (&raw const name).cast(), size_of_val(&name) as u32) });
    Ok(fd)
}

#[test]
fn a_system_without_a_policy_has_no_netlink_for_it() {
    if Path::new("/proc/skerry").exists() && !Path::new("/sys/fs/selinux").exists() {
        assert_eq!(keeper(), Err(EPROTONOSUPPORT));
    }
}

#[test]
fn those_who_keep_decisions_are_told_of_a_new_policy() {
    labelled(|| {
        let keeper = keeper().expect("a socket");
        let receive = || {
            let mut words = [0u32; 8];
            // SAFETY: a buffer of that length.
            let count = check(unsafe { recv(keeper, words.as_mut_ptr().cast(), 32, 0) } as i64);
            count.map(|bytes| (bytes, words))
        };
        let text = fs::read(format!("{MOUNTED}/policy")).expect("the policy");
        assert_eq!(put_at(&format!("{MOUNTED}/load"), b"nonsense"), Err(EINVAL));
        assert_eq!(receive(), Err(EAGAIN));
        assert_eq!(put_at(&format!("{MOUNTED}/load"), &text), Ok(text.len() as i64));
        let status = fs::read(format!("{MOUNTED}/status")).expect("the status");
        let loads = u32::from_ne_bytes(status[12..16].try_into().expect("a word"));
        // Length, type, number of the request, port, and the number of the policy.
        assert_eq!(receive(), Ok((20, [20, 0x11, 0, 0, loads, 0, 0, 0])));
        assert_eq!(receive(), Err(EAGAIN));
        // SAFETY: a message of that length; the kernel does not listen.
        let sent =
            check(unsafe { send(keeper, [20u32, 0x11, 0, 0, 1].as_ptr().cast(), 20, 0) } as i64);
        assert_eq!(sent, Err(ECONNREFUSED));
    });
}

#[test]
fn a_policy_is_loaded_whole_and_the_mapped_status_tells() {
    labelled(|| {
        let status = fs::File::open(format!("{MOUNTED}/status")).expect("the status");
        let map = |protection| {
            // SAFETY: a new mapping.
            let at = unsafe {
                mmap(std::ptr::null_mut(), 4096, protection, MAP_SHARED, status.as_raw_fd(), 0)
            };
            if at == MAP_FAILED { Err(abi::errno()) } else { Ok(at.cast::<u32>()) }
        };
        assert!(map(PROT_READ | PROT_WRITE).is_err());
        let page = map(PROT_READ).expect("a page");
        // SAFETY: the page has at least five words.
        let words =
            || unsafe { std::array::from_fn::<u32, 5, _>(|at| page.add(at).read_volatile()) };
        let before = words();
        assert_eq!((before[0], before[1] % 2, before[2], before[4]), (1, 0, 1, 0));
        let load = |text: &[u8]| put_at(&format!("{MOUNTED}/load"), text);
        let text = fs::read(format!("{MOUNTED}/policy")).expect("the policy");
        assert_eq!(load(b"level s0\nnonsense\n"), Err(EINVAL));
        assert_eq!(load(&vec![b'#'; (1 << 20) + 1]), Err(EFBIG));
        assert_eq!(words(), before);
        assert_eq!(load(&text), Ok(text.len() as i64));
        let after = words();
        assert_eq!((after[1], after[3]), (before[1] + 2, before[3] + 1));
        assert_eq!(fs::read(format!("{MOUNTED}/policy")).expect("the policy"), text);
    });
}

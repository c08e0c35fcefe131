//! Users, groups and capabilities of processes: changing them, executing with them, signalling
//! (credentials(7), capabilities(7), execve(2), kill(2)). Run as root.
use abi::{
    Ended, Scratch, c, check, fork,
    identity::{
        become_user, getgroups, seteuid, setfsuid, setgid, setgroups, setregid, setresgid,
        setresuid, setreuid, setuid,
    },
    isolated, must, open, pipe, read, wait, write,
};
use libc::*;
use std::{
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::Command,
};

const USER: u32 = 1000;
const OTHER: u32 = 2000;

/// Returns the real, effective and saved user.
fn users() -> (u32, u32, u32) {
    let (mut real, mut effective, mut saved) = (0, 0, 0);
    // SAFETY: room for the answers.
    must(unsafe { getresuid(&mut real, &mut effective, &mut saved) });
    (real, effective, saved)
}

/// Returns the real, effective and saved group.
fn groups_of_three() -> (u32, u32, u32) {
    let (mut real, mut effective, mut saved) = (0, 0, 0);
    // SAFETY: room for the answers.
    must(unsafe { getresgid(&mut real, &mut effective, &mut saved) });
    (real, effective, saved)
}

/// Returns the sets of the calling thread: effective, permitted, inheritable.
fn capabilities() -> [u64; 3] {
    let header = [0x2008_0522u32, 0];
    let mut data = [0u32; 6];
    // SAFETY: a header and two structures of three words.
    must(unsafe { syscall(SYS_capget, header.as_ptr(), data.as_mut_ptr()) });
    [0, 1, 2].map(|set| u64::from(data[set]) | u64::from(data[set + 3]) << 32)
}

fn set_capabilities([effective, permitted, inheritable]: [u64; 3]) -> Result<i64, i32> {
    let header = [0x2008_0522u32, 0];
    let low = [effective, permitted, inheritable].map(|set| set as u32);
    let high = [effective, permitted, inheritable].map(|set| (set >> 32) as u32);
    let data = [low, high];
    // SAFETY: as above.
    check(unsafe { syscall(SYS_capset, header.as_ptr(), data.as_ptr()) })
}

fn control(option: i32, second: u64, third: u64) -> Result<i64, i32> {
    // SAFETY: the options used here take numbers.
    check(unsafe { prctl(option, second, third, 0, 0) })
}

const CHOWN: u64 = 1 << 0;
const DAC_OVERRIDE: u64 = 1 << 1;
const NET_RAW: u64 = 1 << 13;

/// The report of an executed copy of this binary on itself.
#[derive(Debug, PartialEq, Eq)]
struct Report {
    users: (u32, u32, u32),
    groups: (u32, u32, u32),
    is_secure: bool,
    is_dumpable: bool,
    effective: u64,
}

const ASKED: &str = "ABI_WHO";

#[test]
fn an_executed_copy_reports_who_it_is() {
    if std::env::var_os(ASKED).is_none() {
        return;
    }
    let (users, groups) = (users(), groups_of_three());
    // SAFETY: no conditions.
    let is_secure = unsafe { getauxval(AT_SECURE) };
    let is_dumpable = control(PR_GET_DUMPABLE, 0, 0).expect("PR_GET_DUMPABLE");
    println!(
        "\nwho {} {} {} {} {} {} {is_secure} {is_dumpable} {}",
        users.0,
        users.1,
        users.2,
        groups.0,
        groups.1,
        groups.2,
        capabilities()[0]
    );
}

/// Makes a copy of this binary with owner and mode.
fn copy(at: PathBuf, owner: (u32, u32), mode: u32) -> PathBuf {
    std::fs::copy("/proc/self/exe", &at).expect("copying the binary");
    // SAFETY: a NUL-terminated path.
    must(unsafe { chown(c(&at).as_ptr(), owner.0, owner.1) });
    // SAFETY: a NUL-terminated path.
    must(unsafe { chmod(c(&at).as_ptr(), mode) });
    at
}

/// Executes the copy in a child that `prepare` has made ready.
#[track_caller]
fn report_of(program: &Path, prepare: impl FnOnce()) -> Report {
    let (from, to) = pipe();
    let child = fork(|| {
        // SAFETY: a descriptor of ours.
        must(unsafe { dup2(to, 1) });
        prepare();
        let mut command = Command::new(program);
        command.args(["an_executed_copy_reports_who_it_is", "--nocapture", "--test-threads=1"]);
        panic!("exec: {}", command.env(ASKED, "1").exec());
    });
    abi::close(to);
    let mut said = Vec::new();
    loop {
        match read(from, 4096).expect("the report") {
            piece if piece.is_empty() => break,
            piece => said.extend(piece),
        }
    }
    wait(child);
    let said = String::from_utf8_lossy(&said).into_owned();
    let line = said.lines().find_map(|line| line.strip_prefix("who ")).expect(&said);
    let words: Vec<u64> = line.split(' ').map(|word| word.parse().expect("a number")).collect();
    let three = |at: usize| (words[at] as u32, words[at + 1] as u32, words[at + 2] as u32);
    Report {
        users: three(0),
        groups: three(3),
        is_secure: words[6] != 0,
        is_dumpable: words[7] != 0,
        effective: words[8],
    }
}

/// Makes a scratch folder that every user may enter.
fn open_scratch() -> Scratch {
    let scratch = Scratch::new();
    // SAFETY: a NUL-terminated path.
    must(unsafe { chmod(c(scratch.path("")).as_ptr(), 0o755) });
    scratch
}

#[test]
fn the_superuser_s_setuid_sets_all_three_and_is_final() {
    isolated(|| {
        assert_eq!(setuid(USER), Ok(0));
        assert_eq!(users(), (USER, USER, USER));
        assert_eq!(setuid(0), Err(EPERM));
        assert_eq!(setuid(u32::MAX), Err(EINVAL));
        assert_eq!(capabilities()[..2], [0, 0]);
    });
}

#[test]
fn an_ordinary_setuid_chooses_between_real_and_saved() {
    isolated(|| {
        assert_eq!(setresuid(USER, OTHER, OTHER), Ok(0));
        assert_eq!(setuid(USER), Ok(0));
        assert_eq!(users(), (USER, USER, OTHER));
        assert_eq!(setuid(OTHER), Ok(0));
        assert_eq!(users(), (USER, OTHER, OTHER));
        assert_eq!(setuid(3000), Err(EPERM));
    });
}

#[test]
fn setreuid_moves_the_saved_id_along() {
    isolated(|| {
        assert_eq!(setresuid(USER, OTHER, OTHER), Ok(0));
        assert_eq!(setreuid(OTHER, USER), Ok(0));
        assert_eq!(users(), (OTHER, USER, USER));
        assert_eq!(setreuid(u32::MAX, OTHER), Ok(0));
        assert_eq!(users(), (OTHER, OTHER, USER), "the effective became the real: it stays");
        assert_eq!(setreuid(u32::MAX, 3000), Err(EPERM));
        assert_eq!(setreuid(USER, u32::MAX), Err(EPERM), "the saved is no real");
    });
}

#[test]
fn setresuid_takes_any_of_the_three() {
    isolated(|| {
        assert_eq!(setresuid(1, 2, 3), Ok(0));
        assert_eq!(setresuid(3, 1, 2), Ok(0));
        assert_eq!(users(), (3, 1, 2));
        assert_eq!(setresuid(u32::MAX, u32::MAX, 4), Err(EPERM));
        assert_eq!(setresuid(u32::MAX, 2, u32::MAX), Ok(0));
        assert_eq!(users(), (3, 2, 2));
    });
}

#[test]
fn groups_follow_the_same_rules() {
    isolated(|| {
        assert_eq!(setresgid(1, 2, 3), Ok(0));
        assert_eq!(setresuid(USER, USER, USER), Ok(0));
        assert_eq!(setgid(3), Ok(0));
        assert_eq!(groups_of_three(), (1, 3, 3));
        assert_eq!(setregid(3, 1), Ok(0));
        assert_eq!(groups_of_three(), (3, 1, 1));
        assert_eq!(setgid(4), Err(EPERM));
        assert_eq!(setresgid(4, 4, 4), Err(EPERM));
    });
}

#[test]
fn an_effective_user_gives_capabilities_up_for_a_while() {
    isolated(|| {
        let [_, permitted, _] = capabilities();
        assert_eq!(seteuid(USER), Ok(0));
        assert_eq!(capabilities()[..2], [0, permitted]);
        // SAFETY: a NUL-terminated path.
        assert_eq!(check(unsafe { chown(c"/tmp".as_ptr(), 1, 1) }), Err(EPERM));
        assert_eq!(seteuid(0), Ok(0));
        assert_eq!(capabilities()[..2], [permitted, permitted]);
    });
}

#[test]
fn kept_capabilities_survive_the_change_of_user_but_not_in_effect() {
    isolated(|| {
        let [_, permitted, _] = capabilities();
        assert_eq!(control(PR_SET_KEEPCAPS, 1, 0), Ok(0));
        assert_eq!(control(PR_GET_KEEPCAPS, 0, 0), Ok(1));
        assert_eq!(setresuid(USER, USER, USER), Ok(0));
        assert_eq!(capabilities()[..2], [0, permitted]);
        assert_eq!(set_capabilities([CHOWN, CHOWN, 0]), Ok(0));
        assert_eq!(capabilities()[..2], [CHOWN, CHOWN]);
        assert_eq!(set_capabilities([CHOWN, CHOWN | NET_RAW, 0]), Err(EPERM));
    });
}

#[test]
fn the_file_system_user_tells_the_former_and_takes_file_capabilities() {
    isolated(|| {
        let [effective, ..] = capabilities();
        assert_eq!(setfsuid(USER), 0);
        assert_eq!(setfsuid(u32::MAX), USER as i32);
        assert_eq!(users(), (0, 0, 0));
        let files = 0x1f | 1 << 9 | 1 << 27 | 1 << 32;
        assert_eq!(capabilities()[0], effective & !files);
        assert_eq!(setfsuid(0), USER as i32);
        assert_eq!(capabilities()[0], effective);
        assert_eq!(setresuid(USER, USER, USER), Ok(0));
        assert_eq!((setfsuid(OTHER), setfsuid(u32::MAX)), (USER as i32, USER as i32));
    });
}

#[test]
fn the_file_system_group_is_whose_what_is_made_becomes() {
    isolated(|| {
        let setfsgid = |group: u32| {
            // SAFETY: a plain number.
            unsafe { libc::syscall(libc::SYS_setfsgid, group) }
        };
        let scratch = open_scratch();
        assert_eq!((setfsgid(7), setfsgid(u32::MAX), setfsgid(7)), (0, 7, 7));
        let made = std::fs::metadata(scratch.file("file", b"")).unwrap();
        assert_eq!(std::os::unix::fs::MetadataExt::gid(&made), 7);
        assert_eq!(groups_of_three(), (0, 0, 0), "the process's are as before");
        become_user(USER);
        assert_eq!((setfsgid(7), setfsgid(USER)), (USER as i64, USER as i64), "not its own");
        let told = [SYS_getuid, SYS_geteuid, SYS_getgid, SYS_getegid].map(|call| {
            // SAFETY: calls without arguments.
            unsafe { syscall(call) }
        });
        assert_eq!(told, [USER as i64; 4]);
    });
}

#[test]
fn supplementary_groups_are_set_told_and_count() {
    isolated(|| {
        let scratch = open_scratch();
        let path = scratch.file("f", b"x");
        // SAFETY: a NUL-terminated path.
        must(unsafe { chown(c(&path).as_ptr(), 0, 77) });
        // SAFETY: a NUL-terminated path.
        must(unsafe { chmod(c(&path).as_ptr(), 0o640) });
        assert_eq!(setgroups(&[88, 77, 99]), Ok(0));
        let mut found = [0; 8];
        // SAFETY: without room nothing is stored.
        assert_eq!(check(unsafe { libc::getgroups(0, std::ptr::null_mut()) }), Ok(3));
        assert_eq!(getgroups(8, &mut found), Ok(3));
        assert_eq!(found[..3], [77, 88, 99]);
        assert_eq!(getgroups(2, &mut found), Err(EINVAL));
        assert_eq!(getgroups(-1, &mut found), Err(EINVAL));
        assert_eq!(setgroups(&vec![0; 65537]), Err(EINVAL));
        assert_eq!(setresuid(USER, USER, USER), Ok(0));
        assert!(open(&path, O_RDONLY, 0).is_ok());
        assert_eq!(open(&path, O_WRONLY, 0), Err(EACCES));
        assert_eq!(setgroups(&[]), Err(EPERM));
    });
}

#[test]
fn as_many_groups_as_allowed_can_be_had() {
    isolated(|| {
        let many: Vec<u32> = (0..65536).map(|group| group * 3).collect();
        assert_eq!(setgroups(&many), Ok(0));
        let mut found = vec![0; many.len()];
        assert_eq!(getgroups(65536, &mut found), Ok(65536));
        assert!(found == many);
    });
}

#[test]
fn a_setuid_program_runs_as_its_owner_and_says_so() {
    isolated(|| {
        let scratch = open_scratch();
        let program = copy(scratch.path("p"), (OTHER, OTHER), 0o4755);
        let report = report_of(&program, || become_user(USER));
        assert_eq!(report.users, (USER, OTHER, OTHER));
        assert_eq!(report.groups, (USER, USER, USER));
        assert!(report.is_secure && !report.is_dumpable);
        assert_eq!(report.effective, 0);
    });
}

#[test]
fn a_setuid_program_of_root_s_has_root_s_rights() {
    isolated(|| {
        let scratch = open_scratch();
        let program = copy(scratch.path("p"), (0, 0), 0o4755);
        let report = report_of(&program, || become_user(USER));
        assert_eq!(report.users, (USER, 0, 0));
        assert_eq!(report.effective, capabilities()[1]);
        assert!(report.is_secure);
    });
}

#[test]
fn a_setgid_program_runs_in_its_group_if_the_group_may_execute_it() {
    isolated(|| {
        let scratch = open_scratch();
        let program = copy(scratch.path("p"), (0, OTHER), 0o2755);
        let report = report_of(&program, || become_user(USER));
        assert_eq!((report.users, report.groups), ((USER, USER, USER), (USER, OTHER, OTHER)));
        assert!(report.is_secure);
        let program = copy(scratch.path("q"), (0, OTHER), 0o2705);
        let report = report_of(&program, || become_user(USER));
        assert_eq!(report.groups, (USER, USER, USER));
        assert!(!report.is_secure && report.is_dumpable);
    });
}

#[test]
fn an_ordinary_program_saves_the_effective_ids() {
    isolated(|| {
        let scratch = open_scratch();
        let program = copy(scratch.path("p"), (0, 0), 0o755);
        let report = report_of(&program, || assert_eq!(setresuid(USER, OTHER, USER), Ok(0)));
        assert_eq!(report.users, (USER, OTHER, OTHER));
        assert!(report.is_secure && !report.is_dumpable);
    });
}

#[test]
fn without_new_privileges_the_bits_do_nothing() {
    isolated(|| {
        let scratch = open_scratch();
        let program = copy(scratch.path("p"), (0, 0), 0o6755);
        let report = report_of(&program, || {
            become_user(USER);
            assert_eq!(control(PR_SET_NO_NEW_PRIVS, 1, 0), Ok(0));
        });
        assert_eq!((report.users, report.groups), ((USER, USER, USER), (USER, USER, USER)));
        assert!(!report.is_secure);
    });
}

#[test]
fn on_a_nosuid_mount_the_bits_do_nothing() {
    isolated(|| {
        // SAFETY: plain numbers; keeps the mount to ourselves where namespaces are.
        if check(unsafe { unshare(CLONE_NEWNS) }).is_ok() {
            let (none, root) = (c"".as_ptr(), c"/".as_ptr());
            // SAFETY: NUL-terminated strings.
            must(unsafe { mount(none, root, none, MS_REC | MS_PRIVATE, std::ptr::null()) });
        }
        let scratch = open_scratch();
        let at = c(scratch.path(""));
        let (source, kind) = (c"tmpfs".as_ptr(), c"tmpfs".as_ptr());
        // SAFETY: NUL-terminated strings.
        must(unsafe { mount(source, at.as_ptr(), kind, MS_NOSUID, c"mode=755".as_ptr().cast()) });
        let program = copy(scratch.path("p"), (0, 0), 0o6755);
        let report = report_of(&program, || become_user(USER));
        assert_eq!((report.users, report.groups), ((USER, USER, USER), (USER, USER, USER)));
        // SAFETY: a NUL-terminated path.
        must(unsafe { umount2(at.as_ptr(), MNT_DETACH) });
    });
}

#[test]
fn a_setuid_script_runs_as_its_caller() {
    isolated(|| {
        let scratch = open_scratch();
        let program = copy(scratch.path("p"), (0, 0), 0o755);
        // The script's own path is an argument in between: as a second filter it matches no other
        // test.
        let text = format!("#!{}\n", program.display());
        let script = scratch.file("s", text.as_bytes());
        // SAFETY: a NUL-terminated path.
        must(unsafe { chmod(c(&script).as_ptr(), 0o4755) });
        let report = report_of(&script, || become_user(USER));
        assert_eq!(report.users, (USER, USER, USER));
    });
}

#[test]
fn the_bounding_set_limits_what_a_program_gets() {
    isolated(|| {
        let scratch = open_scratch();
        let program = copy(scratch.path("p"), (0, 0), 0o755);
        assert_eq!(control(PR_CAPBSET_READ, 13, 0), Ok(1));
        assert_eq!(control(PR_CAPBSET_DROP, 13, 0), Ok(0));
        assert_eq!(control(PR_CAPBSET_READ, 13, 0), Ok(0));
        assert_eq!(control(PR_CAPBSET_DROP, 64, 0), Err(EINVAL));
        assert_eq!(capabilities()[0] & NET_RAW, NET_RAW, "what is held stays until exec");
        let report = report_of(&program, || {});
        assert_eq!(report.effective & NET_RAW, 0);
        assert_eq!(report.effective & CHOWN, CHOWN);
        become_user(USER);
        assert_eq!(control(PR_CAPBSET_DROP, 0, 0), Err(EPERM));
    });
}

#[test]
fn ambient_capabilities_pass_an_ordinary_exec() {
    isolated(|| {
        let scratch = open_scratch();
        let program = copy(scratch.path("p"), (0, 0), 0o755);
        let raise = PR_CAP_AMBIENT_RAISE as u64;
        assert_eq!(control(PR_CAP_AMBIENT, raise, 0), Err(EPERM), "it is not inheritable");
        let [effective, permitted, _] = capabilities();
        assert_eq!(set_capabilities([effective, permitted, CHOWN]), Ok(0));
        let report = report_of(&program, || {
            assert_eq!(control(PR_SET_KEEPCAPS, 1, 0), Ok(0));
            become_user(USER);
            assert_eq!(set_capabilities([CHOWN, CHOWN, CHOWN]), Ok(0));
            assert_eq!(control(PR_CAP_AMBIENT, raise, 0), Ok(0));
            assert_eq!(control(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET as u64, 0), Ok(1));
            assert_eq!(control(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET as u64, 1), Ok(0));
        });
        assert_eq!(report.effective, CHOWN);
        assert!(!report.is_secure);
        let clear = PR_CAP_AMBIENT_CLEAR_ALL as u64;
        assert_eq!(control(PR_CAP_AMBIENT, clear, 0), Ok(0));
        assert_eq!(control(PR_CAP_AMBIENT, clear, 1), Err(EINVAL));
    });
}

#[test]
fn capset_gives_nothing_that_was_not_permitted() {
    isolated(|| {
        assert_eq!(set_capabilities([CHOWN, CHOWN | DAC_OVERRIDE, 0]), Ok(0));
        assert_eq!(set_capabilities([CHOWN | DAC_OVERRIDE, CHOWN | DAC_OVERRIDE, 0]), Ok(0));
        assert_eq!(set_capabilities([0, CHOWN, 0]), Ok(0));
        assert_eq!(set_capabilities([DAC_OVERRIDE, CHOWN, 0]), Err(EPERM), "not permitted");
        assert_eq!(set_capabilities([0, CHOWN, DAC_OVERRIDE]), Err(EPERM), "nor inheritable");
        assert_eq!(capabilities(), [0, CHOWN, 0]);
    });
}

#[test]
fn locked_securebits_stay() {
    isolated(|| {
        const KEEP_CAPS_LOCKED: u64 = 1 << 5;
        assert_eq!(control(PR_SET_SECUREBITS, 1 << 12, 0), Err(EPERM), "unknown");
        assert_eq!(control(PR_SET_SECUREBITS, KEEP_CAPS_LOCKED, 0), Ok(0));
        assert_eq!(control(PR_SET_KEEPCAPS, 1, 0), Err(EPERM));
        assert_eq!(control(PR_SET_SECUREBITS, 0, 0), Err(EPERM));
        assert_eq!(control(PR_GET_SECUREBITS, 0, 0), Ok(KEEP_CAPS_LOCKED as i64));
        become_user(USER);
        assert_eq!(control(PR_SET_SECUREBITS, KEEP_CAPS_LOCKED, 0), Err(EPERM));
    });
}

#[test]
fn a_change_of_user_makes_a_process_undumpable() {
    isolated(|| {
        assert_eq!(control(PR_GET_DUMPABLE, 0, 0), Ok(1));
        become_user(USER);
        assert_eq!(control(PR_GET_DUMPABLE, 0, 0), Ok(0));
        assert_eq!(control(PR_SET_DUMPABLE, 1, 0), Ok(0));
        assert_eq!(control(PR_GET_DUMPABLE, 0, 0), Ok(1));
    });
}

/// Forks a process with these users that waits, and runs `body` with its id.
fn beside(real: u32, saved: u32, body: impl FnOnce(i32)) {
    let (from, to) = pipe();
    let child = fork(|| {
        // SAFETY: no conditions.
        must(unsafe { setsid() });
        assert_eq!(setresuid(real, real, saved), Ok(0));
        write(to, b"x").expect("telling");
        std::thread::sleep(std::time::Duration::from_secs(10));
    });
    read(from, 1).expect("being told");
    let judge = fork(|| body(child));
    assert_eq!(wait(judge), Ended::Exited(0));
    // SAFETY: plain numbers.
    must(unsafe { kill(child, SIGKILL) });
    wait(child);
}

#[test]
fn signals_reach_processes_of_the_same_user_only() {
    isolated(|| {
        let may = |target: i32, signal: i32| {
            // SAFETY: plain numbers.
            check(unsafe { kill(target, signal) })
        };
        beside(USER, USER, |child| {
            become_user(OTHER);
            assert_eq!(may(child, 0), Err(EPERM));
            assert_eq!(may(child, SIGTERM), Err(EPERM));
            assert_eq!(may(child, SIGCONT), Err(EPERM), "another session");
            assert_eq!(may(1, 0), Err(EPERM));
            assert_eq!(may(4_000_000, 0), Err(ESRCH));
        });
        beside(USER, OTHER, |child| {
            become_user(OTHER);
            assert_eq!(may(child, 0), Ok(0), "our real is its saved");
        });
        beside(USER, USER, |child| {
            assert_eq!(setresuid(OTHER, USER, OTHER), Ok(0));
            assert_eq!(may(child, 0), Ok(0), "our effective is its real");
        });
        beside(USER, USER, |child| {
            assert_eq!(setresuid(OTHER, OTHER, USER), Ok(0));
            assert_eq!(may(child, 0), Err(EPERM), "our saved does not count");
        });
    });
}

#[test]
fn sigcont_passes_within_a_session() {
    isolated(|| {
        let child = fork(|| {
            become_user(USER);
            // SAFETY: plain numbers.
            must(unsafe { raise(SIGSTOP) });
        });
        let mut status = 0;
        // SAFETY: room for the status.
        must(unsafe { waitpid(child, &mut status, WUNTRACED) });
        let judge = fork(|| {
            become_user(OTHER);
            // SAFETY: plain numbers.
            assert_eq!(check(unsafe { kill(child, SIGHUP) }), Err(EPERM));
            // SAFETY: plain numbers.
            assert_eq!(check(unsafe { kill(child, SIGCONT) }), Ok(0));
        });
        assert_eq!(wait(judge), Ended::Exited(0));
        assert_eq!(wait(child), Ended::Exited(0));
    });
}

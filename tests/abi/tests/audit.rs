//! Audit (audit(8)): its netlink protocol and its records. Run as root. On a kernel without audit the tests do nothing.
use abi::{
    Ended, Scratch, c, check, close, fork, identity::become_user, isolated, mls, must, wait,
};
use libc::*;
use std::fs;

const NETLINK_AUDIT: i32 = 9;
/// The group of readers.
const READERS: u32 = 1;
/// Types of messages (`AUDIT_...`).
mod kind {
    pub const GET: u16 = 1000;
    pub const SET: u16 = 1001;
    pub const LIST: u16 = 1002;
    pub const SIGNAL_INFO: u16 = 1010;
    pub const ADD_RULE: u16 = 1011;
    pub const DEL_RULE: u16 = 1012;
    pub const LIST_RULES: u16 = 1013;
    pub const TRIM: u16 = 1014;
    pub const TTY_GET: u16 = 1016;
    pub const SET_FEATURE: u16 = 1018;
    pub const GET_FEATURE: u16 = 1019;
    pub const LOGIN: u16 = 1006;
    pub const USER: u16 = 1112;
    pub const SYSCALL: u16 = 1300;
    pub const PATH: u16 = 1302;
    pub const CONFIG_CHANGE: u16 = 1305;
    pub const CWD: u16 = 1307;
    pub const EXECVE: u16 = 1309;
    pub const EOE: u16 = 1320;
    pub const PROCTITLE: u16 = 1327;
    pub const AVC: u16 = 1400;
}
/// Bits of what AUDIT_SET changes.
const ENABLED: u32 = 1;
const PID: u32 = 4;
const LIMIT: u32 = 16;
const LOST: u32 = 64;
const EQUAL: u32 = 0x4000_0000;
/// Fields of rules.
const LOGINUID: u32 = 9;
const KEY: u32 = 210;

/// A socket of NETLINK_AUDIT.
struct Audit(i32);

/// A message: its type, the length in its header, and its body.
type Message = (u16, u32, Vec<u8>);

impl Audit {
    /// Opens a socket; `None` if the kernel has no audit.
    fn open(groups: u32) -> Result<Audit, i32> {
        // SAFETY: takes no pointers.
        let fd = check(unsafe { socket(AF_NETLINK, SOCK_RAW, NETLINK_AUDIT) })? as i32;
        // SAFETY: plain bytes.
        let mut name: sockaddr_nl = unsafe { std::mem::zeroed() };
        (name.nl_family, name.nl_groups) = (AF_NETLINK as u16, groups);
        let length = size_of_val(&name) as u32;
        // SAFETY: the name lives until the call ends.
        check(unsafe { bind(fd, (&raw const name).cast(), length) })?;
        let patience = timeval { tv_sec: 5, tv_usec: 0 };
        let size = size_of_val(&patience) as u32;
        // SAFETY: the time lives until the call ends.
        must(unsafe {
            setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, (&raw const patience).cast(), size)
        });
        Ok(Audit(fd))
    }
    fn new() -> Option<Audit> {
        match Audit::open(0) {
            Err(EPROTONOSUPPORT) => None,
            opened => Some(opened.expect("a socket of audit")),
        }
    }
    fn send(&self, kind: u16, body: &[u8]) {
        let mut bytes = (16 + body.len() as u32).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(((NLM_F_REQUEST | NLM_F_ACK) as u16).to_ne_bytes());
        bytes.extend([7, 0, 0, 0, 0, 0, 0, 0]);
        bytes.extend(body);
        // SAFETY: the bytes live until the call ends.
        let sent = must(unsafe { send(self.0, bytes.as_ptr().cast(), bytes.len(), 0) } as i64);
        assert_eq!(sent as usize, bytes.len());
    }
    fn receive(&self) -> Message {
        let mut bytes = vec![0u8; 16 << 10];
        // SAFETY: the buffer has so many bytes.
        let count = must(unsafe { recv(self.0, bytes.as_mut_ptr().cast(), bytes.len(), 0) } as i64);
        bytes.truncate(count as usize);
        let length = u32::from_ne_bytes(bytes[..4].try_into().unwrap());
        (u16::from_ne_bytes([bytes[4], bytes[5]]), length, bytes[16..].to_vec())
    }
    /// Makes a request, and returns the number of its acknowledgement.
    fn ask(&self, kind: u16, body: &[u8]) -> i32 {
        self.send(kind, body);
        loop {
            let (kind, _, body) = self.receive();
            if i32::from(kind) == NLMSG_ERROR {
                return i32::from_ne_bytes(body[..4].try_into().unwrap());
            }
        }
    }
    /// Makes a request that has an answer, and returns its words.
    fn words(&self, kind: u16) -> Vec<u32> {
        assert_eq!(self.ask(kind, &[]), 0);
        let (found, _, body) = self.receive();
        assert_eq!(found, kind);
        body.chunks_exact(4).map(|word| u32::from_ne_bytes(word.try_into().unwrap())).collect()
    }
    /// Sets words of the state.
    fn set(&self, mask: u32, enabled: u32, pid: u32) -> i32 {
        self.set_words([mask, enabled, 0, pid, 0, 0, 0, 0, 0, 0, 0])
    }
    /// Sets the number of records that may wait.
    fn set_limit(&self, limit: u32) -> i32 {
        self.set_words([LIMIT, 0, 0, 0, 0, limit, 0, 0, 0, 0, 0])
    }
    fn set_words(&self, words: [u32; 11]) -> i32 {
        self.ask(kind::SET, &words.map(u32::to_ne_bytes).concat())
    }
    /// Returns the rules.
    fn rules(&self) -> Vec<Vec<u8>> {
        assert_eq!(self.ask(kind::LIST_RULES, &[]), 0);
        let mut all = Vec::new();
        loop {
            match self.receive() {
                (kind::LIST_RULES, length, body) => all.push(body[..length as usize - 16].to_vec()),
                (end, ..) => {
                    assert_eq!(i32::from(end), NLMSG_DONE);
                    return all;
                }
            }
        }
    }
    /// Reads records as the daemon until one of a type has a text in it.
    fn record(&self, kind: u16, part: &str) -> String {
        loop {
            let (found, length, body) = self.receive();
            if found == kind && i32::from(kind) != NLMSG_ERROR {
                let text = String::from_utf8(body[..length as usize].to_vec()).expect("text");
                if text.contains(part) {
                    return text;
                }
            }
        }
    }
    /// Makes the calling process the daemon, with audit on.
    fn become_daemon(&self) {
        assert_eq!(self.set(PID, 0, std::process::id()), 0);
        assert_eq!(self.set(ENABLED, 1, 0), 0);
    }
}

impl Drop for Audit {
    fn drop(&mut self) {
        close(self.0);
    }
}

/// Turns audit off and removes rules at the end of a test. Audit is one for all processes, so the tests that change it take turns.
struct Quiet {
    _turn: fs::File,
}

impl Quiet {
    fn begin() -> Quiet {
        let turn = fs::File::create(std::env::temp_dir().join("abi-audit.lock")).expect("a file");
        turn.lock().expect("a turn");
        Quiet { _turn: turn }
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        let audit = Audit::new().expect("audit");
        // It fails in a test that was no daemon.
        audit.set(PID, 0, 0);
        audit.set(ENABLED, 0, 0);
        audit.set_limit(64);
        audit.rules().iter().for_each(|rule| assert_eq!(audit.ask(kind::DEL_RULE, rule), 0));
    }
}

/// Returns a rule of the list of exits: calls, fields, texts.
fn rule(calls: &[c_long], fields: &[(u32, u32)], texts: &str) -> Vec<u8> {
    let mut words = vec![0u32; 260];
    words[..3].copy_from_slice(&[4, 2, fields.len() as u32]);
    calls.iter().for_each(|call| words[3 + *call as usize / 32] |= 1 << (call % 32));
    for (place, (number, value)) in fields.iter().enumerate() {
        (words[67 + place], words[131 + place], words[195 + place]) = (*number, *value, EQUAL);
    }
    words[259] = texts.len() as u32;
    words.iter().flat_map(|word| word.to_ne_bytes()).chain(texts.bytes()).collect()
}

#[test]
fn the_state_is_told_and_needs_a_capability() {
    isolated(|| {
        let Some(audit) = Audit::new() else { return };
        let _quiet = Quiet::begin();
        let status = audit.words(kind::GET);
        assert_eq!((status.len(), status[0], status[1]), (11, 0, 0), "{status:?}");
        assert_eq!(status[8] & 0x3f, 0x3f, "what auditctl looks for");
        let features = audit.words(kind::GET_FEATURE);
        assert_eq!(features, [1, u32::MAX, 0, 0]);
        assert_eq!(audit.words(kind::TTY_GET), [0, 0]);
        assert_eq!(audit.words(kind::SIGNAL_INFO)[..2], [u32::MAX, u32::MAX]);
        assert_eq!(audit.ask(kind::TRIM, &[]), 0);
        assert_eq!(audit.ask(kind::LIST, &[]), -EOPNOTSUPP);
        assert_eq!(audit.ask(999, &[]), -EINVAL);
        assert_eq!(audit.ask(2000, &[]), -EINVAL);
        let child = fork(|| {
            become_user(1000);
            let audit = Audit::open(0).expect("anybody may have a socket");
            for kind in [kind::GET, kind::SET, kind::LIST_RULES, kind::USER, kind::GET_FEATURE] {
                assert_eq!(audit.ask(kind, &[0; 64]), -EPERM, "{kind}");
            }
            assert_eq!(Audit::open(READERS).err(), Some(EPERM));
        });
        assert_eq!(wait(child), Ended::Exited(0));
    });
}

#[test]
fn rules_are_added_listed_and_deleted() {
    isolated(|| {
        let Some(audit) = Audit::new() else { return };
        let _quiet = Quiet::begin();
        let one = rule(&[SYS_openat], &[(LOGINUID, 77), (KEY, 3)], "key");
        let other = rule(&[SYS_mkdir], &[(LOGINUID, 77)], "");
        assert_eq!(audit.ask(kind::ADD_RULE, &one), 0);
        assert_eq!(audit.ask(kind::ADD_RULE, &one), -EEXIST);
        assert_eq!(audit.ask(kind::ADD_RULE, &other), 0);
        assert_eq!(audit.rules(), [one.clone(), other.clone()]);
        assert_eq!(audit.ask(kind::DEL_RULE, &one), 0);
        assert_eq!(audit.ask(kind::DEL_RULE, &one), -ENOENT);
        assert_eq!(audit.rules(), [other]);
        assert_eq!(audit.ask(kind::ADD_RULE, &one[..1039]), -EINVAL);
        for wrong in [
            rule(&[], &[(KEY, 4)], "key"),
            rule(&[], &[(LOGINUID, 1), (12, 1)], ""),
            rule(&[], &[(105, 3)], "etc"),
            rule(&[], &[(250, 3)], "etc"),
        ] {
            assert_eq!(audit.ask(kind::ADD_RULE, &wrong), -EINVAL);
        }
    });
}

#[test]
fn the_daemon_gets_records_and_stays_the_only_one() {
    isolated(|| {
        let Some(audit) = Audit::new() else { return };
        let _quiet = Quiet::begin();
        assert_eq!(audit.set(PID, 0, 1), -EINVAL, "another process");
        audit.become_daemon();
        assert_eq!(audit.words(kind::GET)[3], std::process::id());
        let child = fork(|| {
            let other = Audit::new().expect("audit");
            assert_eq!(other.set(PID, 0, std::process::id()), -EEXIST);
            assert_eq!(other.set(PID, 0, 0), -EACCES);
            assert_eq!(other.ask(kind::USER, b"op=test \"words\" res=success\0"), 0);
        });
        assert_eq!(wait(child), Ended::Exited(0));
        let text = audit.record(kind::USER, "op=test");
        assert!(text.starts_with("audit("), "{text}");
        let (stamp, text) = text.split_once("): ").expect("a stamp");
        let (time, serial) = stamp["audit(".len()..].split_once(':').expect("a number");
        assert!(time.split_once('.').is_some_and(|(_, ms)| ms.len() == 3), "{stamp}");
        assert!(serial.parse::<u32>().is_ok_and(|serial| serial > 0), "{stamp}");
        assert!(text.starts_with(&format!("pid={child} uid=0 auid=")), "{text}");
        assert!(text.ends_with(" msg='op=test \"words\" res=success'"), "{text}");
        assert_eq!(audit.set(PID, 0, 0), 0);
        assert_eq!(audit.words(kind::GET)[3], 0);
    });
}

#[test]
fn changes_of_the_state_are_told() {
    isolated(|| {
        let Some(audit) = Audit::new() else { return };
        let _quiet = Quiet::begin();
        audit.become_daemon();
        assert_eq!(audit.ask(kind::ADD_RULE, &rule(&[], &[(LOGINUID, 77), (KEY, 3)], "a b")), 0);
        let text = audit.record(kind::CONFIG_CHANGE, "op=add_rule");
        assert!(text.ends_with("key=612062 list=4 res=1"), "{text}");
        // The number of lost records is the number of the acknowledgement.
        assert!(audit.set(LOST, 0, 0) >= 0);
        audit.record(kind::CONFIG_CHANGE, "op=set lost=0 old=");
        let child = fork(|| fs::write("/proc/self/loginuid", "4321").expect("the first login"));
        assert_eq!(wait(child), Ended::Exited(0));
        let text = audit.record(kind::LOGIN, "auid=4321");
        assert!(text.contains(&format!("): pid={child} uid=0 ")), "{text}");
        assert!(text.ends_with("res=1"), "{text}");
    });
}

#[test]
fn readers_hear_of_records_without_being_the_daemon() {
    isolated(|| {
        let Some(audit) = Audit::new() else { return };
        let _quiet = Quiet::begin();
        let readers = Audit::open(READERS).expect("a reader");
        assert_eq!(audit.set(ENABLED, 1, 0), 0);
        assert_eq!(audit.ask(kind::USER, b"op=heard\0"), 0);
        loop {
            let (found, length, body) = readers.receive();
            if found == kind::USER {
                // The length is that of the message here, and of the text where the daemon gets it.
                let text = String::from_utf8_lossy(&body[..length as usize - 16]).into_owned();
                assert!(text.ends_with(" msg='op=heard'"), "{text}");
                break;
            }
        }
    });
}

#[test]
fn features_need_whole_messages() {
    isolated(|| {
        let Some(audit) = Audit::new() else { return };
        assert_eq!(audit.ask(kind::SET_FEATURE, &[0; 15]), -EINVAL);
        assert_eq!(audit.ask(kind::SET_FEATURE, &[0; 16]), 0);
        assert_eq!(audit.words(kind::GET_FEATURE)[2..], [0, 0]);
    });
}

/// Fields of rules.
const EXIT: u32 = 103;
const SUCCESS: u32 = 104;
const DIR: u32 = 107;
const PERM: u32 = 106;

/// A record: its type and its text after the stamp.
type Told = (u16, String);

impl Audit {
    /// Reads the records of the event whose record of the call has a text in it.
    fn event(&self, part: &str) -> Vec<Told> {
        let mut all: Vec<Told> = Vec::new();
        loop {
            let (found, length, body) = self.receive();
            if i32::from(found) == NLMSG_ERROR {
                continue;
            }
            let text = String::from_utf8(body[..length as usize].to_vec()).expect("text");
            let stamp = text.split("): ").next().expect("a stamp");
            if all.last().is_some_and(|(_, before)| !before.starts_with(stamp)) {
                all.clear();
            }
            if found == kind::EOE {
                let place = all
                    .iter()
                    .position(|(kind, text)| *kind == kind::SYSCALL && text.contains(part));
                if let Some(place) = place {
                    all.swap(0, place);
                    return all
                        .into_iter()
                        .map(|(kind, text)| (kind, text[stamp.len() + 3..].to_owned()))
                        .collect();
                }
                all.clear();
                continue;
            }
            all.push((found, text));
        }
    }
}

/// Runs a body in a child of which a user has logged in, and returns the child's number.
fn logged_in(user: &str, body: impl FnOnce()) -> pid_t {
    let child = fork(|| {
        fs::write("/proc/self/loginuid", user).expect("the first login");
        body();
    });
    assert_eq!(wait(child), Ended::Exited(0));
    child
}

/// Opens a file by openat(2): C libraries differ in the call that they use.
fn open_at(path: impl AsRef<std::path::Path>, flags: i32) -> Result<i64, i32> {
    // SAFETY: the path ends with NUL and lives until the call ends.
    check(unsafe { syscall(SYS_openat, AT_FDCWD, c(path).as_ptr(), flags, 0o600) })
}

fn texts(event: &[Told], kind: u16) -> Vec<&str> {
    event.iter().filter(|(found, _)| *found == kind).map(|(_, text)| text.as_str()).collect()
}

#[test]
fn a_selected_call_has_the_records_of_its_files() {
    isolated(|| {
        let Some(audit) = Audit::new() else { return };
        let _quiet = Quiet::begin();
        let scratch = Scratch::new();
        audit.become_daemon();
        let made = scratch.path("a directory");
        let fields = [(LOGINUID, 5001), (KEY, 4)];
        let calls = [SYS_mkdir, SYS_rmdir, SYS_openat];
        assert_eq!(audit.ask(kind::ADD_RULE, &rule(&calls, &fields, "made")), 0);
        let child = logged_in("5001", || {
            fs::create_dir(&made).expect("a directory");
            assert_eq!(open_at("/absent", O_RDONLY), Err(ENOENT));
            fs::remove_dir(&made).expect("it is empty");
        });
        logged_in("5002", || fs::create_dir(&made).expect("nobody tells of this one"));

        let event = audit.event("syscall=83 ");
        let call = &event[0].1;
        assert!(call.starts_with("arch=c000003e syscall=83 success=yes exit=0 a0="), "{call}");
        assert!(call.contains(&format!(" pid={child} auid=5001 uid=0 gid=0 euid=0 ")), "{call}");
        assert!(call.ends_with(" key=\"made\""), "{call}");
        let name: String =
            made.to_str().unwrap().bytes().map(|byte| format!("{byte:02X}")).collect();
        let paths = texts(&event, kind::PATH);
        let path = paths.iter().find(|path| path.contains(&name)).expect("the name in hexadecimal");
        let inode = fs::metadata(&made).is_ok();
        assert!(inode && path.contains(" mode=040755 ouid=0 ogid=0 "), "{path}");
        assert!(path.contains(" nametype=CREATE "), "{path}");
        let parent = format!("\"{}/\"", made.parent().unwrap().display());
        assert!(paths[0].contains(&parent) && paths[0].contains("nametype=PARENT"), "{paths:?}");
        let directory = std::env::current_dir().expect("a directory");
        let cwd = texts(&event, kind::CWD);
        assert_eq!(cwd, [format!("cwd=\"{}\"", directory.display())]);
        assert_eq!(texts(&event, kind::PROCTITLE).len(), 1);

        let event = audit.event("syscall=257 success=no exit=-2 ");
        let paths = texts(&event, kind::PATH);
        assert!(
            paths.iter().any(|path| path.contains("name=\"/absent\" nametype=UNKNOWN")),
            "{paths:?}"
        );

        let event = audit.event("syscall=84 ");
        let paths = texts(&event, kind::PATH);
        assert!(paths.iter().any(|path| path.contains(" nametype=DELETE ")), "{paths:?}");
    });
}

#[test]
fn rules_select_by_result_and_by_place() {
    isolated(|| {
        let Some(audit) = Audit::new() else { return };
        let _quiet = Quiet::begin();
        let scratch = Scratch::new();
        audit.become_daemon();
        let folder = scratch.path("folder");
        fs::create_dir(&folder).expect("a directory");
        let failed = [(LOGINUID, 5003), (SUCCESS, 0), (EXIT, (-ENOENT) as u32)];
        assert_eq!(audit.ask(kind::ADD_RULE, &rule(&[SYS_openat], &failed, "")), 0);
        let text = folder.to_str().unwrap();
        let place = [(LOGINUID, 5003), (DIR, text.len() as u32), (PERM, 2)];
        assert_eq!(audit.ask(kind::ADD_RULE, &rule(&[SYS_openat], &place, text)), 0);
        logged_in("5003", || {
            for (path, flags) in [
                (scratch.path("beside"), O_WRONLY | O_CREAT),
                (folder.join("inside"), O_WRONLY | O_CREAT),
                (folder.join("inside"), O_RDONLY),
            ] {
                open_at(&path, flags).expect("the file is opened");
            }
            assert_eq!(open_at("/absent", O_RDONLY), Err(ENOENT));
        });
        // The record of the login has one of its call, too.
        let event = audit.event(" auid=5003 ");
        assert_eq!(texts(&event, kind::LOGIN).len(), 1, "{event:?}");
        let event = audit.event("syscall=257 ");
        assert!(event[0].1.contains(" success=yes "), "{}", event[0].1);
        let paths = texts(&event, kind::PATH);
        assert!(paths.iter().any(|path| path.contains("/folder/inside\"")), "{paths:?}");
        let event = audit.event("syscall=257 ");
        assert!(event[0].1.contains(" success=no exit=-2 "), "{}", event[0].1);
    });
}

#[test]
fn an_executed_program_has_a_record_of_its_arguments() {
    isolated(|| {
        let Some(audit) = Audit::new() else { return };
        let _quiet = Quiet::begin();
        audit.become_daemon();
        assert_eq!(audit.ask(kind::ADD_RULE, &rule(&[SYS_execve], &[(LOGINUID, 5004)], "")), 0);
        logged_in("5004", || {
            let status = std::process::Command::new("/bin/true").args(["a b", "", "c"]).status();
            assert!(status.is_ok_and(|status| status.success()));
        });
        let event = audit.event("syscall=59 success=yes");
        assert!(event[0].1.ends_with(" key=(null)"), "{}", event[0].1);
        assert_eq!(
            texts(&event, kind::EXECVE),
            ["argc=4 a0=\"/bin/true\" a1=612062 a2=\"\" a3=\"c\""]
        );
        let title: String =
            b"/bin/true\0a b\0\0c".iter().map(|byte| format!("{byte:02X}")).collect();
        assert_eq!(texts(&event, kind::PROCTITLE), [format!("proctitle={title}")]);
    });
}

#[test]
fn a_refusal_of_the_monitor_has_a_record() {
    if !mls::is_here() {
        return;
    }
    let place = |id| std::env::temp_dir().join(format!("audit-above-{id}"));
    if mls::part().is_some() {
        let error = fs::read(place(mls::given("OWNER"))).expect_err("it is above");
        assert_eq!(error.raw_os_error(), Some(EACCES));
        let audit = Audit::open(0).expect("anybody may have a socket");
        assert_eq!(audit.ask(kind::GET, &[]), -EPERM);
        assert_eq!(Audit::open(READERS).err(), Some(EPERM));
        return;
    }
    isolated(|| {
        let audit = Audit::new().expect("audit");
        let _quiet = Quiet::begin();
        audit.become_daemon();
        let id = std::process::id() as i32;
        fs::write(place(id), "secret").expect("a file");
        mls::label(&place(id), "system_u:object_r:tmp_t:s2");
        let granted = audit.record(kind::AVC, "granted");
        assert!(granted.contains("{ relabelto } for  pid="), "{granted}");
        let stage = mls::Stage::new("a_refusal_of_the_monitor_has_a_record").give("OWNER", id);
        assert_eq!(stage.run(mls::LOW, "look"), Ended::Exited(0));
        let text = audit.record(kind::AVC, "tcontext=system_u:object_r:tmp_t:s2");
        assert!(text.contains("): avc:  denied  { read } for  pid="), "{text}");
        let end = format!(
            "scontext={} tcontext=system_u:object_r:tmp_t:s2 tclass=file permissive=0",
            mls::LOW
        );
        assert!(text.ends_with(&end), "{text}");
        fs::remove_file(place(id)).expect("the file");
    });
}

/// Numbers of opens, few enough for the records to wait until they are read.
const OPENS: usize = 30;

#[test]
fn the_recorded_file_is_the_one_that_the_call_used() {
    isolated(|| {
        let Some(audit) = Audit::new() else { return };
        let _quiet = Quiet::begin();
        let scratch = Scratch::new();
        audit.become_daemon();
        // The daemon reads when the program has ended.
        assert_eq!(audit.set_limit(8192), 0);
        let fields = [(LOGINUID, 5005), (KEY, 4)];
        assert_eq!(audit.ask(kind::ADD_RULE, &rule(&[SYS_openat], &fields, "used")), 0);
        let inodes = scratch.path("inodes");
        fs::write(scratch.path("used-a"), "").expect("a file");
        fs::write(scratch.path("used-b"), "").expect("a file");
        let mut name = c(scratch.path("used-a")).into_bytes_with_nul();
        let last = name.len() - 2;
        logged_in("5005", || {
            let place = name.as_mut_ptr() as usize;
            let done = std::sync::atomic::AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let mut letter = 0u8;
                    while !done.load(std::sync::atomic::Ordering::Relaxed) {
                        letter ^= 1;
                        // SAFETY: the byte is in the name, which only the kernel reads meanwhile.
                        unsafe { ((place + last) as *mut u8).write_volatile(b'a' + letter) };
                    }
                });
                let mut found = String::new();
                for _ in 0..OPENS {
                    // SAFETY: the name ends with NUL all the time.
                    let fd = must(unsafe { syscall(SYS_openat, AT_FDCWD, place, O_RDONLY, 0) });
                    // SAFETY: plain bytes.
                    let mut status: stat = unsafe { std::mem::zeroed() };
                    // SAFETY: the structure lives until the call ends.
                    must(i64::from(unsafe { fstat(fd as i32, &raw mut status) }));
                    found += &format!("{} ", status.st_ino);
                    close(fd as i32);
                }
                done.store(true, std::sync::atomic::Ordering::Relaxed);
                fs::write(&inodes, found).expect("the numbers");
            });
        });
        let used = fs::read_to_string(&inodes).expect("the numbers");
        for inode in used.split_whitespace() {
            let event = audit.event(" key=\"used\"");
            let paths = texts(&event, kind::PATH);
            let is_used = |path: &&str| path.contains("/used-");
            let path = paths.iter().find(|path| is_used(path)).expect("the file of the call");
            assert!(path.contains(&format!(" inode={inode} ")), "{inode}: {path}");
        }
    });
}

#[test]
fn the_next_daemon_gets_the_record_that_a_killed_one_took() {
    if !mls::is_here() {
        return;
    }
    isolated(|| {
        let audit = Audit::new().expect("audit");
        let _quiet = Quiet::begin();
        assert_eq!(audit.set(ENABLED, 1, 0), 0);
        for text in ["op=first\0", "op=second\0", "op=third\0"] {
            assert_eq!(audit.ask(kind::USER, text.as_bytes()), 0);
        }
        let killed = fork(|| {
            let daemon = Audit::new().expect("audit");
            assert_eq!(daemon.set(PID, 0, std::process::id()), 0);
            daemon.record(kind::USER, "op=second");
            // SAFETY: takes no pointers.
            unsafe { kill(std::process::id() as i32, SIGKILL) };
        });
        assert_eq!(wait(killed), Ended::Signalled(SIGKILL));
        assert_eq!(audit.set(PID, 0, std::process::id()), 0);
        let (kind, length, body) = audit.receive();
        let text = String::from_utf8_lossy(&body[..length as usize]).into_owned();
        assert!(kind == kind::USER && text.contains("op=second"), "{kind} {text}");
        audit.record(kind::USER, "op=third");
    });
}

#[test]
fn refusals_of_objects_without_a_file_have_records() {
    if !mls::is_here() {
        return;
    }
    match mls::part().as_deref() {
        // SAFETY: takes no pointers.
        Some("make") => must(i64::from(unsafe { shmget(IPC_PRIVATE, 4096, 0o666) })),
        Some("use") => {
            // SAFETY: the place is the kernel's choice.
            let place = unsafe { shmat(mls::given("SHM"), std::ptr::null(), 0) };
            assert_eq!(place as isize, -1, "it is below");
            // SAFETY: takes no pointers.
            assert_eq!(check(unsafe { kill(mls::given("BELOW"), 0) } as i64), Err(EPERM));
            // SAFETY: no pointer is used.
            let limits =
                unsafe { prlimit(mls::given("BELOW"), RLIMIT_CORE, &CORE, std::ptr::null_mut()) };
            return assert_eq!(check(limits as i64), Err(EPERM));
        }
        Some(_) => loop {
            // SAFETY: takes no pointers.
            unsafe { pause() };
        },
        None => 0,
    };
    if mls::part().is_some() {
        return;
    }
    isolated(|| {
        let audit = Audit::new().expect("audit");
        let _quiet = Quiet::begin();
        audit.become_daemon();
        let name = "refusals_of_objects_without_a_file_have_records";
        let stage = mls::Stage::new(name);
        assert_eq!(stage.run(mls::LOW, "make"), Ended::Exited(0));
        let table = fs::read_to_string("/proc/sysvipc/shm").expect("the table");
        let line = table.lines().nth(1).expect("a segment");
        let id = line.split_whitespace().nth(1).and_then(|id| id.parse().ok()).expect("an id");
        let below = stage.start(mls::LOW, "wait");
        let stage = stage.give("SHM", id).give("BELOW", below);
        assert_eq!(stage.run(mls::HIGH, "use"), Ended::Exited(0));
        for class in ["shm", "process"] {
            let text = audit.record(kind::AVC, &format!(" tclass={class} "));
            let contexts = format!("scontext={} tcontext={} ", mls::HIGH, mls::LOW);
            assert!(text.contains("denied") && text.contains(&contexts), "{text}");
        }
        // SAFETY: no pointer is used.
        must(i64::from(unsafe { shmctl(id, IPC_RMID, std::ptr::null_mut()) }));
        // SAFETY: takes no pointers.
        must(i64::from(unsafe { kill(below, SIGKILL) }));
        assert_eq!(wait(below), Ended::Signalled(SIGKILL));
    });
}

const CORE: rlimit = rlimit { rlim_cur: 0, rlim_max: 0 };

#[test]
fn an_open_that_fails_has_the_file_that_it_found() {
    isolated(|| {
        let Some(audit) = Audit::new() else { return };
        let _quiet = Quiet::begin();
        audit.become_daemon();
        let fields = [(LOGINUID, 5006), (SUCCESS, 0)];
        assert_eq!(audit.ask(kind::ADD_RULE, &rule(&[SYS_openat], &fields, "")), 0);
        // The user may search this directory.
        let closed = std::env::temp_dir().join(format!("{}-closed", std::process::id()));
        fs::write(&closed, "").expect("a file");
        fs::set_permissions(&closed, std::os::unix::fs::PermissionsExt::from_mode(0o600))
            .expect("its mode");
        let inode = std::os::unix::fs::MetadataExt::ino(&fs::metadata(&closed).expect("a file"));
        logged_in("5006", || {
            open_at(&closed, O_RDONLY).expect("root may open it");
            become_user(1000);
            assert_eq!(open_at(&closed, O_RDONLY), Err(EACCES));
            assert_eq!(open_at("/absent", O_RDONLY), Err(ENOENT));
        });
        let event = audit.event("syscall=257 success=no exit=-13 ");
        let paths = texts(&event, kind::PATH);
        let found = format!("-closed\" inode={inode} ");
        assert!(paths.iter().any(|path| path.contains(&found)), "{paths:?}");
        let event = audit.event("syscall=257 success=no exit=-2 ");
        let paths = texts(&event, kind::PATH);
        assert_eq!(paths.len(), 1, "{paths:?}");
        assert!(paths[0].contains("name=\"/absent\" nametype=UNKNOWN"), "{paths:?}");
        fs::remove_file(&closed).expect("the file");
    });
}

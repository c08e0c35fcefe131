//! Multilevel directories: each level finds a directory of its own, and nothing of the others'.
use interfaces::{file_system::FileType, monitor::Monitor};
use labels::Context;
use linux_raw_sys::general as raw;
use monitor::ReferenceMonitor;
use std::sync::{Arc, LazyLock, Mutex, Weak};
use vfs::{
    Active, Base, Caller, Credentials, Errno, MountFlags, Namespace, OpenHow, Path, Principal,
    Walk,
    credentials::AskedContexts,
    devices::Registry,
    notify::{Happening, Observer},
    operations::RenameMode,
    security::{self, SecuritySubject},
};

const POLICY: &str = "
type file_t grade user
type tmp_root_t grade untrusted multilevel tmp_t
type tmp_t grade untrusted
domain kernel_t grade tcb privileges all capabilities all
domain user_t grade user
role system_r domains kernel_t
role user_r domains user_t
user system_u roles system_r range s0-s15:c0.c1023
user user_u roles user_r range s0-s15:c0.c1023
initial kernel system_u:system_r:kernel_t:s0-s15:c0.c1023
initial unlabeled system_u:object_r:file_t:s15:c0.c1023
initial file system_u:object_r:file_t:s0
initial netif system_u:object_r:file_t:s0
initial netmsg system_u:object_r:file_t:s0
initial anonymous system_u:object_r:file_t:s0
";
const KERNEL: &str = "system_u:system_r:kernel_t:s0-s15:c0.c1023";

static MONITOR: LazyLock<Arc<ReferenceMonitor>> = LazyLock::new(|| {
    let monitor = Arc::new(ReferenceMonitor::new().unwrap());
    security::announce(monitor.clone());
    security::load(POLICY.as_bytes()).unwrap();
    security::enforce();
    monitor
});

/// A reader of directories.
struct Reader {
    sees_all: bool,
}

impl Principal for Reader {
    fn sees_hidden_names(&self) -> bool {
        self.sees_all
    }
}

/// A subject, and what it works with.
struct Actor {
    namespace: Arc<Namespace>,
    who: Credentials,
    root: Path,
    cwd: Path,
    reader: Reader,
}

fn subject(context: &str) -> Arc<SecuritySubject> {
    let context: Context = context.parse().unwrap();
    assert!(MONITOR.is_subject(&context));
    SecuritySubject::of(MONITOR.number(&context).unwrap())
}

impl Actor {
    /// Makes the kernel, which has made the multilevel directory `/tmp` of s0.
    fn kernel() -> Actor {
        let options = tmpfs::Options { permissions: 0o777, ..Default::default() };
        let subject = subject(KERNEL);
        let active = Active::stored(&(), tmpfs::new(options).unwrap(), None).unwrap();
        let registry = Arc::new(Registry::new());
        let namespace = Namespace::new(&(), "none", active, MountFlags::empty(), registry);
        let (root, who) = (namespace.root(), Credentials { subject, ..Credentials::root() });
        let cwd = root.clone();
        let kernel = Actor { namespace, who, root, cwd, reader: Reader { sees_all: true } };
        kernel.make_labelled("/tmp", "system_u:object_r:tmp_root_t:s0");
        kernel
    }
    fn make_labelled(&self, path: &str, context: &str) {
        let file = Some(security::named(context.as_bytes()).unwrap());
        let asked = Some(Arc::new(AskedContexts { file, ..Default::default() }));
        let who = Credentials { asked, ..self.who.clone() };
        let caller = Caller { credentials: &who, ..self.caller() };
        caller.make_directory(Base::Cwd, path.as_bytes(), 0o1777).unwrap();
    }
    /// Returns a user of a level who works in `/`.
    fn at(&self, level: &str) -> Actor {
        let who = Credentials {
            subject: subject(&format!("user_u:user_r:user_t:{level}")),
            ..Credentials::root()
        };
        let (namespace, root) = (self.namespace.clone(), self.namespace.root());
        let cwd = root.clone();
        Actor { namespace, who, root, cwd, reader: Reader { sees_all: false } }
    }
    fn caller(&self) -> Caller<'_> {
        Caller {
            task: &self.reader,
            namespace: &self.namespace,
            credentials: &self.who,
            root: &self.root,
            cwd: &self.cwd,
            umask: 0,
            process: 1,
            thread: 1,
        }
    }
    fn place(&self, path: &str) -> Result<Path, Errno> {
        self.caller().walk(Base::Cwd, path.as_bytes(), Walk::FOLLOW)
    }
    fn inode(&self, path: &str) -> u64 {
        self.place(path).unwrap().vnode().inode()
    }
    fn shown(&self, path: &str) -> String {
        let name = self.place(path).unwrap().describe(&self.namespace.root());
        String::from_utf8(name.text).unwrap()
    }
    fn go(&mut self, path: &str) {
        self.cwd = self.place(path).unwrap();
    }
    fn open(&self, path: &str, flags: u32) -> Result<Arc<vfs::OpenFile>, Errno> {
        self.caller().open(Base::Cwd, path.as_bytes(), OpenHow::with_mode(flags, 0o666))
    }
    fn make(&self, path: &str) -> Result<(), Errno> {
        self.open(path, raw::O_CREAT | raw::O_EXCL | raw::O_WRONLY).map(drop)
    }
    fn list(&self, path: &str) -> Vec<String> {
        let mut names = Vec::new();
        let file = self.open(path, raw::O_RDONLY | raw::O_DIRECTORY).unwrap();
        let mut take = |entry: &interfaces::file_system::DirectoryEntry<&[u8]>| {
            names.push(String::from_utf8(entry.name.to_vec()).unwrap());
            true
        };
        file.read_directory(&self.reader, &mut take).unwrap();
        names.retain(|name| name != "." && name != "..");
        names.sort();
        names
    }
    fn label(&self, path: &str) -> String {
        let place = self.place(path).unwrap();
        String::from_utf8(self.caller().get_attribute(&place, b"security.selinux").unwrap())
            .unwrap()
    }
}

#[test]
fn each_level_has_names_of_its_own() {
    let kernel = Actor::kernel();
    let mut users = ["s0", "s1", "s1:c1", "s2:c1"].map(|level| kernel.at(level));
    for user in &mut users {
        user.make("/tmp/same").unwrap();
        user.caller().make_directory(Base::Cwd, b"/tmp/folder", 0o777).unwrap();
        user.make("/tmp/folder/inner").unwrap();
        assert_eq!(user.make("/tmp/same"), Err(Errno::EEXIST));
        assert_eq!(user.list("/tmp"), ["folder", "same"]);
        user.go("/tmp/folder");
    }
    let own = |path: &str| {
        users.iter().map(|user| user.inode(path)).collect::<std::collections::BTreeSet<_>>()
    };
    for path in
        ["/tmp", "/tmp/", "/tmp/.", "/tmp/same", "inner", "..", "../same", "../../tmp/folder"]
    {
        assert_eq!(own(path).len(), users.len(), "{path}");
    }
    assert_eq!((own("/").len(), own("../..").len(), own("/tmp/..").len()), (1, 1, 1));
    for (user, level) in users.iter().zip(["s0", "s1", "s1:c1", "s2:c1"]) {
        assert_eq!(user.inode("/tmp"), user.inode(".."), "stat agrees with the way back");
        assert_eq!(user.inode("/"), user.inode("/tmp/.."));
        assert_eq!([user.shown("/tmp"), user.shown("inner")], ["/tmp", "/tmp/folder/inner"]);
        assert_eq!(user.label("/tmp"), format!("system_u:object_r:tmp_root_t:{level}\0"));
        assert_eq!(user.label("/tmp/same"), format!("user_u:object_r:tmp_t:{level}\0"));
        let (from, to) = ((Base::Cwd, &b"/tmp/same"[..]), (Base::Cwd, &b"inner"[..]));
        user.caller().rename(from, to, RenameMode::Replace).unwrap();
        assert_eq!(user.list("/tmp"), ["folder"]);
        let unnamed = user.open("/tmp", raw::O_TMPFILE | raw::O_RDWR).unwrap();
        user.caller().link(unnamed.path(), Base::Cwd, b"/tmp/linked").unwrap();
        user.caller().unlink(Base::Cwd, b"/tmp/linked").unwrap();
        user.caller().unlink(Base::Cwd, b"inner").unwrap();
        user.caller().remove_directory(Base::Cwd, b"/tmp/folder").unwrap();
        assert_eq!(user.list("/tmp"), [""; 0]);
    }
}

/// Counts what it is told.
#[derive(Default)]
struct Watcher(Mutex<Vec<String>>);

impl Observer for Watcher {
    fn happened(&self, what: &Happening<'_>) {
        let name = what.name.map(String::from_utf8_lossy);
        self.0.lock().unwrap().push(format!("{:?} {name:?}", what.events));
    }
}

#[test]
fn a_level_below_sees_nothing_of_the_others() {
    let kernel = Actor::kernel();
    let (low, high) = (kernel.at("s0"), kernel.at("s1"));
    let watcher = Arc::new(Watcher::default());
    let weak: Weak<Watcher> = Arc::downgrade(&watcher);
    low.place("/tmp").unwrap().vnode().observe(weak);
    let seen = || (low.place("/tmp").unwrap().vnode().attributes(), low.list("/tmp"));
    // The first listing sets the access time.
    seen();
    let before = seen();
    watcher.0.lock().unwrap().clear();
    high.make("/tmp/file").unwrap();
    let place = high.place("/tmp").unwrap();
    high.caller().change_mode(&place, 0o700).unwrap();
    assert_eq!(high.list("/tmp"), ["file"]);
    assert_eq!(*watcher.0.lock().unwrap(), [""; 0]);
    assert_eq!(seen(), before);
    low.make("/tmp/own").unwrap();
    assert!(watcher.0.lock().unwrap().iter().any(|event| event.contains("own")));
    high.caller().unlink(Base::Cwd, b"/tmp/file").unwrap();
}

#[test]
fn names_of_hidden_directories_are_for_those_that_read_up() {
    let kernel = Actor::kernel();
    let [low, high, middle] = ["s0", "s1:c0.c3,c7", "s1"].map(|level| kernel.at(level));
    high.make("/tmp/file").unwrap();
    let hidden = "/tmp/.mls:s1:c0.c3,c7";
    for user in [&low, &middle, &high] {
        for name in [hidden, "/tmp/.mls:s2"] {
            assert_eq!(user.place(name).map(drop), Err(Errno::ENOENT), "{name}");
            assert_eq!(user.place(&format!("{name}/file")).map(drop), Err(Errno::ENOENT));
            let caller = user.caller();
            let bytes = name.as_bytes();
            assert_eq!(caller.make_directory(Base::Cwd, bytes, 0o777), Err(Errno::EACCES));
            assert_eq!(caller.make_link(b"x", Base::Cwd, bytes), Err(Errno::EACCES));
            assert_eq!(user.make(name), Err(Errno::EACCES));
            assert_eq!(user.open(name, raw::O_CREAT | raw::O_RDWR).map(drop), Err(Errno::EACCES));
            assert_eq!(caller.remove_directory(Base::Cwd, bytes), Err(Errno::ENOENT));
            assert_eq!(caller.unlink(Base::Cwd, bytes), Err(Errno::ENOENT));
            user.make("/tmp/mine").unwrap();
            for mode in [RenameMode::Replace, RenameMode::NoReplace, RenameMode::Exchange] {
                let rename = |from: &[u8], to: &[u8]| {
                    caller.rename((Base::Cwd, from), (Base::Cwd, to), mode)
                };
                assert_eq!(rename(b"/tmp/mine", bytes), Err(Errno::EACCES));
                assert_eq!(rename(bytes, b"/tmp/new"), Err(Errno::ENOENT));
            }
            let mine = user.place("/tmp/mine").unwrap();
            assert_eq!(caller.link(&mine, Base::Cwd, bytes), Err(Errno::EACCES));
            caller.unlink(Base::Cwd, b"/tmp/mine").unwrap();
        }
    }
    // The middle one has made its own meanwhile.
    assert_eq!(kernel.list("/tmp"), [".mls:s1", ".mls:s1:c0.c3,c7"]);
    assert_eq!(kernel.list(hidden), ["file"]);
    assert_eq!(kernel.inode(hidden), high.inode("/tmp"));
    assert_eq!(
        kernel.caller().remove_directory(Base::Cwd, hidden.as_bytes()),
        Err(Errno::ENOTEMPTY)
    );
    kernel.caller().unlink(Base::Cwd, format!("{hidden}/file").as_bytes()).unwrap();
    kernel.caller().remove_directory(Base::Cwd, hidden.as_bytes()).unwrap();
    assert_eq!(kernel.list("/tmp"), [".mls:s1"]);
    assert_eq!(high.list("/tmp"), [""; 0], "it is made anew");
}

#[test]
fn other_rules_hold_for_a_multilevel_directory_too() {
    let kernel = Actor::kernel();
    kernel.make_labelled("/high", "system_u:object_r:tmp_root_t:s2");
    let [low, high] = ["s0", "s2"].map(|level| kernel.at(level));
    assert_eq!(low.place("/high").map(drop), Err(Errno::EACCES), "it is above");
    assert_eq!(low.make("/high/file"), Err(Errno::EACCES));
    high.make("/high/file").unwrap();
    assert_eq!(kernel.list("/high"), ["file"], "its own level works in it itself");
    // A working directory from before a change of label leads into the level's own.
    let mut raised = kernel.at("s1");
    raised.cwd = low.place("/tmp").unwrap();
    raised.make("relative").unwrap();
    assert_eq!((low.list("/tmp").len(), raised.list("/tmp")), (0, vec!["relative".into()]));
    assert_eq!(raised.inode(".."), raised.inode("/"));
    // A level above that is given the hidden directory of another works in that one.
    let mut above = kernel.at("s2");
    above.cwd = raised.place("/tmp").unwrap();
    assert_eq!(above.list("."), ["relative"]);
    assert_eq!(above.make("new"), Err(Errno::EACCES));
    // The mode of the directory is checked, and given on.
    kernel.make_labelled("/private", "system_u:object_r:tmp_root_t:s0");
    let place = kernel.place("/private").unwrap();
    kernel.caller().change_mode(&place, 0o700).unwrap();
    kernel.caller().change_owner(&place, Some(5), Some(6)).unwrap();
    let mut other = kernel.at("s1");
    other.who = Credentials { subject: other.who.subject.clone(), ..Credentials::user(7, 7, &[]) };
    assert_eq!(other.make("/private/file"), Err(Errno::EACCES));
    let vnode = raised.place("/private").unwrap().vnode().clone();
    assert_eq!((vnode.owner(), vnode.permissions()), ((5, 6), 0o700));
    // A removed hidden directory is no place for new names.
    kernel.caller().unlink(Base::Cwd, b"/tmp/.mls:s1/relative").unwrap();
    raised.go("/tmp");
    kernel.caller().remove_directory(Base::Cwd, b"/tmp/.mls:s1").unwrap();
    assert_eq!(raised.make("late"), Err(Errno::ENOENT));
    raised.make("/tmp/late").unwrap();
    assert_eq!(kernel.at("s2").place("/tmp/none").map(drop), Err(Errno::ENOENT));
    let kind = kernel.at("s2").place("/tmp").unwrap().vnode().file_type();
    assert_eq!(kind, FileType::Directory);
}

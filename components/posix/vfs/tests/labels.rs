//! Each operation on files, by subjects whose labels dominate, equal, are dominated by or cannot be compared with the object's, and
//! of each grade: the monitor's rules hold, and nothing else decides, because all callers are root.
use interfaces::{
    file_system::{FileType, XattrMode},
    monitor::Monitor,
};
use labels::{Context, Grade, Secrecy};
use linux_raw_sys::general as raw;
use monitor::ReferenceMonitor;
use std::sync::Arc;
use vfs::{
    Active, Base, Caller, Credentials, Errno, MountFlags, NOBODY, Namespace, OpenHow, Path, Walk,
    credentials::AskedContexts,
    devices::Registry,
    operations::{
        RenameMode,
        attributes::{AccessIds, TimeSetting},
    },
    permission::{self, Want},
    security::{self, SecuritySubject},
};

const POLICY: &str = "
type high_file_t grade tcb
type file_t grade user
type low_file_t grade untrusted
domain kernel_t grade tcb privileges all capabilities all
domain user_t grade user
role system_r domains kernel_t
role user_r domains user_t
user system_u roles system_r range s0-s15:c0.c1023
user user_u roles user_r range s0-s2:c0,c1
initial kernel system_u:system_r:kernel_t:s0-s15:c0.c1023
initial unlabeled system_u:object_r:file_t:s15:c0.c1023
initial file system_u:object_r:low_file_t:s0
initial netif system_u:object_r:file_t:s0
initial netmsg system_u:object_r:file_t:s0
initial anonymous system_u:object_r:file_t:s0
";
const LEVELS: [&str; 4] = ["s0", "s1:c0", "s1:c1", "s2:c0,c1"];
const TYPES: [(&str, Grade); 3] =
    [("high_file_t", Grade::Tcb), ("file_t", Grade::User), ("low_file_t", Grade::Untrusted)];

struct World {
    namespace: Arc<Namespace>,
    root: Path,
    who: Credentials,
    /// A directory with the caller's own label, in which there is a file of each label.
    own: String,
}

/// Returns the credentials of a root whose subject has a context.
fn credentials(monitor: &dyn Monitor, context: &str) -> Credentials {
    let context: Context = context.parse().unwrap();
    assert!(monitor.is_subject(&context));
    let subject = SecuritySubject::of(monitor.number(&context).unwrap());
    Credentials { subject, ..Credentials::root() }
}

impl World {
    fn with(&self, who: Credentials, own: &str) -> World {
        let (namespace, root) = (self.namespace.clone(), self.root.clone());
        World { namespace, root, who, own: own.into() }
    }
    /// Returns a place to which the kernel has walked for the caller.
    fn given(&self, path: &str) -> Path {
        self.with(Credentials::root(), "").place(path).unwrap()
    }
    fn caller(&self) -> Caller<'_> {
        Caller {
            task: NOBODY,
            namespace: &self.namespace,
            credentials: &self.who,
            root: &self.root,
            cwd: &self.root,
            umask: 0,
            process: 1,
            thread: 1,
        }
    }
    fn open(&self, path: &str, flags: u32) -> Result<Arc<vfs::OpenFile>, Errno> {
        self.caller().open(Base::Cwd, path.as_bytes(), OpenHow::with_mode(flags, 0o777))
    }
    fn place(&self, path: &str) -> Result<Path, Errno> {
        self.caller().walk(Base::Cwd, path.as_bytes(), Walk::empty())
    }
    /// Makes `path` with a context of its own.
    fn make(&self, path: &str, kind: FileType, context: &str) {
        let file = Some(security::named(context.as_bytes()).unwrap());
        let asked = Some(Arc::new(AskedContexts { file, ..Default::default() }));
        let maker = self.with(Credentials { asked, ..self.who.clone() }, "");
        let caller = maker.caller();
        match kind {
            FileType::Directory => {
                caller.make_directory(Base::Cwd, path.as_bytes(), 0o777).unwrap();
            }
            FileType::Symlink => caller.make_link(b"/", Base::Cwd, path.as_bytes()).unwrap(),
            _ => {
                let made = caller.make_node(Base::Cwd, path.as_bytes(), (kind, 0o777), (0, 0));
                made.map(drop).unwrap();
            }
        }
        let text = caller.get_attribute(&self.place(path).unwrap(), b"security.selinux").unwrap();
        assert_eq!(text, format!("{context}\0").as_bytes());
    }
}

/// The monitor's kinds of access that an operation needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Needs {
    Read,
    Both,
    Execute,
}

/// An operation on the objects at `PATH/file`, `PATH/directory`, `PATH/link` and `PATH/fifo`, as a subject.
type Act = fn(&World, &str) -> Result<(), Errno>;

const OPERATIONS: &[(&str, Needs, Act)] = &[
    ("open to read", Needs::Read, |w, at| w.open(&format!("{at}/file"), raw::O_RDONLY).map(drop)),
    ("open to write", Needs::Both, |w, at| w.open(&format!("{at}/file"), raw::O_WRONLY).map(drop)),
    ("open for both", Needs::Both, |w, at| w.open(&format!("{at}/file"), raw::O_RDWR).map(drop)),
    ("open and cut", Needs::Both, |w, at| {
        w.open(&format!("{at}/file"), raw::O_WRONLY | raw::O_TRUNC).map(drop)
    }),
    ("open or make", Needs::Both, |w, at| {
        w.open(&format!("{at}/file"), raw::O_RDWR | raw::O_CREAT).map(drop)
    }),
    ("open a place", Needs::Read, |w, at| w.open(&format!("{at}/file"), raw::O_PATH).map(drop)),
    ("stat", Needs::Read, |w, at| w.place(&format!("{at}/file")).map(drop)),
    ("execute", Needs::Read, |w, at| {
        let path = format!("{at}/file");
        w.caller().open_executable(Base::Cwd, path.as_bytes(), Walk::FOLLOW).map(drop)
    }),
    ("access to execute", Needs::Execute, |w, at| access(w, at, Want::EXECUTE)),
    ("access to write", Needs::Both, |w, at| access(w, at, Want::WRITE)),
    ("truncate", Needs::Both, |w, at| {
        w.place(&format!("{at}/file")).and_then(|place| w.caller().truncate(&place, 0))
    }),
    ("chmod", Needs::Both, |w, at| {
        w.place(&format!("{at}/file")).and_then(|place| w.caller().change_mode(&place, 0o777))
    }),
    ("chown", Needs::Both, |w, at| {
        let place = w.place(&format!("{at}/file"))?;
        w.caller().change_owner(&place, Some(0), Some(0))
    }),
    ("utimensat", Needs::Both, |w, at| {
        let place = w.place(&format!("{at}/file"))?;
        w.caller().set_times(&place, TimeSetting::Now, TimeSetting::Omit)
    }),
    ("setxattr", Needs::Both, |w, at| {
        let place = w.place(&format!("{at}/file"))?;
        w.caller().set_attribute(&place, (b"user.x", b"y"), XattrMode::Set)
    }),
    ("set a list", Needs::Both, |w, at| {
        let place = w.place(&format!("{at}/file"))?;
        w.caller().set_attribute(&place, (b"system.posix_acl_access", b""), XattrMode::Set)
    }),
    ("set a trusted attribute", Needs::Both, |w, at| {
        let place = w.place(&format!("{at}/file"))?;
        w.caller().set_attribute(&place, (b"trusted.x", b"y"), XattrMode::Set)
    }),
    ("open a given place", Needs::Read, |w, at| {
        let place = w.given(&format!("{at}/file"));
        w.caller().open_path(&place, OpenHow::new(raw::O_RDONLY)).map(drop)
    }),
    ("execute a given place", Needs::Read, |w, at| {
        permission::check_execute(&w.given(&format!("{at}/file")), &w.who)
    }),
    ("link into one's own directory", Needs::Both, |w, at| {
        let (place, path) = (w.given(&format!("{at}/file")), format!("{}/hard", w.own));
        w.caller().link(&place, Base::Cwd, path.as_bytes())?;
        w.caller().unlink(Base::Cwd, path.as_bytes())
    }),
    ("rename in one's own directory", Needs::Both, |w, at| {
        let (one, other) = (format!("{}{at}", w.own), format!("{}/other", w.own));
        let [one, other] = [one.as_bytes(), other.as_bytes()].map(|path| (Base::Cwd, path));
        w.caller().rename(one, other, RenameMode::Replace)?;
        w.caller().rename(other, one, RenameMode::Replace)
    }),
    ("listxattr", Needs::Read, |w, at| {
        let place = w.place(&format!("{at}/file"))?;
        w.caller().list_attributes(&place).map(drop)
    }),
    ("inode flags", Needs::Both, |w, at| {
        w.place(&format!("{at}/file")).and_then(|place| w.caller().set_flags(&place, 0))
    }),
    ("readlink", Needs::Read, |w, at| {
        let place = w.place(&format!("{at}/link"))?;
        w.caller().read_link(&place).map(drop)
    }),
    ("follow", Needs::Read, |w, at| {
        let path = format!("{at}/link");
        w.caller().walk(Base::Cwd, path.as_bytes(), Walk::FOLLOW).map(drop)
    }),
    ("read a FIFO", Needs::Both, |w, at| {
        let place = w.place(&format!("{at}/fifo"))?;
        permission::check(place.vnode(), &w.who, Want::READ)
    }),
    ("list", Needs::Read, |w, at| {
        let flags = raw::O_RDONLY | raw::O_DIRECTORY;
        w.open(&format!("{at}/directory"), flags)?.read_directory(NOBODY, &mut |_| true).map(drop)
    }),
    ("search", Needs::Read, |w, at| match w.place(&format!("{at}/directory/none")) {
        Err(Errno::ENOENT) => Ok(()),
        other => other.map(drop),
    }),
    ("create and unlink", Needs::Both, |w, at| {
        let path = format!("{at}/directory/new");
        w.open(&path, raw::O_RDWR | raw::O_CREAT | raw::O_EXCL)?;
        w.caller().unlink(Base::Cwd, path.as_bytes())
    }),
    ("make without a name", Needs::Both, |w, at| {
        w.open(&format!("{at}/directory"), raw::O_TMPFILE | raw::O_RDWR).map(drop)
    }),
    ("mkdir, rename and rmdir", Needs::Both, |w, at| {
        let (one, other) = (format!("{at}/directory/one"), format!("{at}/directory/other"));
        let (from, to) = ((Base::Cwd, one.as_bytes()), (Base::Cwd, other.as_bytes()));
        w.caller().make_directory(Base::Cwd, one.as_bytes(), 0o777)?;
        w.caller().rename(from, to, RenameMode::Replace)?;
        w.caller().remove_directory(Base::Cwd, other.as_bytes())
    }),
    ("symlink and unlink", Needs::Both, |w, at| {
        let path = format!("{at}/directory/link");
        w.caller().make_link(b"x", Base::Cwd, path.as_bytes())?;
        w.caller().unlink(Base::Cwd, path.as_bytes())
    }),
    ("link and unlink", Needs::Both, |w, at| {
        let (place, path) = (w.place(&format!("{at}/file"))?, format!("{at}/directory/hard"));
        w.caller().link(&place, Base::Cwd, path.as_bytes())?;
        w.caller().unlink(Base::Cwd, path.as_bytes())
    }),
];

fn access(world: &World, at: &str, want: Want) -> Result<(), Errno> {
    let path = format!("{at}/file");
    let how = (want, AccessIds::Effective);
    world.caller().access(Base::Cwd, path.as_bytes(), how, Walk::FOLLOW)
}

fn enforced_world(monitor: &Arc<ReferenceMonitor>) -> World {
    security::announce(monitor.clone());
    security::load(POLICY.as_bytes()).unwrap();
    security::enforce();
    let options = tmpfs::Options { permissions: 0o777, ..Default::default() };
    let active = Active::stored(&(), tmpfs::new(options).unwrap(), None).unwrap();
    let registry = Arc::new(Registry::new());
    let namespace = Namespace::new(&(), "none", active, MountFlags::empty(), registry);
    let root = namespace.root();
    let kernel = "system_u:system_r:kernel_t:s0-s15:c0.c1023";
    World { namespace, root, who: credentials(&**monitor, kernel), own: String::new() }
}

/// Makes an object of each type, level and grade, and a directory of each level with a file of each of these.
fn fill(kernel: &World) {
    for (number, level) in LEVELS.iter().enumerate() {
        let directory = format!("/own{number}");
        kernel.make(&directory, FileType::Directory, &format!("system_u:object_r:file_t:{level}"));
    }
    for (number, level) in LEVELS.iter().enumerate() {
        for (kind, _) in TYPES {
            let (at, context) =
                (format!("/{number}-{kind}"), format!("system_u:object_r:{kind}:{level}"));
            kernel.make(&at, FileType::Directory, "system_u:object_r:low_file_t:s0");
            for (name, file_type) in [
                ("file", FileType::Regular),
                ("directory", FileType::Directory),
                ("link", FileType::Symlink),
                ("fifo", FileType::Fifo),
            ] {
                kernel.make(&format!("{at}/{name}"), file_type, &context);
            }
            for own in 0..LEVELS.len() {
                kernel.make(&format!("/own{own}{at}"), FileType::Regular, &context);
            }
        }
    }
}

#[test]
fn the_rules_hold_for_every_operation_and_relation() {
    let monitor = Arc::new(ReferenceMonitor::new().unwrap());
    let kernel = enforced_world(&monitor);
    fill(&kernel);
    let (mut allowed, mut refused) = (0, 0);
    // The second round finds the decisions of the first.
    for (own_number, own) in LEVELS.iter().enumerate().chain(LEVELS.iter().enumerate()) {
        let who = credentials(&*monitor, &format!("user_u:user_r:user_t:{own}"));
        let subject = kernel.with(who, &format!("/own{own_number}"));
        let objects = LEVELS.iter().enumerate();
        for ((number, level), (kind, grade)) in
            objects.flat_map(|object| TYPES.map(|kind| (object, kind)))
        {
            let [own, level] = [own, level].map(|text| text.parse::<Secrecy>().unwrap());
            let reads = own.dominates(&level);
            let writes = own == level && grade <= Grade::User;
            for (name, needs, act) in OPERATIONS {
                let expected = match needs {
                    Needs::Read => reads,
                    Needs::Both => reads && writes,
                    Needs::Execute => reads && grade >= Grade::User,
                };
                let done = act(&subject, &format!("/{number}-{kind}"));
                let expected = if expected { Ok(()) } else { Err(Errno::EACCES) };
                assert_eq!(done, expected, "{name}: {own} with {level} {kind}");
                *(if done.is_ok() { &mut allowed } else { &mut refused }) += 1;
            }
        }
    }
    assert!(allowed > 500 && refused > 500, "{allowed} allowed, {refused} refused");
    #[cfg(feature = "check")]
    judged::forbidden_flows_are_found(&monitor, &kernel);
}

/// The monitor of invariants: the kernel does each operation without a check of the label, and is caught where it must not.
#[cfg(feature = "check")]
mod judged {
    use super::*;
    use security::flows;
    use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};

    /// Operations that write nothing: they only ask, or their flows begin with the use of what they open.
    const ASKING: [&str; 4] = ["access", "open ", "read a FIFO", "make without a name"];
    /// The operation that does not look at its object.
    const BLIND: &str = "rename in one's own directory";

    /// Undoes what an operation that was caught has done.
    fn tidy(kernel: &World, at: &str) {
        let caller = kernel.caller();
        for name in ["one", "other"] {
            let path = format!("{at}/directory/{name}");
            let _ = caller.remove_directory(Base::Cwd, path.as_bytes());
        }
        let own = &kernel.own;
        let names = ["link", "hard", "new"].map(|name| format!("{at}/directory/{name}"));
        for path in names.iter().chain([&format!("{own}/hard")]) {
            let _ = caller.unlink(Base::Cwd, path.as_bytes());
        }
        let [moved, place] = [format!("{own}/other"), format!("{own}{at}")];
        let [moved, place] = [&moved, &place].map(|path| (Base::Cwd, path.as_bytes()));
        let _ = caller.rename(moved, place, RenameMode::Replace);
    }

    pub fn forbidden_flows_are_found(monitor: &ReferenceMonitor, kernel: &World) {
        let hook = take_hook();
        set_hook(Box::new(|_| {}));
        let (mut faults, mut passed, mut caught) = (Vec::new(), 0, 0);
        for (own_number, own) in LEVELS.iter().enumerate() {
            let subject = credentials(monitor, &format!("user_u:user_r:user_t:{own}")).subject;
            // The kernel makes files of the subject's level.
            let made = format!("system_u:object_r:low_file_t:{own}");
            let file = Some(security::named(made.as_bytes()).unwrap());
            let asked = Some(Arc::new(AskedContexts { file, ..Default::default() }));
            let who = Credentials { asked, ..kernel.who.clone() };
            let unchecked = kernel.with(who, &format!("/own{own_number}"));
            for (number, level) in LEVELS.iter().enumerate() {
                for (kind, grade) in TYPES {
                    let at = format!("/{number}-{kind}");
                    let [own, level] = [own, level].map(|text| text.parse::<Secrecy>().unwrap());
                    let is_equal = own == level && grade <= Grade::User;
                    for (name, needs, act) in OPERATIONS {
                        flows::act_as(|| subject.label());
                        let done = catch_unwind(AssertUnwindSafe(|| act(&unchecked, &at)));
                        flows::act_for_nobody();
                        let is_asking = ASKING.iter().any(|start| name.starts_with(start));
                        let is_written = *needs == Needs::Both && !is_asking;
                        let is_forbidden = *name != BLIND && !own.dominates(&level)
                            || is_written && (!level.dominates(&own) || grade > Grade::User);
                        if is_forbidden && done.is_ok() || is_equal && done.is_err() {
                            faults.push(format!("{name}: {own}, {level} {kind}"));
                        }
                        *(if done.is_ok() { &mut passed } else { &mut caught }) += 1;
                        tidy(&unchecked, &at);
                    }
                }
            }
        }
        set_hook(hook);
        assert!(faults.is_empty(), "{faults:#?}");
        assert!(passed > 100 && caught > 500, "{passed} passed, {caught} caught");
    }
}

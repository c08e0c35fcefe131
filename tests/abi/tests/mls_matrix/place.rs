//! The places in which objects are made, and the actors that hold objects.
use crate::policy::{Cell, Subject};
use abi::{
    c, check, fork,
    mls::{self, Stage},
    must,
    rights::{self, SECRET_BYTES},
    wait,
};
use libc::*;
use std::{
    fs,
    os::unix::fs::{DirBuilderExt, PermissionsExt, symlink},
    path::{Path, PathBuf},
};

/// A place for an object.
pub struct Place {
    /// Its path. The folder in which it is can be read by all and written by none.
    pub path: PathBuf,
    /// The number of the cell.
    pub number: usize,
    /// The context of the object.
    pub object: String,
    /// The context of a multilevel directory instead.
    pub kind: String,
    /// A context that the subject may read, write and execute.
    pub own: String,
}

/// An attempt of a subject.
pub struct Attempt<'a> {
    pub place: &'a Place,
    pub cell: Cell,
    pub subject: Subject,
    /// The actor with the label of the cell.
    pub process: pid_t,
}

/// The folder of a stage, which is removed with all that is in it.
pub struct Stand(&'static str);

impl Drop for Stand {
    fn drop(&mut self) {
        for place in fs::read_dir(self.0).into_iter().flatten().flatten() {
            // Most places are no mounts.
            unsafe { umount2(c(place.path()).as_ptr(), MNT_DETACH) };
        }
        let _ = fs::remove_dir_all(self.0);
    }
}

/// Makes the folder of a stage.
pub fn make_stage(folder: &'static str) -> Stand {
    fs::create_dir(folder).expect("a new folder");
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).expect("opening it");
    relabel(Path::new(folder), "system_u:object_r:mo_untrusted_t:s0");
    let program = Path::new(folder).join(PROGRAM);
    fs::copy("/proc/self/exe", &program).expect("copying the program");
    relabel(&program, "system_u:object_r:shell_exec_t:s0");
    Stand(folder)
}

/// The name of a copy of this program that enters the domains of the matrix.
const PROGRAM: &str = "program";

/// Returns the copy on the stage of a place.
pub fn program_of(place: &Place) -> PathBuf {
    place.path.with_file_name(PROGRAM)
}

/// Sets the context of a file or link.
pub fn relabel(path: &Path, context: &str) {
    let (name, text) = (c"security.selinux", c(context));
    let bytes = text.as_bytes_with_nul();
    let set = unsafe {
        lsetxattr(c(path).as_ptr(), name.as_ptr(), bytes.as_ptr().cast(), bytes.len(), 0)
    };
    if let Err(error) = check(set) {
        panic!("{} {context}: {error}", path.display());
    }
}

/// Makes a file that everybody may read, write and execute.
pub fn open_file(path: &Path, context: &str) {
    fs::write(path, "content").expect("making a file");
    fs::set_permissions(path, fs::Permissions::from_mode(0o777)).expect("opening it");
    relabel(path, context);
}

/// Makes a folder that everybody may use.
pub fn open_folder(path: &Path) {
    fs::DirBuilder::new().mode(0o777).create(path).expect("making a folder");
    fs::set_permissions(path, fs::Permissions::from_mode(0o777)).expect("opening it");
}

/// Prepares nothing.
pub fn nothing(_: &Place) {}

/// Makes a file with the label.
pub fn file(place: &Place) {
    open_file(&place.path, &place.object);
}

/// Makes a folder with the label, in which is a file `inner` of the subject's.
pub fn folder(place: &Place) {
    open_folder(&place.path);
    open_file(&place.path.join("inner"), &place.own);
    relabel(&place.path, &place.object);
}

/// Makes a folder of the subject's, in which is a file `inner` with the label, and one of the subject's.
pub fn file_in_own(place: &Place) {
    open_folder(&place.path);
    open_file(&place.path.join("inner"), &place.object);
    open_file(&place.path.join("own"), &place.own);
    relabel(&place.path, &place.own);
}

/// Makes a folder of the subject's, in which are folders: `inner` with the label, and `own`.
pub fn folder_in_own(place: &Place) {
    open_folder(&place.path);
    for (name, context) in [("inner", &place.object), ("own", &place.own)] {
        open_folder(&place.path.join(name));
        open_file(&place.path.join(name).join("file"), &place.own);
        relabel(&place.path.join(name), context);
    }
    relabel(&place.path, &place.own);
}

/// Makes a multilevel folder with the label.
pub fn multilevel(place: &Place) {
    open_folder(&place.path);
    relabel(&place.path, &place.kind);
}

/// Makes a folder of the subject's, in which are a file, and a link `inner` with the label that leads to it.
pub fn link(place: &Place) {
    open_folder(&place.path);
    open_file(&place.path.join("own"), &place.own);
    symlink("own", place.path.join("inner")).expect("making a link");
    relabel(&place.path.join("inner"), &place.object);
    relabel(&place.path, &place.own);
}

/// Makes a FIFO with the label.
pub fn fifo(place: &Place) {
    must(unsafe { mkfifo(c(&place.path).as_ptr(), 0o666) });
    fs::set_permissions(&place.path, fs::Permissions::from_mode(0o666)).expect("opening it");
    relabel(&place.path, &place.object);
}

/// Makes a device at a place.
pub fn device(place: &Place) {
    let null = makedev(1, 3);
    must(unsafe { mknod(c(&place.path).as_ptr(), S_IFCHR | 0o666, null) });
    fs::set_permissions(&place.path, fs::Permissions::from_mode(0o666)).expect("opening it");
    relabel(&place.path, &place.object);
}

/// Returns a program that ends at once.
pub fn short_program() -> Vec<u8> {
    let mut bytes = rights::small_program(&[0; SECRET_BYTES]);
    // `mov eax, SYS_pause` is where it starts; here, `xor edi, edi; mov eax, SYS_exit; syscall`.
    let start = bytes.windows(5).position(|five| *five == [0xb8, 34, 0, 0, 0]).expect("its code");
    bytes[start..start + 9].copy_from_slice(&[0x31, 0xff, 0xb8, 60, 0, 0, 0, 0x0f, 0x05]);
    bytes
}

/// Makes a program with the label.
pub fn program(place: &Place) {
    fs::write(&place.path, short_program()).expect("making a program");
    fs::set_permissions(&place.path, fs::Permissions::from_mode(0o777)).expect("opening it");
    relabel(&place.path, &place.object);
}

/// Makes a folder of the subject's, in which is a script that a program with the label interprets.
pub fn script(place: &Place) {
    open_folder(&place.path);
    let inner = place.path.join("inner");
    fs::write(&inner, short_program()).expect("making a program");
    let script = place.path.join("script");
    fs::write(&script, format!("#!{}\n", inner.display())).expect("making a script");
    for (path, context) in [(&inner, &place.object), (&script, &place.own)] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o777)).expect("opening it");
        relabel(path, context);
    }
    relabel(&place.path, &place.own);
}

/// A process that holds objects, and ends when the test ends.
pub struct Actor(pub pid_t);

impl Drop for Actor {
    fn drop(&mut self) {
        unsafe { kill(self.0, SIGKILL) };
        wait(self.0);
    }
}

/// Starts a process with the label of each cell that plays `part`, and waits until it has stopped itself.
pub fn actors(mut stage: Stage, part: &str) -> (Stage, Vec<Actor>) {
    let mut all = Vec::new();
    for cell in Cell::all() {
        let process = stage.start(&cell.process(), &format!("{part}{}", cell.number()));
        let mut status = 0;
        must(unsafe { waitpid(process, &mut status, WUNTRACED) });
        assert!(WIFSTOPPED(status), "{cell:?} ended with {status:#x}");
        all.push(Actor(process));
        stage = stage.give(&format!("PROCESS{}", cell.number()), process);
    }
    (stage, all)
}

/// Returns the number of the cell whose actor this process is, if it plays `part`.
pub fn actor_of(part: &str) -> Option<usize> {
    mls::part()?.strip_prefix(part)?.parse().ok()
}

/// Stops itself until the test ends it.
pub fn hold() -> ! {
    loop {
        unsafe { raise(SIGSTOP) };
    }
}

/// Starts a process of the test itself, with all rights, and waits until it has stopped itself.
pub fn helper(body: impl FnOnce()) -> Actor {
    let child = fork(body);
    let mut status = 0;
    must(unsafe { waitpid(child, &mut status, WUNTRACED) });
    assert!(WIFSTOPPED(status), "ended with {status:#x}");
    must(unsafe { kill(child, SIGCONT) });
    Actor(child)
}

/// Makes things, each with this context if it is a socket.
pub fn with_sockets<T>(context: &str, make: impl FnOnce() -> T) -> T {
    fs::write("/proc/thread-self/attr/sockcreate", context).expect("asking for the context");
    let made = make();
    fs::write("/proc/thread-self/attr/sockcreate", "\n").expect("asking for no context");
    made
}

/// Makes a local socket with a context.
pub fn socket_with(context: &str, kind: i32) -> i32 {
    with_sockets(context, || must(unsafe { socket(AF_UNIX, kind, 0) }) as i32)
}

fn abstract_name(name: &[u8]) -> (sockaddr_un, socklen_t) {
    let mut address: sockaddr_un = unsafe { abi::zeroed() };
    address.sun_family = AF_UNIX as u16;
    for (to, from) in address.sun_path[1..].iter_mut().zip(name) {
        *to = *from as c_char;
    }
    (address, (3 + name.len()) as socklen_t)
}

/// Gives a local socket an abstract name.
pub fn bind_abstract(fd: i32, name: &[u8]) -> Result<(), i32> {
    let (address, bytes) = abstract_name(name);
    check(unsafe { bind(fd, (&raw const address).cast(), bytes) }).map(drop)
}

/// Connects a new socket to an abstract name.
pub fn connect_abstract(kind: i32, name: &[u8]) -> Result<i32, i32> {
    let (address, bytes) = abstract_name(name);
    let fd = must(unsafe { socket(AF_UNIX, kind, 0) }) as i32;
    let connected = check(unsafe { connect(fd, (&raw const address).cast(), bytes) });
    connected.map(|_| fd).inspect_err(|_| abi::close(fd))
}

/// A control message with a descriptor.
#[repr(C)]
struct Passed {
    header: cmsghdr,
    file: i32,
    rest: i32,
}

fn transfer(end: i32, passed: &mut Passed, is_sent: bool) -> i32 {
    let mut byte = 0u8;
    let mut part = iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    let mut header: msghdr = unsafe { abi::zeroed() };
    header.msg_iov = &mut part;
    header.msg_iovlen = 1;
    header.msg_control = std::ptr::from_mut(passed).cast();
    // The C libraries give the lengths different types.
    header.msg_controllen = size_of::<Passed>() as _;
    let moved = match is_sent {
        true => unsafe { sendmsg(end, &header, 0) },
        false => unsafe { recvmsg(end, &mut header, 0) },
    };
    assert_eq!(must(moved as i64), 1);
    header.msg_flags
}

/// Sends a descriptor.
pub fn pass(end: i32, file: i32) {
    let mut passed: Passed = unsafe { abi::zeroed() };
    let length = size_of::<cmsghdr>() + size_of::<i32>();
    (passed.header.cmsg_len, passed.header.cmsg_level) = (length as _, SOL_SOCKET);
    (passed.header.cmsg_type, passed.file) = (SCM_RIGHTS, file);
    transfer(end, &mut passed, true);
}

/// Receives a descriptor; `None` if it was left out.
pub fn receive_passed(end: i32) -> Option<i32> {
    let mut passed: Passed = unsafe { abi::zeroed() };
    let flags = transfer(end, &mut passed, false);
    let is_there = passed.header.cmsg_len as usize > size_of::<cmsghdr>();
    assert_eq!(flags & MSG_CTRUNC != 0, !is_there);
    is_there.then_some(passed.file)
}

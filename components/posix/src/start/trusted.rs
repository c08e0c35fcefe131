//! The programs of the trusted path: the trusted shell, and the sessions that it begins (K1).
//!
//! Kernel parameter: `monitor.attention=`, the bytes of the secure attention sequence as hexadecimal digits; `break` if only a break on
//! a serial line opens the trusted path; `off` for no trusted path. A system without a monitor has none.
//!
//! The shell is a child of process 1 that inherits nothing from it, and enters the domain [`DOMAIN`] of the policy.
use super::{
    session::{Command, Standard, open_standard, run_command},
    upcalls::Personality,
};
use alloc::{boxed::Box, format, string::String, sync::Arc, vec::Vec};
use core::sync::atomic::Ordering;
use interfaces::{monitor::Initial, terminal::Port};
use objects::tty::{
    Terminal, WindowSize,
    attention::Attention,
    shared::{LinePrograms, SharedLine},
    trusted::NewSession,
};
use process::{Task, exec::Strings, files, init, login, tree};
use rt::{NoMemory, sync::Once, user::Context};
use vfs::{
    Base, Capabilities, Credentials, Errno, Namespace, Walk,
    credentials::{CapabilitySets, Ids},
    security::{self, OwnContext},
};

/// The domain of the trusted shell.
const DOMAIN: &str = "trusted_t";
/// The places of the trusted shell, in busybox's root and in Debian's.
const SHELLS: [&str; 2] = ["/usr/local/bin/trusted-shell", "/bin/trusted-shell"];
/// The value of `oom_score_adj` with which a process is not killed when memory is short: that would end the session.
const NEVER_CHOSEN: i32 = -1000;
const PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The namespace of the programs, once everything is mounted.
static NAMESPACE: Once<Arc<Namespace>> = Once::new();

/// Makes the mounted file systems known, from which programs can be started from now on.
pub(super) fn announce(namespace: &Arc<Namespace>) {
    NAMESPACE.get_or_init(|| namespace.clone());
}

/// Returns the bytes that open the trusted path; `None` if the system has no monitor, or the trusted path is off.
pub(super) fn attention() -> Option<Attention> {
    security::monitor()?;
    let text = rt::system::parameter("monitor.attention")?;
    if text == "off" {
        return None;
    }
    let attention = Attention::parse(text);
    if attention.is_none() {
        log::error!(
            "monitor.attention: `{text}` is no sequence: only a break opens the trusted path"
        );
    }
    Some(attention.unwrap_or(Attention::BREAK_ONLY))
}

/// Starts the terminal of a port whose line has the trusted path.
///
/// # Errors
/// [`NoMemory`].
pub(super) fn start_line(
    port: &Arc<dyn Port>,
    place: ((u32, u32), WindowSize),
    attention: Attention,
) -> Result<Arc<Terminal>, NoMemory> {
    SharedLine::start(port, place, attention, Box::new(Programs))
}

struct Programs;

impl LinePrograms for Programs {
    fn start_shell(&self, terminal: &Arc<Terminal>) -> Result<(), Errno> {
        let terminal = terminal.clone();
        start(move |task, context| {
            lead(task, &terminal)?;
            task.process.oom_adjustment.store(NEVER_CHOSEN, Ordering::Relaxed);
            enter(task, trusted_context()?.as_bytes())?;
            let environment = [PATH, "TERM=dumb"];
            let run = |task: &Arc<Task>, context: &mut Context, path: &str| {
                let program = Command { path: path.into(), arguments: strings(&[path]) };
                run_command(task, context, program, strings(&environment))
            };
            let [first, second] = SHELLS;
            match run(task, context, first) {
                Err(Errno::ENOENT) => run(task, context, second),
                other => other,
            }
        })
    }
    fn start_session(&self, terminal: &Arc<Terminal>, session: NewSession) -> Result<(), Errno> {
        let terminal = terminal.clone();
        start(move |task, context| {
            lead(task, &terminal)?;
            if session.login != login::UNSET {
                task.login.set(session.login, || true)?;
            }
            tree::set_real_user(&task.process, session.user);
            task.set_credentials(Arc::new(of_user(&session)));
            enter(task, session.context.as_bytes())?;
            enter_home(task, &session.home);
            let name = session.shell.rsplit('/').next().unwrap_or_default();
            let environment = [
                PATH,
                &format!("HOME={}", session.home),
                &format!("SHELL={}", session.shell),
                &format!("USER={}", session.name),
                &format!("LOGNAME={}", session.name),
                &format!("TERM={}", rt::system::parameter("skerry.term").unwrap_or("linux")),
            ];
            let arguments = strings(&[&format!("-{name}")]);
            let program = Command { path: session.shell.clone().into_bytes(), arguments };
            run_command(task, context, program, strings(&environment))
        })
    }
}

fn strings(words: &[&str]) -> Strings {
    words.iter().map(|word| word.as_bytes()).collect()
}

fn start(
    body: impl FnOnce(&Arc<Task>, &mut Context) -> Result<(), Errno> + Send + 'static,
) -> Result<(), Errno> {
    let namespace = NAMESPACE.get().ok_or(Errno::ENOENT)?;
    let fs = Arc::new(files::FsContext::new(namespace.clone()));
    init::spawn_of_kernel(fs, &Personality, body)
}

/// Makes a task the leader of a session on `terminal`, which is its standard files.
fn lead(task: &Arc<Task>, terminal: &Terminal) -> Result<(), Errno> {
    tree::write().start_session(&task.process);
    terminal.acquire_if_free(task);
    open_standard(task, Standard::Terminal(format!("/dev/{}", terminal.name())))
}

/// Asks for the context of the next program.
fn enter(task: &Task, context: &[u8]) -> Result<(), Errno> {
    let asked = task.credentials().with_context(OwnContext::Exec, Some(context));
    task.set_credentials(Arc::new(asked.map_err(|_| Errno::EACCES)?));
    Ok(())
}

/// Returns the context of the trusted shell: the kernel's, in another domain.
fn trusted_context() -> Result<String, Errno> {
    let monitor = security::monitor().ok_or(Errno::EPERM)?;
    let kernel = monitor.initial(Initial::Kernel).map_err(|_| Errno::EACCES)?;
    let context = monitor.context(kernel).with_kind(DOMAIN).map_err(|_| Errno::EACCES)?;
    Ok(format!("{context}"))
}

/// Returns the credentials of the user of a session, in the kernel's domain until it executes a program.
fn of_user(session: &NewSession) -> Credentials {
    let root = Credentials::root();
    let none = Capabilities::empty();
    let all = root.capabilities;
    let capabilities = match session.user {
        0 => all,
        _ => CapabilitySets { permitted: none, effective: none, inheritable: none, ..all },
    };
    let mut groups: Vec<u32> = session.groups.clone();
    groups.sort_unstable();
    let (user, group) = (Ids::all(session.user), Ids::all(session.group));
    Credentials { user, group, groups: groups.into(), capabilities, ..root }
}

/// Makes `home` the working directory, if the user may enter it.
fn enter_home(task: &Arc<Task>, home: &str) {
    let scope = files::Scope::of(task);
    let kind = Walk::FOLLOW | Walk::DIRECTORY;
    if let Ok(place) = scope.caller().walk(Base::Cwd, home.as_bytes(), kind) {
        task.fs().set_working(place);
    }
}

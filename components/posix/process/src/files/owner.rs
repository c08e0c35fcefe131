//! Signal-driven input and output: the receiver of the signals of a description that becomes ready
//! (F_SETOWN, O_ASYNC).
//!
//! A [`SignalOwner`] is in the description's slot once a receiver was set, and watches the file's queues while
//! O_ASYNC is set. It is told under a queue's lock, so it does not look at the file: it reports `POLL_IN`
//! for a file that can be read and `POLL_OUT` for one that can only be written. Source: fcntl(2), Linux
//! `fs/fcntl.c`.
use super::notes::NoteReceiver;
use crate::{
    object::Process,
    signal::{
        info::{self, Info},
        number::{SIGIO, SIGURG},
        send,
    },
    tree, visible,
};
use alloc::{
    sync::{Arc, Weak},
    vec::Vec,
};
use core::sync::atomic::{AtomicBool, Ordering};
use rt::{
    lock_class,
    sync::{Mutex, Once},
};
use vfs::{
    Credentials, Errno, NOBODY, OpenFile,
    file::{Ready, SendRoom, SignalSource},
    poll::{PollTable, Watcher},
};

lock_class! {
    static SETTING = "files.owner";
}

/// The thread, process or group that gets a description's signals (F_SETOWN).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whom {
    /// There is no receiver.
    Nobody,
    /// A thread.
    Thread(u32),
    /// A process.
    Process(u32),
    /// A process group.
    Group(u32),
}

#[derive(Clone)]
struct Setting {
    whom: Whom,
    /// The signal to send; 0 means SIGIO without details.
    signal: u8,
    fd: i32,
    /// The credentials of the process that set the receiver, which must be allowed to signal it.
    by: Option<Arc<Credentials>>,
}

/// Tells the owner of a socket that it can be written again after it could not.
struct RoomWatcher {
    owner: Weak<SignalOwner>,
    room: Arc<dyn SendRoom>,
}

impl Watcher for RoomWatcher {
    fn changed(&self) {
        let owner = self.owner.upgrade().filter(|owner| owner.is_on.load(Ordering::Acquire));
        if let Some(owner) = owner
            && self.room.take_room()
        {
            owner.tell_of(info::POLL_OUT);
        }
    }
}

/// Tells the owner of a socket that the peer announced an urgent byte, whether O_ASYNC is set or not.
struct UrgentWatcher {
    owner: Weak<SignalOwner>,
}

impl Watcher for UrgentWatcher {
    fn changed(&self) {
        if let Some(owner) = self.owner.upgrade() {
            owner.tell_urgent();
        }
    }
}

/// The receiver of a description's signals.
pub struct SignalOwner {
    this: Weak<SignalOwner>,
    /// Of a socket: looks for room for the owner.
    room: Once<Arc<RoomWatcher>>,
    /// Of a socket that has urgent bytes: hears of them, once there was a receiver.
    urgent: Once<Arc<UrgentWatcher>>,
    code: i32,
    setting: Mutex<Setting>,
    is_on: AtomicBool,
    is_watching: AtomicBool,
}

impl SignalOwner {
    /// Returns the owner of `file`, which has no receiver at first.
    ///
    /// # Errors
    /// `EINVAL` if its slot is used for something else.
    pub fn of(file: &OpenFile) -> Result<Arc<SignalOwner>, Errno> {
        let mut slot = file.owner().lock();
        let code = if file.is_readable() { info::POLL_IN } else { info::POLL_OUT };
        let setting = Setting { whom: Whom::Nobody, signal: 0, fd: -1, by: None };
        let make = || {
            Arc::new_cyclic(|this| SignalOwner {
                this: this.clone(),
                room: Once::new(),
                urgent: Once::new(),
                code,
                setting: Mutex::new(&SETTING, setting),
                is_on: AtomicBool::new(false),
                is_watching: AtomicBool::new(false),
            })
        };
        let kept = slot.get_or_insert_with(|| make()).clone();
        kept.downcast::<SignalOwner>().map_err(|_| Errno::EINVAL)
    }
    /// Sets the receiver of the signals of `file`; `by` must be allowed to signal it when a signal is sent.
    pub fn set_whom(&self, file: &OpenFile, whom: Whom, by: Arc<Credentials>) {
        {
            let mut setting = self.setting.lock();
            (setting.whom, setting.by) = (whom, Some(by));
        }
        let Some(queue) = file.file().urgent_source() else { return };
        self.urgent.get_or_init(|| {
            let watcher = Arc::new(UrgentWatcher { owner: self.this.clone() });
            let told: Weak<UrgentWatcher> = Arc::downgrade(&watcher);
            PollTable::telling(told).add(queue);
            watcher
        });
    }
    /// Sends SIGURG, and with a signal of F_SETSIG and O_ASYNC that one, too.
    fn tell_urgent(&self) {
        let setting = self.setting.lock().clone();
        setting.send(Info::kernel(SIGURG));
        if setting.signal != 0 && self.is_on.load(Ordering::Acquire) {
            let band = u32::from(Ready::PRIORITY.bits());
            setting.send(Info::poll(setting.signal, info::POLL_PRI, band, setting.fd));
        }
    }
    /// Returns the receiver of the signals.
    pub fn whom(&self) -> Whom {
        self.setting.lock().whom
    }
    /// Returns the real and effective user id of the process that set the receiver.
    pub fn users(&self) -> [u32; 2] {
        let by = self.setting.lock().by.clone();
        by.map_or([0; 2], |by| [by.user.real, by.user.effective])
    }
    /// Sets the signal to send, 0 for SIGIO without details.
    pub fn set_signal(&self, signal: u8) {
        self.setting.lock().signal = signal;
    }
    /// Returns the signal to send.
    pub fn signal(&self) -> u8 {
        self.setting.lock().signal
    }
    /// Called when O_ASYNC was set through descriptor `fd`.
    pub fn turn_on(&self, file: &OpenFile, fd: i32) {
        let Some(source) = file.file().signal_source() else { return };
        self.setting.lock().fd = fd;
        self.is_on.store(true, Ordering::Release);
        if !self.is_watching.swap(true, Ordering::AcqRel) {
            let watcher: Weak<dyn Watcher> = self.this.clone();
            match source {
                SignalSource::Messages { arrived, freed, room } => {
                    let owner = self.this.clone();
                    let room = self.room.get_or_init(|| Arc::new(RoomWatcher { owner, room }));
                    let room: Weak<RoomWatcher> = Arc::downgrade(room);
                    PollTable::telling(watcher).add(arrived);
                    PollTable::telling(room).add(freed);
                }
                SignalSource::Readiness => {
                    file.file().poll(Some(&PollTable::telling(watcher)), NOBODY);
                }
            }
        }
    }
    /// Sends the signal that its descriptor can be read or written, as `code` says.
    fn tell_of(&self, code: i32) {
        let setting = self.setting.lock().clone();
        let band = match code {
            info::POLL_IN => Ready::IN | Ready::READ_NORMAL,
            _ => Ready::OUT | Ready::WRITE_NORMAL,
        };
        setting.tell(code, u32::from(band.bits()), setting.fd);
    }
    /// Called when O_ASYNC was cleared.
    pub fn turn_off(&self) {
        self.is_on.store(false, Ordering::Release);
    }
}

/// Whether `file` has signals for an owner: as on Linux pipes, terminals, inotify and sockets have.
pub fn is_signal_driven(file: &OpenFile) -> bool {
    file.file().signal_source().is_some()
}

impl NoteReceiver for SignalOwner {
    fn tell(&self, code: i32, band: u32, fd: i32) {
        let setting = self.setting.lock().clone();
        setting.tell(code, band, fd);
    }
}

impl Watcher for SignalOwner {
    fn changed(&self) {
        if self.is_on.load(Ordering::Acquire) {
            self.tell_of(self.code);
        }
    }
}

impl Setting {
    /// Sends the signal, as [`SignalOwner::tell`] does.
    fn tell(&self, code: i32, band: u32, fd: i32) {
        self.send(match self.signal {
            0 => Info::kernel(SIGIO),
            signal => Info::poll(signal, code, band, fd),
        });
    }
    /// Sends a signal to the receiver.
    fn send(&self, message: Info) {
        let may = |process: &Process| self.by.as_ref().is_some_and(|by| by.may_signal(process));
        let targets: Vec<Arc<Process>> = match self.whom {
            Whom::Nobody => Vec::new(),
            Whom::Thread(id) => {
                if let Some(task) = tree::task(id).filter(|task| may(&task.process)) {
                    let _ = send::send_to_task(&task, message);
                }
                return;
            }
            Whom::Process(id) => tree::process(id).into_iter().collect(),
            Whom::Group(id) => tree::read().group(id).cloned().collect(),
        };
        for process in targets.iter().filter(|process| may(process)) {
            let _ = send::send_to_process(process, message);
        }
    }
}

/// The permission of one process to signal another.
trait MaySignal {
    /// Returns whether the receiver may be signalled: by root, or by the same user, if the labels allow it.
    fn may_signal(&self, process: &Process) -> bool;
}

impl MaySignal for Credentials {
    fn may_signal(&self, process: &Process) -> bool {
        let their = match process.tasks().first() {
            Some(task) => task.credentials().user,
            None => vfs::credentials::Ids::all(process.real_user()),
        };
        let is_same = |id: u32| id == their.real || id == their.saved;
        let is_permitted =
            self.user.effective == 0 || is_same(self.user.real) || is_same(self.user.effective);
        is_permitted && visible::check_signal(process, &self.subject).is_ok()
    }
}

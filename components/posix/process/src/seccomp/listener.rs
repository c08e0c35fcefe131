//! User notification (seccomp_unotify(2)): a filter may leave the decision on a call to the program that holds its listener,
//! a file.
//!
//! [`Notices`] are shared by filter and [`Listener`]: the calls that wait. A task adds its call and waits for the answer;
//! the listener's holder receives it, inspects it, may add descriptors to the task's table, and answers. When the last
//! listener is closed, all waiting calls fail with `ENOSYS`; when the last task with the filter has ended, the listener
//! reports a hang-up. Lock: `seccomp.notices`, a leaf.
use crate::{
    call::Restart,
    files::{arrival, slots::OnExec},
    task::Task,
};
use alloc::{sync::Arc, vec::Vec};
use bpf::Call;
use linux_raw_sys::general as raw;
use memory::AddressSpace;
use rt::{
    lock_class,
    sync::{Event, Mutex},
    thread::Woken,
};
use vfs::{
    Errno, ErrorNumber, Principal,
    file::{File, Ready},
    poll::{PollTable, WaitQueue},
};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

lock_class! {
    static NOTICES = "seccomp.notices";
}

/// Tells what interrupts a task that waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// A signal interrupts the wait.
    Interruptible,
    /// Once its call was received, only the end of the task interrupts the wait.
    Killable,
}

/// The answer of a listener to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The call is made.
    GoesOn,
    /// The call returns this in rax.
    Result(u64),
}

impl Reply {
    pub(super) fn failed(number: ErrorNumber) -> Reply {
        Reply::Result(crate::call::failure(number))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    New,
    Received,
    Answered(Reply),
}

struct Notice {
    id: u64,
    task: Arc<Task>,
    call: Call,
    stage: Stage,
}

struct ListenerState {
    notices: Vec<Notice>,
    next_id: u64,
    has_listener: bool,
    has_tasks: bool,
}

/// The calls of one filter that wait for an answer.
pub struct Notices {
    state: Mutex<ListenerState>,
    patience: Patience,
    /// Wait queue of the listener: a call can be received or answered, or no task is left.
    changed: WaitQueue,
    /// Event for the waiting tasks.
    answered: Event,
}

impl ListenerState {
    fn find(&mut self, id: u64) -> Result<&mut Notice, Errno> {
        self.notices.iter_mut().find(|notice| notice.id == id).ok_or(Errno::ENOENT)
    }
    /// Returns a call that was received and waits.
    fn received(&mut self, id: u64) -> Result<&mut Notice, Errno> {
        let notice = self.find(id)?;
        if notice.stage == Stage::Received { Ok(notice) } else { Err(Errno::EINPROGRESS) }
    }
}

impl Notices {
    /// Makes an empty list, and a listener for it.
    pub fn new(patience: Patience) -> (Arc<Notices>, Arc<Listener>) {
        let mut first = [0; 8];
        rt::entropy::fill(&mut first);
        let state = ListenerState {
            notices: Vec::new(),
            next_id: u64::from_le_bytes(first),
            has_listener: true,
            has_tasks: true,
        };
        let notices = Arc::new(Notices {
            state: Mutex::new(&NOTICES, state),
            patience,
            changed: WaitQueue::new(),
            answered: Event::new(),
        });
        let listener = Arc::new(Listener(notices.clone()));
        (notices, listener)
    }
    /// Returns whether there is a listener.
    pub fn has_listener(&self) -> bool {
        self.state.lock().has_listener
    }
    /// Called when no task has the filter any more.
    pub fn hang_up(&self) {
        self.state.lock().has_tasks = false;
        self.changed.wake();
    }
    /// Waits for the answer to `call` of `task`, the caller.
    ///
    /// # Errors
    /// The wait was interrupted.
    pub fn ask(&self, task: &Arc<Task>, call: &Call) -> Result<Reply, Restart> {
        let id = {
            let mut state = self.state.lock();
            if !state.has_listener {
                return Ok(Reply::failed(ErrorNumber::ENOSYS));
            }
            let id = state.next_id;
            state.next_id = id.wrapping_add(1);
            let notice = Notice { id, task: task.clone(), call: *call, stage: Stage::New };
            state.notices.push(notice);
            id
        };
        self.changed.wake();
        let reply = self.wait_for_answer(task, id);
        self.state.lock().notices.retain(|notice| notice.id != id);
        reply
    }
    fn wait_for_answer(&self, task: &Task, id: u64) -> Result<Reply, Restart> {
        loop {
            let ticket = self.answered.ticket();
            if let Stage::Answered(reply) = self.stage(id) {
                return Ok(reply);
            }
            if self.answered.wait_interruptible(ticket, None) == Woken::Kicked {
                let stage = self.stage(id);
                let is_patient = self.patience == Patience::Killable && stage == Stage::Received;
                match stage {
                    Stage::Answered(reply) => return Ok(reply),
                    _ if is_patient && !task.is_ending() => {}
                    _ => return Err(Restart::ByFlag),
                }
            }
        }
    }
    /// Returns the stage of the call `id`; that of a call that does not wait is the answer after the listener's end.
    fn stage(&self, id: u64) -> Stage {
        let gone = Stage::Answered(Reply::failed(ErrorNumber::ENOSYS));
        self.state.lock().find(id).map_or(gone, |notice| notice.stage)
    }
    fn answer(&self, id: u64, reply: Reply) -> Result<(), Errno> {
        self.state.lock().received(id)?.stage = Stage::Answered(reply);
        self.answered.signal();
        Ok(())
    }
}

/// The listener, a file.
pub struct Listener(Arc<Notices>);

impl Drop for Listener {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.has_listener = false;
        let waiting = state.notices.iter_mut();
        for notice in waiting.filter(|notice| !matches!(notice.stage, Stage::Answered(_))) {
            notice.stage = Stage::Answered(Reply::failed(ErrorNumber::ENOSYS));
        }
        drop(state);
        self.0.answered.signal();
    }
}

/// `struct seccomp_notif`.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Received {
    id: u64,
    thread: u32,
    flags: u32,
    call: [u32; Call::WORDS],
}

/// `struct seccomp_notif_resp`.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Response {
    id: u64,
    value: u64,
    error: i32,
    flags: u32,
}

/// `struct seccomp_notif_addfd`.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Addition {
    id: u64,
    flags: u32,
    source: i32,
    wanted: i32,
    wanted_flags: u32,
}

/// Bytes of a notification, of a response, and of a call (`struct seccomp_notif_sizes`).
pub const SIZES: [u16; 3] =
    [size_of::<Received>() as u16, size_of::<Response>() as u16, Call::BYTES as u16];

const _: () = assert!(size_of::<Received>() == 80);
const _: () = assert!(size_of::<Response>() == 24);
const _: () = assert!(size_of::<Addition>() == 24);

impl Listener {
    /// Answers the requests `SECCOMP_IOCTL_NOTIF_...`.
    ///
    /// # Errors
    /// Those of seccomp_unotify(2).
    pub fn ioctl(&self, caller: &Task, command: u32, argument: u64) -> Result<u64, Errno> {
        const RECEIVE: u32 = 0xc050_2100;
        const SEND: u32 = 0xc018_2101;
        const IS_VALID: u32 = 0x4008_2102;
        /// The same request with the direction bits of its first declaration.
        const IS_VALID_OLD: u32 = 0x8008_2102;
        const SET_FLAGS: u32 = 0x4008_2104;
        /// The request with a structure of any length.
        const ADD: u32 = 0x2103;
        const LENGTH_AND_DIRECTION: u32 = 0xffff_0000;
        /// Flag that is a hint to the scheduler.
        const WAKE_HERE: u64 = 1;
        let memory = &caller.memory();
        match command {
            RECEIVE => self.receive(memory, argument),
            SEND => self.send(&memory.read(argument)?),
            IS_VALID | IS_VALID_OLD => {
                let id = memory.read::<u64>(argument)?;
                self.0.state.lock().received(id).map_err(|_| Errno::ENOENT)?;
                Ok(0)
            }
            SET_FLAGS if argument & !WAKE_HERE == 0 => Ok(0),
            _ if command & !LENGTH_AND_DIRECTION == ADD => {
                const LENGTH: u32 = 0x3fff;
                self.add(caller, argument, (command >> 16 & LENGTH) as usize)
            }
            _ => Err(Errno::EINVAL),
        }
    }

    fn receive(&self, memory: &AddressSpace, address: u64) -> Result<u64, Errno> {
        let room = memory.read::<Received>(address)?;
        if room.as_bytes().iter().any(|byte| *byte != 0) {
            return Err(Errno::EINVAL);
        }
        let received = self.wait_for_notice()?;
        self.0.changed.wake();
        memory.write(address, &received).inspect_err(|_| {
            // The call can be received again.
            if let Ok(notice) = self.0.state.lock().received(received.id) {
                notice.stage = Stage::New;
            }
            self.0.changed.wake();
        })?;
        Ok(0)
    }

    fn wait_for_notice(&self) -> Result<Received, Errno> {
        loop {
            let ticket = self.0.changed.ticket();
            {
                let mut state = self.0.state.lock();
                let is_new = |notice: &&mut Notice| notice.stage == Stage::New;
                if let Some(notice) = state.notices.iter_mut().find(is_new) {
                    notice.stage = Stage::Received;
                    let Notice { id, task, call, .. } = notice;
                    return Ok(Received {
                        id: *id,
                        thread: task.id(),
                        flags: 0,
                        call: call.words(),
                    });
                }
                if !state.has_tasks {
                    return Err(Errno::ENOENT);
                }
            }
            if self.0.changed.wait(ticket, None) == Woken::Kicked {
                return Err(Errno::Restart);
            }
        }
    }

    fn send(&self, response: &Response) -> Result<u64, Errno> {
        const CONTINUE: u32 = 1;
        let Response { id, value, error, flags } = *response;
        let reply = match flags {
            0 if error != 0 => Reply::Result(i64::from(error) as u64),
            0 => Reply::Result(value),
            CONTINUE if error == 0 && value == 0 => Reply::GoesOn,
            _ => return Err(Errno::EINVAL),
        };
        self.0.answer(id, reply)?;
        Ok(0)
    }

    /// Installs one of the caller's descriptors in the table of a task that waits.
    fn add(&self, caller: &Task, address: u64, length: usize) -> Result<u64, Errno> {
        const AT_WANTED: u32 = 1;
        const AND_ANSWER: u32 = 2;
        const LENGTH_MAX: usize = 4096;
        if !(size_of::<Addition>()..LENGTH_MAX).contains(&length) {
            return Err(Errno::EINVAL);
        }
        let bytes: Vec<u8> = caller.memory().read_array(address, length)?;
        let (known, more) = Addition::read_from_prefix(&bytes).map_err(|_| Errno::EINVAL)?;
        if more.iter().any(|byte| *byte != 0) {
            return Err(Errno::E2BIG);
        }
        let Addition { id, flags, source, wanted, wanted_flags } = known;
        let is_wanted = flags & AT_WANTED != 0;
        let is_known =
            flags & !(AT_WANTED | AND_ANSWER) == 0 && wanted_flags & !raw::O_CLOEXEC == 0;
        if !is_known || wanted != 0 && !is_wanted {
            return Err(Errno::EINVAL);
        }
        let file = caller.files().get(source)?;
        let task = self.0.state.lock().received(id)?.task.clone();
        let on_exec = OnExec::from_flag(wanted_flags, raw::O_CLOEXEC);
        let file = arrival::admit(&file, &task.credentials())?;
        let limit = task.process.limits.open_files();
        let fd = match is_wanted {
            true => task.files().put(file, wanted, limit, on_exec, &*task)?,
            false => task.files().insert_from(file, 0, limit, on_exec)?,
        };
        if flags & AND_ANSWER != 0 {
            self.0.answer(id, Reply::Result(fd))?;
        }
        Ok(fd)
    }
}

impl File for Listener {
    fn poll(&self, table: Option<&PollTable>, _: &dyn Principal) -> Ready {
        if let Some(table) = table {
            table.add(&self.0.changed);
        }
        let state = self.0.state.lock();
        let has = |stage| state.notices.iter().any(|notice| notice.stage == stage);
        let mut ready = Ready::empty();
        ready.set(Ready::IN | Ready::READ_NORMAL, has(Stage::New));
        ready.set(Ready::OUT | Ready::WRITE_NORMAL, has(Stage::Received));
        ready.set(Ready::HANGUP, !state.has_tasks);
        ready
    }
    fn as_any(&self) -> &dyn core::any::Any {
        self
    }
}

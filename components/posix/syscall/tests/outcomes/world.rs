//! [`World`]: a process on a thread of its own, over an empty tmpfs and with memory on the host's page tables.
use memory::AddressSpace;
use process::{
    Task,
    call::{Call, CallTable},
    files::FsContext,
    fork::{self, CloneRequest},
    init,
    upcalls::Upcalls,
};
use rt::user::Context;
use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{
        Arc, OnceLock,
        mpsc::{Receiver, Sender, channel},
    },
};
use vfs::{Active, Errno, MountFlags, Namespace, devices::Registry};

/// The greatest number of allocations of one call.
const GRANTS_MAX: usize = 1000;
const PAGE: u64 = rt::PAGE_BYTES as u64;

struct TestLayers;

impl Upcalls for TestLayers {
    fn system_calls(&self) -> &'static CallTable {
        &syscall::TABLE
    }
    fn task_ended(&self, _: &Task) {}
    fn collect_unreachable(&self) -> bool {
        false
    }
}

/// A process as the caller of system calls.
pub struct World {
    /// The task that calls.
    pub task: Arc<Task>,
}

type Work = Box<dyn FnOnce(&World) + Send>;

/// Runs `test` as the process; tests take turns.
pub fn run(test: impl FnOnce(&World) + Send + 'static) {
    static WORKER: OnceLock<Sender<Work>> = OnceLock::new();
    let worker = WORKER.get_or_init(|| {
        let (sender, receiver) = channel::<Work>();
        std::thread::spawn(move || start(receiver));
        sender
    });
    let (done, outcome) = channel();
    let work = move |world: &World| {
        let result = catch_unwind(AssertUnwindSafe(|| test(world)));
        rt::host::refuse_plain_after(None);
        done.send(result).unwrap();
    };
    worker.send(Box::new(work)).unwrap();
    if let Err(panic) = outcome.recv().unwrap() {
        resume_unwind(panic);
    }
}

/// Makes the first process, and its child that does the work.
fn start(work: Receiver<Work>) {
    let options = tmpfs::Options { permissions: 0o755, ..Default::default() };
    let root = Active::stored(&(), tmpfs::new(options).unwrap(), None).unwrap();
    let registry = Arc::new(Registry::new());
    let namespace = Namespace::new(&(), "none", root, MountFlags::empty(), registry);
    let first = init::create(Arc::new(FsContext::new(namespace)), &TestLayers);
    let body = move |task: &Arc<Task>, _: &mut Context| {
        drop(task.process.set_memory(Some(AddressSpace::new(&()).unwrap())));
        let world = World { task: task.clone() };
        work.into_iter().for_each(|work| work(&world));
        Err(Errno::ENOEXEC)
    };
    fork::spawn(&first, &CloneRequest::fork(), body).unwrap();
}

impl World {
    /// Makes a system call once, without the repetition of a refused one.
    pub fn call(&self, number: u32, args: [u64; 6]) -> Result<u64, Errno> {
        let mut context = Context::default();
        let registers = &mut context.registers;
        [registers.rdi, registers.rsi, registers.rdx] = [args[0], args[1], args[2]];
        [registers.r10, registers.r8, registers.r9] = [args[3], args[4], args[5]];
        let (memory, files) = (self.task.memory(), self.task.files());
        let mut call =
            Call { task: &self.task, memory: &memory, files: &files, context: &mut context };
        syscall::TABLE.dispatch(&mut call, u64::from(number))
    }
    /// Returns the address of a new page, for which no frame was allocated yet.
    pub fn page(&self) -> u64 {
        use linux_raw_sys::general as raw;
        let protection = u64::from(raw::PROT_READ | raw::PROT_WRITE);
        let flags = u64::from(raw::MAP_PRIVATE | raw::MAP_ANONYMOUS);
        self.call(raw::__NR_mmap, [0, PAGE, protection, flags, u64::MAX, 0]).unwrap()
    }
    /// Returns the address of a new page that begins with `bytes`.
    pub fn page_of(&self, bytes: &[u8]) -> u64 {
        let page = self.page();
        self.task.memory().write_bytes(page, bytes).unwrap();
        page
    }
    /// Makes `attempt` with no allocation granted, with one, with two, until it succeeds, and returns its value. `prepare` runs
    /// before each with all memory, `check_nothing_done` after each that is refused.
    pub fn refused_everywhere<T, P>(
        &self,
        mut prepare: impl FnMut() -> P,
        mut attempt: impl FnMut(&P) -> Result<T, Errno>,
        mut check_nothing_done: impl FnMut(),
    ) -> (T, P) {
        for grants in 0..GRANTS_MAX {
            let prepared = prepare();
            rt::host::refuse_plain_after(Some(grants));
            let outcome = attempt(&prepared);
            rt::host::refuse_plain_after(None);
            match outcome {
                Ok(value) => return (value, prepared),
                Err(Errno::Refused) => check_nothing_done(),
                Err(error) => panic!("{error:?} with {grants} allocations"),
            }
        }
        panic!("refused with {GRANTS_MAX} allocations");
    }
    /// Makes a child that has ended with status 127. Returns its id.
    pub fn ended_child(&self) -> u32 {
        let body = |_: &Arc<Task>, _: &mut Context| Err(Errno::ENOEXEC);
        let id = fork::spawn(&self.task, &CloneRequest::fork(), body).unwrap();
        while process::tree::process(id).is_some_and(|child| child.ended().is_none()) {
            std::thread::yield_now();
        }
        id
    }
    /// Returns the numbers of the process's children, those that have ended too.
    pub fn children(&self) -> Vec<u32> {
        process::tree::read().children(self.task.process.id()).map(|child| child.id()).collect()
    }
    /// Returns the open descriptors.
    pub fn descriptors(&self) -> Vec<usize> {
        let mut found = Vec::new();
        let _ = self.task.files().visit_descriptors(0, &mut |fd| {
            found.push(fd);
            std::ops::ControlFlow::Continue(())
        });
        found
    }
    /// Closes `fd`.
    pub fn close(&self, fd: u64) {
        self.call(linux_raw_sys::general::__NR_close, [fd, 0, 0, 0, 0, 0]).unwrap();
    }
}

/// Returns the bytes of `words` as a program stores them.
pub fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

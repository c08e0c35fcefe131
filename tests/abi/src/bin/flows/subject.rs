//! A subject: children that make random calls and look for tokens in everything that they receive.
use crate::{
    FOLDERS, STAGES, SUBJECTS, children,
    children::{CALLS_A_CHILD, Random, Said},
    deeds::DEEDS,
    lattice::{Folder, Subject, first_bad, token, tokens},
    processes, report,
    shapes::{Arena, SHAPES},
};
use abi::{handle, must};
use std::{ffi::CString, fs, io::Write, sync::atomic::Ordering::SeqCst};

/// Bytes of a buffer.
pub const ROOM: usize = 4096;
/// Random calls between two looks at the memory that they fill.
const LOOK: u64 = 8;
/// One in this many steps is a deed, of some ten calls.
const DEEDS_EVERY: u64 = 8;
/// No subject: a call had a result that it must not have.
const NOBODY: usize = 63;
/// The signal that subjects send.
pub const SIGNAL: i32 = 40;

/// A child of a subject.
pub struct Actor<'s> {
    pub me: usize,
    pub random: Random,
    /// The processes of the subjects, in their order: not on the heap, which calls overwrite.
    others: [u64; SUBJECTS.len()],
    /// Their complements: calls can overwrite the numbers.
    complements: [u64; SUBJECTS.len()],
    /// Memory full of the subject's token.
    pub tokens: Vec<u8>,
    /// Memory that calls fill.
    pub buffer: Vec<u8>,
    /// Names of files that it may make.
    names: Vec<CString>,
    said: &'s Said,
    /// The deed under way.
    deed: u64,
}

/// Runs a subject until `count` calls are made, and reports. Returns whether it saw no flow.
pub fn run(me: usize, count: u64, seed: u64) -> bool {
    let mut report = fs::File::options()
        .append(true)
        .open(report(SUBJECTS[me].name))
        .expect("opening the report");
    let signal = 1u64 << (SIGNAL - 1);
    let (at, none) = (std::ptr::from_ref(&signal), std::ptr::null_mut::<u64>());
    // SAFETY: a set of signals of eight bytes.
    must(unsafe { libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_BLOCK, at, none, 8) });
    // SAFETY: takes no pointers.
    must(unsafe { libc::raise(libc::SIGSTOP) });
    let others = fs::read_to_string(processes()).expect("the processes");
    let others: Vec<u64> = others.split(' ').map(|word| word.parse().expect("a number")).collect();
    let mut seed = seed;
    let made = children::run(count, &mut seed, |seed, said, count| {
        child((me, &others), seed, said, count);
    });
    let mut text = format!(
        "\n{} calls, {} children died, {} times others' tokens\n",
        made.calls, made.deaths, made.seen
    );
    // Otherwise nothing is tested: both see what the lowest subjects write.
    if ["low", "high"].contains(&SUBJECTS[me].name) && made.seen == 0 {
        text += "flow: none that is allowed was seen\n";
    }
    for note in made.notes {
        let (deed, whose) = (note >> 8 & 0xff, (note & 0xff) as usize);
        let deed = match deed.checked_sub(1) {
            None => "any call",
            Some(place) => DEEDS[place as usize].0,
        };
        let whose = SUBJECTS.get(whose).map_or("nobody", |subject| subject.name);
        let (call, error, name) = (note >> 16 & 0xffff, note >> 32, SUBJECTS[me].name);
        text += &format!("flow: from {whose} to {name} by {deed}, call {call}, error {error}\n");
    }
    report.write_all(text.as_bytes()).expect("reporting");
    !text.contains("flow")
}

extern "C" fn interrupt(_: i32) {}

fn child((me, others): (usize, &[u64]), seed: u64, said: &Said, count: u64) {
    // SAFETY: takes no pointers.
    must(unsafe { libc::syscall(libc::SYS_close_range, 3, crate::GIVEN - 1, 0) });
    let null = abi::open("/dev/null", libc::O_RDWR, 0).expect("/dev/null");
    for standard in 0..3 {
        // SAFETY: descriptors of our own.
        must(unsafe { libc::dup2(null, standard) });
    }
    handle(libc::SIGALRM, interrupt, 0);
    let period = libc::timeval { tv_sec: 0, tv_usec: 10_000 };
    let timer = libc::itimerval { it_interval: period, it_value: period };
    // SAFETY: a whole itimerval; nothing is written back.
    must(unsafe { libc::setitimer(libc::ITIMER_REAL, &timer, std::ptr::null_mut()) });
    let mut actor = Actor::new(me, others, Random(seed | 1), said);
    let paths: Vec<String> = FOLDERS
        .iter()
        .flat_map(|folder| STAGES.map(|stage| format!("{stage}/{}", folder.name)))
        .flat_map(|folder| ["", "/f0", "/f1", "/d"].map(|name| format!("{folder}{name}")))
        .collect();
    // Calls on others may change what these need to go on.
    let is_guarded = |place: &usize| !SUBJECTS[me].may_act_on(&SUBJECTS[*place]);
    let guarded: Vec<u64> =
        (0..SUBJECTS.len()).filter(is_guarded).map(|place| others[place]).collect();
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    let mut arena = Arena::new(&mut actor.random, &paths, &guarded);
    for _ in 0..CALLS_A_CHILD {
        if said.made.load(SeqCst) >= count {
            break;
        }
        if actor.random.below(DEEDS_EVERY) == 0 {
            let place = actor.random.below(DEEDS.len() as u64);
            actor.deed = place + 1;
            DEEDS[place as usize].1(&mut actor);
        } else {
            actor.deed = 0;
            actor.any_call(&mut arena);
        }
    }
}

impl<'s> Actor<'s> {
    fn new(me: usize, others: &[u64], random: Random, said: &'s Said) -> Actor<'s> {
        let own = [b"n-".as_slice(), &token(me)].concat();
        let names = [b"f0".to_vec(), b"f1".to_vec(), b"d".to_vec(), own];
        Actor {
            me,
            random,
            others: std::array::from_fn(|place| others[place]),
            complements: std::array::from_fn(|place| !others[place]),
            tokens: token(me).repeat(ROOM / token(me).len()),
            buffer: vec![0; ROOM],
            names: names.map(|name| CString::new(name).expect("no NUL")).into(),
            said,
            deed: 0,
        }
    }

    /// Makes a call with arguments of the right types.
    fn any_call(&mut self, arena: &mut Arena) {
        let (number, kinds) = SHAPES[self.random.below(SHAPES.len() as u64) as usize];
        let mut arguments = [0u64; 6];
        for (argument, kind) in arguments.iter_mut().zip(kinds) {
            *argument = arena.make(&mut self.random, *kind);
        }
        self.call(number, arguments);
        arena.stir(&mut self.random, u64::from_ne_bytes(token(self.me)));
        if self.random.below(LOOK) == 0 {
            let bytes: Vec<u8> = arena.words.iter().flat_map(|word| word.to_ne_bytes()).collect();
            self.see(&bytes);
        }
    }

    /// Makes a call. Returns its result, or the error with its sign turned.
    pub fn call(&mut self, number: i64, [a, b, x, d, e, f]: [u64; 6]) -> i64 {
        self.said.made.fetch_add(1, SeqCst);
        self.said.last.store(number as u64, SeqCst);
        // SAFETY: none; that is what is tested, and the process is thrown away.
        let result = unsafe { libc::syscall(number, a, b, x, d, e, f) };
        if result == -1 { -i64::from(abi::errno()) } else { result }
    }

    /// Looks at received bytes.
    pub fn see(&self, bytes: &[u8]) {
        let found = tokens(bytes);
        if found & !(1 << self.me) != 0 {
            self.said.seen.fetch_add(1, SeqCst);
        }
        if let Some(bad) = first_bad(found, |other| self.subject().may_see(other)) {
            self.tell(bad);
        }
    }

    /// Looks at the first `length` bytes of the buffer, if a call has filled them.
    pub fn see_buffer(&self, length: i64) {
        let length = usize::try_from(length).unwrap_or(0).min(ROOM);
        self.see(&self.buffer[..length]);
    }

    /// Reports a flow from a subject, and ends. It does not report if a call has overwritten the numbers of the processes.
    pub fn tell(&self, from: usize) -> ! {
        let is_whole = (0..SUBJECTS.len()).all(|at| self.others[at] == !self.complements[at]);
        if !is_whole {
            std::process::exit(1);
        }
        let call = self.said.last.load(SeqCst) << 16;
        self.said.note.store(call | self.deed << 8 | from as u64, SeqCst);
        std::process::exit(1);
    }

    /// Reports a success that must not be.
    pub fn must_fail(&self, result: i64) {
        if result >= 0 {
            self.tell_success(result);
        }
    }

    /// Reports a result that tells what it must not.
    pub fn tell_success(&self, result: i64) -> ! {
        let shown = result.unsigned_abs().min(0xff) as usize;
        self.tell(NOBODY | if result < 0 { shown << 32 } else { 0 });
    }

    /// Returns the subject that it is.
    pub fn subject(&self) -> &'static Subject {
        &SUBJECTS[self.me]
    }

    /// Returns a folder, and a path in it, which it may make.
    pub fn path(&mut self) -> (&'static Folder, CString) {
        let folder = &FOLDERS[self.random.below(FOLDERS.len() as u64) as usize];
        let stage = STAGES[self.random.below(STAGES.len() as u64) as usize];
        let name = &self.names[self.random.below(self.names.len() as u64) as usize];
        let path = [stage.as_bytes(), b"/", folder.name.as_bytes(), b"/", name.as_bytes()].concat();
        (folder, CString::new(path).expect("no NUL"))
    }

    /// Returns another subject, and its process.
    pub fn other(&mut self) -> (&'static Subject, u64) {
        let place = self.random.below(SUBJECTS.len() as u64) as usize;
        (&SUBJECTS[place], self.others[place])
    }
}

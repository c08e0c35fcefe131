//! The acts of a thread of the component: one call, or a few that belong together.
use crate::{
    code,
    draw::{self, CODE, DATA, PAGES, REGIONS, SPACES, THREADS},
    raw::{self, Asked},
};
use calls::{
    Call, FOREVER, MOVED, NO_HANDLE, PLAIN, READ_ONLY, RUN, SERVICE,
    space::{FIXUPS_MAX, PAGE_LIST_MAX, RUN_SYSCALL, number},
};
use xorshift::Xorshift;

const PAGE: u64 = 4096;
/// Handles of the region that may only be read, of the server that gives regions, and of the right to lend.
const READABLE: u64 = SERVICE + 1;
const GIVER: u64 = SERVICE + 2;
const LENDER: u64 = SERVICE + 3;
/// Most pages of a region.
const REGION_PAGES: usize = 6;

fn call(call: Call, arguments: [u64; 6]) -> (u64, [u64; 3]) {
    raw::call(call as u64, arguments)
}

/// A thread's state.
#[derive(Debug)]
pub struct Actor {
    random: Xorshift,
    list: [u64; PAGE_LIST_MAX],
}

impl Actor {
    /// Makes the state of the calling thread.
    pub fn new(seed: u64) -> Actor {
        let mut actor = Actor { random: Xorshift::new(seed), list: [0; PAGE_LIST_MAX] };
        (0..8).for_each(|_| _ = actor.random.next());
        let (_, [number, ..]) = call(Call::Current, [0; 6]);
        THREADS.keep(&mut actor.random, number);
        let fixup = [raw::touch_fixup()];
        call(Call::Fixups, [fixup.as_ptr() as u64, 1, 0, 0, 0, 0]);
        actor
    }

    /// Acts once.
    pub fn act(&mut self) {
        match self.random.below(100) {
            0..=37 => self.change_space(),
            38..=59 => self.run(),
            60..=64 => self.make_space(),
            65..=67 => self.close_space(),
            68..=73 => self.change_memory(),
            74..=75 => self.lend(),
            76..=77 => self.set_fixups(),
            78..=80 => self.touch(),
            81..=84 => draw::spoil_context(&mut self.random),
            85..=88 => self.send(),
            89..=93 => self.disturb(),
            94 => self.start_threads(),
            _ => self.anything(),
        }
    }

    fn make_space(&mut self) {
        let (status, [space, ..]) = call(Call::SpaceNew, [0; 6]);
        if status != 0 {
            return self.close_space();
        }
        // Two threads may have the same place: the handle that is lost stays until the end.
        let old = SPACES.keep(&mut self.random, space);
        if old != 0 {
            call(Call::Close, [old, 0, 0, 0, 0, 0]);
        }
        self.fill(space);
    }

    /// Gives a space code and a page of data.
    fn fill(&mut self, space: u64) {
        let region = REGIONS.any(&mut self.random);
        let (_, [address, bytes, _]) = call(Call::MapRegion, [region, 0, 0, 0, 0, 0]);
        if bytes >= PAGE {
            self.list[0] = address;
            let list = self.list.as_ptr() as u64;
            call(Call::Space, [space, number::MAP, CODE, list, 1, 5]);
        }
        call(Call::Space, [space, number::MAP_ZEROED, DATA, DATA + 2 * PAGE, 3, 0]);
    }

    fn close_space(&mut self) {
        let space = SPACES.keep(&mut self.random, 0);
        call(Call::Close, [space, 0, 0, 0, 0, 0]);
    }

    /// Fills the list with addresses. Returns its address and its length.
    fn fill_list(&mut self) -> [u64; 2] {
        let most = if self.random.once_in(8) { PAGE_LIST_MAX + 1 } else { 5 };
        let count = self.random.below(most);
        for index in 0..count.min(PAGE_LIST_MAX) {
            self.list[index] = match self.random.below(24) {
                0 => draw::word(&mut self.random),
                1 => draw::address(&mut self.random),
                _ => PAGES.any(&mut self.random) + self.random.below(2) as u64 * PAGE,
            };
        }
        if self.random.once_in(24) {
            return [draw::address(&mut self.random), count as u64];
        }
        [self.list.as_ptr() as u64, count as u64]
    }

    /// Returns a range of a program's pages: near, or large.
    fn range(&mut self) -> [u64; 2] {
        let start = draw::program_address(&mut self.random);
        let pages = match self.random.below(16) {
            0 => (self.random.next() >> 29) as usize,
            1 => self.random.below(1 << 18),
            2 => self.random.below(1200),
            _ => self.random.below(12),
        };
        [start, start.wrapping_add(pages as u64 * PAGE)]
    }

    /// Does an operation on a space, mostly with arguments of the right kind.
    fn change_space(&mut self) {
        let space = draw::space(&mut self.random);
        let operation = self.random.below(17) as u64;
        let protection = if self.random.once_in(16) {
            draw::word(&mut self.random)
        } else {
            self.random.below(8) as u64
        };
        let [start, end] = self.range();
        let [list, count] = self.fill_list();
        let near = draw::program_address(&mut self.random);
        let arguments = match operation {
            number::MAP => [start, list, count, protection],
            number::MAP_ZEROED | number::PROTECT => [start, end, protection, 0],
            number::MAP_LARGE => [start & !0x1f_ffff, 0, protection, 0],
            number::CLONE => {
                [start, end, draw::space(&mut self.random), self.random.below(2) as u64]
            }
            number::MOVE => [start, end, near, 0],
            number::MAKE_WRITABLE => [near, protection, 0, 0],
            number::PRESENT | number::PAGES => [start, end, list, count],
            number::COPY => [
                draw::address(&mut self.random),
                draw::address(&mut self.random),
                self.random.below(20_000) as u64,
                self.random.below(2) as u64,
            ],
            number::EXCHANGE => [near, self.random.below(3) as u64, self.random.next(), 0],
            number::OWN_PAGE => [draw::address(&mut self.random), 0, 0, 0],
            _ => [start, end, protection, 0],
        };
        let [first, second, third, fourth] = arguments;
        let space =
            if operation == number::ENTER && self.random.once_in(4) { NO_HANDLE } else { space };
        let mut all = [space, operation, first, second, third, fourth];
        if self.random.once_in(32) {
            let wrong = draw::word(&mut self.random);
            all[self.random.below(6)] = wrong;
        }
        call(Call::Space, all);
    }

    /// Enters a program, a few times in one space or another.
    fn run(&mut self) {
        let context = match self.random.below(12) {
            0 => draw::address(&mut self.random) & !7,
            1 => draw::address(&mut self.random),
            2..=4 => PAGES.any(&mut self.random),
            _ => draw::own_context(&mut self.random),
        };
        let mut space = draw::space(&mut self.random);
        if !self.random.once_in(4) {
            draw::write_context(context, &draw::registers(&mut self.random));
        }
        for _ in 0..self.random.below(12) {
            let flags = if self.random.once_in(16) { 0 } else { PLAIN };
            let (status, _) = raw::call(RUN & !PLAIN | flags, [context, space, 0, 0, 0, 0]);
            if status != RUN_SYSCALL && status != 0 {
                return;
            }
            match self.random.below(16) {
                0 => space = draw::space(&mut self.random),
                1 => {
                    _ = call(
                        Call::Space,
                        [draw::space(&mut self.random), number::ENTER, 0, 0, 0, 0],
                    )
                }
                2 => self.close_space(),
                3 => draw::spoil_context(&mut self.random),
                4 => self.disturb(),
                _ => {}
            }
        }
    }

    /// Makes, maps and gives back memory.
    fn change_memory(&mut self) {
        let pages = 1 + self.random.below(REGION_PAGES) as u64;
        match self.random.below(6) {
            0 => {
                let (status, [address, ..]) = call(Call::Map, [pages * PAGE, 0, 0, 0, 0, 0]);
                if status == 0 {
                    PAGES.keep(&mut self.random, address);
                }
            }
            1 => {
                let address = PAGES.any(&mut self.random);
                call(Call::Unmap, [address, pages * PAGE, 0, 0, 0, 0]);
            }
            2 => {
                let old = REGIONS.keep(&mut self.random, 0);
                call(Call::Close, [old, 0, 0, 0, 0, 0]);
            }
            3 => {
                let given = REGIONS.any(&mut self.random);
                let (status, [given, ..]) =
                    call(Call::Give, [given, self.random.below(8) as u64, 0, 0, 0, 0]);
                if status == 0 {
                    REGIONS.keep(&mut self.random, given);
                }
                let at = draw::handle(&mut self.random);
                self.map(if status == 0 { given } else { at });
            }
            _ => self.make_region(pages),
        }
    }

    fn make_region(&mut self, pages: u64) {
        let (status, [address, region, _]) = call(Call::RegionNew, [pages * PAGE, 0, 0, 0, 0, 0]);
        if status != 0 {
            return;
        }
        let old = REGIONS.keep(&mut self.random, region);
        call(Call::Close, [old, 0, 0, 0, 0, 0]);
        PAGES.keep(&mut self.random, address);
        let code = code::page(&mut self.random);
        for (at, bytes) in (address..).step_by(8).zip(code.as_flattened().as_chunks::<8>().0) {
            raw::touch(at, u64::from_le_bytes(*bytes));
        }
    }

    /// Maps the region of `handle`, or finds where it is mapped.
    fn map(&mut self, handle: u64) {
        let (status, [address, ..]) = call(Call::MapRegion, [handle, 0, 0, 0, 0, 0]);
        if status == 0 {
            PAGES.keep(&mut self.random, address);
        }
    }

    fn lend(&mut self) {
        let [list, count] = self.fill_list();
        let lender = if self.random.once_in(8) { draw::handle(&mut self.random) } else { LENDER };
        call(Call::Lend, [lender, list, count, self.random.below(2) as u64, 0, 0]);
    }

    /// Registers the fix-up of [`raw::touch`] and others.
    fn set_fixups(&mut self) {
        let mut table = [[0; 3]; FIXUPS_MAX];
        let count = 1 + self.random.below(FIXUPS_MAX - 1);
        table[1..].as_flattened_mut().fill_with(|| draw::word(&mut self.random));
        table[0] = raw::touch_fixup();
        let at = if self.random.once_in(200) {
            draw::address(&mut self.random)
        } else {
            table.as_ptr() as u64
        };
        let count =
            if self.random.once_in(200) { draw::word(&mut self.random) } else { count as u64 };
        call(Call::Fixups, [at, count, 0, 0, 0, 0]);
    }

    /// Accesses the program of the thread in place.
    fn touch(&mut self) {
        let at = draw::program_address(&mut self.random) + self.random.below(4096) as u64;
        raw::touch(at, self.random.below(3) as u64);
    }

    /// Sends a message, with a capability or without, and maps the region that comes back.
    fn send(&mut self) {
        let along = match self.random.below(6) {
            0 => SPACES.any(&mut self.random),
            1 | 2 => REGIONS.any(&mut self.random) | [0, MOVED, READ_ONLY][self.random.below(3)],
            3 => draw::handle(&mut self.random),
            _ => NO_HANDLE,
        };
        let header = 1 << 16 | self.random.below(5) as u64;
        let at = if self.random.once_in(8) { draw::handle(&mut self.random) } else { GIVER };
        let way = if self.random.once_in(4) { Call::Send } else { Call::Call };
        let asked = Asked {
            number: way as u64,
            arguments: [at, header, 0, 0, 0, 0],
            deadline: if self.random.once_in(4) { self.random.next() >> 40 } else { FOREVER },
            along,
        };
        let (status, values, got) = raw::ask(asked);
        draw::note(&mut self.random, values[1]);
        if status == 0 && got != NO_HANDLE && got != along {
            let old = REGIONS.keep(&mut self.random, got);
            call(Call::Close, [old, 0, 0, 0, 0, 0]);
            self.map(got);
        }
        if self.random.once_in(4) {
            self.map(READABLE);
        }
    }

    /// Kicks and moves a thread, or gives the processor away.
    fn disturb(&mut self) {
        let thread = THREADS.any(&mut self.random);
        let mask = 1 + self.random.below(15) as u64;
        match self.random.below(6) {
            0 => call(Call::SetAffinity, [thread, mask, 0, 0, 0, 0]),
            1 => call(Call::ReportMoves, [self.random.below(2) as u64, 0, 0, 0, 0, 0]),
            2 => call(Call::Yield, [0; 6]),
            3 => call(Call::TakeKick, [0; 6]),
            _ => call(Call::Kick, [thread, 0, 0, 0, 0, 0]),
        };
    }

    /// Starts as many threads as it may.
    fn start_threads(&mut self) {
        for _ in 0..16 {
            let random = draw::word(&mut self.random);
            let entry = if self.random.once_in(2000) { random } else { raw::leave() };
            let area =
                if self.random.once_in(4) { draw::address(&mut self.random) & !7 } else { 0 };
            let (status, [thread, ..]) = call(
                Call::Spawn,
                [entry, draw::own_context(&mut self.random), 0, 0, area, u64::MAX],
            );
            if status != 0 {
                return;
            }
            THREADS.keep(&mut self.random, thread);
        }
    }

    /// Makes any call with any arguments. Those that end a thread or the component come seldom.
    fn anything(&mut self) {
        let number = if self.random.once_in(8) {
            draw::word(&mut self.random)
        } else {
            self.random.below(Call::ALL.len()) as u64
        };
        let ends = [
            Call::Exit,
            Call::Panic,
            Call::Close,
            Call::Unmap,
            Call::Log,
            Call::Spawn,
            Call::Wait,
            Call::Receive,
            Call::InterruptWait,
        ];
        let is_end = ends.iter().any(|&call| call as u64 == number & !PLAIN);
        if is_end && !self.random.once_in(200) {
            return;
        }
        let arguments = core::array::from_fn(|_| draw::word(&mut self.random));
        let asked = Asked {
            number,
            arguments,
            deadline: self.random.next() >> 40,
            along: if self.random.once_in(2) { draw::handle(&mut self.random) } else { NO_HANDLE },
        };
        let (_, values, got) = raw::ask(asked);
        values.into_iter().chain([got]).for_each(|value| draw::note(&mut self.random, value));
    }
}

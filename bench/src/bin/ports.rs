//! Moves bytes, words, longs, strings and lists to a serial port and back: by messages to a task that has the port,
//! or by `rt`, for which the nucleus chooses the way. Each access is timed by itself.
#![cfg_attr(all(target_os = "none", skerry_process), no_std, no_main)]
#![forbid(unsafe_code)]

#[cfg(all(target_os = "none", skerry_process))]
mod component {
    use bench::serial::{LONG, PORTS, Request, SET_UP, STRING};
    use calls::PortStep;
    use rt::{
        device::Ports,
        message::{self, Endpoint, Message},
        time::now,
    };

    /// Number of accesses of each form, and of those before that warm up.
    const ROUNDS: u64 = 1000;
    const WARM_UP: u64 = 50;

    /// A way to access the port. Offsets are from its first I/O port; strings go to and from the first.
    trait Way {
        fn write(&self, offset: u16, width: u8, value: u32);
        fn read(&self, offset: u16, width: u8) -> u32;
        fn write_all(&self, data: &[u8; STRING]);
        fn read_all(&self, out: &mut [u8; STRING]);
        fn write_list(&self, list: &[(u16, u8); STRING]);
        fn read_list(&self, list: &mut [(u16, u8); STRING]);
    }

    impl Way for Ports {
        #[inline(always)]
        fn write(&self, offset: u16, width: u8, value: u32) {
            match width {
                1 => self.write8(offset, value as u8),
                2 => self.write16(offset, value as u16),
                _ => self.write32(offset, value),
            }
        }
        #[inline(always)]
        fn read(&self, offset: u16, width: u8) -> u32 {
            match width {
                1 => self.read8(offset).into(),
                2 => self.read16(offset).into(),
                _ => self.read32(offset),
            }
        }
        fn write_all(&self, data: &[u8; STRING]) {
            self.write8_all(0, data);
        }
        fn read_all(&self, out: &mut [u8; STRING]) {
            self.read8_all(0, out);
        }
        fn write_list(&self, list: &[(u16, u8); STRING]) {
            self.write8_list(list);
        }
        fn read_list(&self, list: &mut [(u16, u8); STRING]) {
            self.read8_list(list);
        }
    }

    /// The task that has the port, behind an endpoint.
    struct Task(Endpoint);

    /// Encodes an access as a word.
    fn step(offset: u16, width: u8, write: Option<u32>) -> u64 {
        let (is_write, value) = (write.is_some(), write.unwrap_or(0));
        u64::from_le_bytes(PortStep { port: PORTS.0 + offset, width, is_write, value }.pack())
    }

    impl Task {
        /// Sends `words`, which are replaced by the answer.
        #[inline(always)]
        fn ask(&self, request: Request, words: &mut [u64]) {
            let mut message = Message::new(request as u64);
            let has_room = words.iter().all(|&word| message.push(word));
            let is_done = has_room && self.0.call(&mut message, None).is_ok();
            assert!(is_done && message.words().len() == words.len(), "no answer");
            words.copy_from_slice(message.words());
        }
    }

    impl Way for Task {
        #[inline(always)]
        fn write(&self, offset: u16, width: u8, value: u32) {
            self.ask(Request::One, &mut [step(offset, width, Some(value))]);
        }
        #[inline(always)]
        fn read(&self, offset: u16, width: u8) -> u32 {
            let mut words = [step(offset, width, None)];
            self.ask(Request::One, &mut words);
            words[0] as u32
        }
        fn write_all(&self, data: &[u8; STRING]) {
            let bytes = u128::from_le_bytes(*data);
            let mut words = [step(0, 1, Some(0)), bytes as u64, (bytes >> 64) as u64];
            self.ask(Request::String, &mut words);
        }
        fn read_all(&self, out: &mut [u8; STRING]) {
            let mut words = [step(0, 1, None), 0, 0];
            self.ask(Request::String, &mut words);
            *out = (u128::from(words[2]) << 64 | u128::from(words[1])).to_le_bytes();
        }
        fn write_list(&self, list: &[(u16, u8); STRING]) {
            let mut words = list.map(|(offset, value)| step(offset, 1, Some(value.into())));
            self.ask(Request::List, &mut words);
        }
        fn read_list(&self, list: &mut [(u16, u8); STRING]) {
            let mut words = list.map(|(offset, _)| step(offset, 1, None));
            self.ask(Request::List, &mut words);
            for ((_, value), word) in list.iter_mut().zip(words) {
                *value = (word >> 32) as u8;
            }
        }
    }

    /// Sums of times.
    #[derive(Default)]
    struct Sums {
        ns: u64,
        squares: u64,
    }

    impl Sums {
        #[inline(always)]
        fn time<T>(&mut self, counts: bool, act: impl FnOnce() -> T) -> T {
            let start = now().0;
            let value = act();
            let took_ns = now().0 - start;
            if counts {
                self.ns += took_ns;
                self.squares += took_ns * took_ns;
            }
            value
        }

        /// Logs `ports: WAY FORM: ROUNDS SUM SQUARES`, in nanoseconds.
        fn report(&self, way: u64, form: &str) {
            log::info!("ports: {way} {form}: {ROUNDS} {} {}", self.ns, self.squares);
        }
    }

    /// Times the access out and the access in, whose value `is_right` checks.
    #[inline(always)]
    fn both<T>(
        way: u64,
        form: &str,
        mut out: impl FnMut(u8),
        mut back: impl FnMut() -> T,
        is_right: impl Fn(u8, T) -> bool,
    ) {
        let [mut sent, mut taken] = [Sums::default(), Sums::default()];
        for round in 0..WARM_UP + ROUNDS {
            let counts = round >= WARM_UP;
            sent.time(counts, || out(round as u8));
            let value = taken.time(counts, &mut back);
            assert!(is_right(round as u8, value), "{form}: {round} came back as another");
        }
        sent.report(way, &alloc::format!("{form} out"));
        taken.report(way, &alloc::format!("{form} in"));
    }

    fn measure(way: u64, port: &impl Way) {
        both(way, "nothing", |_| (), || (), |_, ()| true);
        SET_UP.iter().for_each(|&(offset, value)| port.write(offset, 1, value.into()));
        let byte = |value: u8| u32::from(value);
        both(
            way,
            "byte",
            |value| port.write(0, 1, byte(value)),
            || port.read(0, 1),
            |value, read| read == byte(value),
        );
        both(
            way,
            "word",
            |value| port.write(0, 2, byte(value)),
            || port.read(0, 2),
            |value, read| read == byte(value),
        );
        both(
            way,
            "long",
            |value| port.write(0, 4, LONG | byte(value)),
            || port.read(0, 4),
            |value, read| read as u8 == value && read >> 24 == LONG >> 24,
        );
        let string = |first: u8| core::array::from_fn(|place| first.wrapping_add(place as u8));
        both(
            way,
            "string",
            |value| port.write_all(&string(value)),
            || {
                let mut out = [0; STRING];
                port.read_all(&mut out);
                out
            },
            |value, read| read == string(value),
        );
        both(
            way,
            "list",
            |value| port.write_list(&string(value).map(|byte| (0, byte))),
            || {
                let mut list = [(0, 0); STRING];
                port.read_list(&mut list);
                list
            },
            |value, read| read.map(|(_, byte)| byte) == string(value),
        );
    }

    fn main() {
        let task = Task(message::service());
        let mut way = [0];
        task.ask(Request::Way, &mut way);
        if way == [1] {
            return measure(1, &task);
        }
        let (first, count) = PORTS;
        match Ports::open(first, count) {
            Ok(ports) => measure(way[0], &ports),
            Err(error) => panic!("no ports: {error:?}"),
        }
    }

    extern crate alloc;
    rt::component_main!(main);
}

#[cfg(not(all(target_os = "none", skerry_process)))]
fn main() {}

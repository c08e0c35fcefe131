//! Random and damaged programs: they are refused, or end within their length; nothing panics.
//!
//! `SKERRY_FUZZ_COUNT` is the number of programs (default 20,000), `SKERRY_FUZZ_SEED` the first seed, by which one
//! program can be repeated: `SKERRY_FUZZ_COUNT=1 SKERRY_FUZZ_SEED=N`. `./x campaign filters` runs more.
use bpf::{Call, INSTRUCTIONS_MAX, Program};

const DEFAULT_COUNT: u64 = 20_000;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// Random numbers by Marsaglia's xorshift.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
    /// Returns a word that is often a valid instruction with a sensible constant.
    fn instruction(&mut self) -> u64 {
        const CODES: [u64; 16] = [
            0x20, 0x20, 0x20, 0x15, 0x15, 0x25, 0x35, 0x45, 0x1d, 0x54, 0x3c, 0x02, 0x60, 0x07,
            0x05, 0x06,
        ];
        let code = match self.below(8) {
            0 => self.next() & 0xff,
            1 => self.next() & 0xffff,
            _ => CODES[self.below(16) as usize],
        };
        let constant = match self.below(6) {
            0 => self.next() & 0xffff_ffff,
            1 => self.below(600),
            2 => self.below(16),
            _ => self.below(16) * 4,
        };
        let jumps = if self.below(4) == 0 { self.next() & 0xffff } else { self.next() & 0x0303 };
        code | jumps << 16 | constant << 32
    }
    fn program(&mut self) -> Vec<u64> {
        let most = if self.below(50) == 0 { INSTRUCTIONS_MAX as u64 + 2 } else { 12 };
        let length = self.below(most);
        let mut words: Vec<u64> = (0..length).map(|_| self.instruction()).collect();
        if self.below(8) != 0 {
            // These instructions give jumps a return to lead to, so that more than a few programs are valid.
            words.extend([0x7fff_0000_0000_0006; 5]);
        }
        words
    }
}

#[test]
fn damaged_programs_are_refused_or_end() {
    let (count, seed) = (number("SKERRY_FUZZ_COUNT", DEFAULT_COUNT), number("SKERRY_FUZZ_SEED", 1));
    let mut let_through = 0_u64;
    for one in seed..seed.saturating_add(count) {
        let mut random = Random(one.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let words = random.program();
        let Ok(program) = Program::new(&words) else { continue };
        let_through += 1;
        for _ in 0..4 {
            let (number, pointer) = (random.next() as u32 % 700, random.next());
            let arguments = std::array::from_fn(|_| random.next());
            program.run(&Call::new(number, pointer, arguments));
            program.run(&Call::new(random.next() as u32, pointer, arguments));
        }
    }
    println!("{let_through} of {count} programs were let through");
    assert!(count < 1000 || let_through > count / 100, "only {let_through} were let through");
}

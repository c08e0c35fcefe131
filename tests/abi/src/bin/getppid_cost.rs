//! Times `getppid`, for `./x bench ipc`: prints `bench: getppid: COUNT NS`.
use std::time::Instant;

fn main() {
    for count in [2000_u64, 4000, 8000, 12000, 16000] {
        let start = Instant::now();
        for _ in 0..count {
            // SAFETY: it takes nothing and changes nothing.
            unsafe { libc::getppid() };
        }
        println!("bench: getppid: {count} {}", start.elapsed().as_nanos());
    }
}

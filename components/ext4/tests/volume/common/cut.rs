//! Power cuts: possible contents of a device after some of the requests that it was given.
use super::{device::Event, mutate::Random};

/// Returns possible contents of the device after the first `cut` events.
pub fn crashed(
    image: &[u8],
    events: &[Event],
    cut: usize,
    block: usize,
    random: &mut Random,
) -> Vec<u8> {
    let mut image = image.to_vec();
    let flushed = events[..cut].iter().rposition(|event| matches!(event, Event::Flush));
    let flushed = flushed.map_or(0, |place| place + 1);
    let mut apply = |sector: u64, bytes: &[u8]| {
        let at = sector as usize * 512;
        image[at..at + bytes.len()].copy_from_slice(bytes);
    };
    let mut late = Vec::new();
    for (index, event) in events[..cut].iter().enumerate() {
        let Event::Write(sector, bytes) = event else { continue };
        if index < flushed {
            apply(*sector, bytes);
            continue;
        }
        for (part, bytes) in bytes.chunks(block).enumerate() {
            late.push((*sector + (part * block / 512) as u64, bytes));
        }
    }
    // The share varies, so that sometimes nearly all writes got through, sometimes nearly none.
    let share = random.below(11);
    for place in (1..late.len()).rev() {
        late.swap(place, random.below(place + 1));
    }
    for (sector, bytes) in late {
        if random.below(10) < share {
            apply(sector, bytes);
        }
    }
    image
}

/// Reads a number from the environment.
pub fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

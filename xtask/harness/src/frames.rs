//! Stack frames of the kernel's functions, by the instructions that make them.
//!
//! A frame of more than 127 bytes is made by `sub $FRAME,%rsp`. One of more than a page is probed: a `sub` for each page, or a
//! loop whose end `lea -FRAME(%rsp),%r11` computes. Source: Intel SDM volume 2; LLVM, `X86FrameLowering::emitStackProbeInline`.
use crate::symbols::{self, KERNEL_BASE};
use anyhow::{Context, Result};
use std::path::Path;

/// `sub $imm32,%rsp` without its operand.
const SUBTRACT: [u8; 3] = [0x48, 0x81, 0xec];
/// `lea disp32(%rsp),%r11` without its operand.
const LOOP_END: [u8; 4] = [0x4c, 0x8d, 0x9c, 0x24];

/// A function and the bytes of stack that it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Name of the function.
    pub function: String,
    /// Size in bytes, without saved registers and the return address.
    pub bytes: u64,
}

/// Returns the functions of the kernel at `kernel` whose frames are larger than `limit` bytes.
///
/// # Errors
/// Fails if the file [`symbols::beside`] it cannot be read, or has no code or symbols.
pub fn above(kernel: &Path, limit: u64) -> Result<Vec<Frame>> {
    let path = symbols::beside(kernel);
    let elf = std::fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
    let functions = symbols::functions(&elf).context("the kernel has no symbols")?;
    let (base, code) = symbols::code(&elf).context("the kernel has no code")?;
    let ends = functions.iter().skip(1).map(|(offset, _)| *offset).chain([u32::MAX]);
    let mut found = Vec::new();
    for ((start, name), end) in functions.iter().zip(ends) {
        let place =
            |offset: u32| KERNEL_BASE.saturating_add(offset.into()).saturating_sub(base) as usize;
        let body = code.get(place(*start)..place(end).min(code.len())).unwrap_or_default();
        let bytes = frame(body);
        if bytes > limit {
            let name = String::from_utf8_lossy(name);
            found.push(Frame { function: format!("{:#}", rustc_demangle::demangle(&name)), bytes });
        }
    }
    Ok(found)
}

/// Returns the size of the frame that these instructions make.
fn frame(body: &[u8]) -> u64 {
    let operands = |instruction: &'static [u8]| {
        let matching =
            body.windows(instruction.len() + 4).filter(move |w| w.starts_with(instruction));
        matching.filter_map(|window| window.last_chunk()).map(|bytes| i32::from_le_bytes(*bytes))
    };
    let subtracted = operands(&SUBTRACT).filter(|bytes| *bytes > 0).map(|bytes| bytes as u64);
    let looped =
        operands(&LOOP_END).filter(|bytes| *bytes < 0).map(|bytes| u64::from(bytes.unsigned_abs()));
    subtracted.sum::<u64>() + looped.max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_the_sum_of_its_steps() {
        let sub = |bytes: i32| [SUBTRACT.as_slice(), &bytes.to_le_bytes()].concat();
        let end = |bytes: i32| [LOOP_END.as_slice(), &bytes.to_le_bytes()].concat();
        assert_eq!(frame(&[]), 0);
        assert_eq!(frame(&sub(0x98)), 0x98);
        assert_eq!(frame(&[sub(0x1000), vec![0x90], sub(0x1000), sub(0x40)].concat()), 0x2040);
        assert_eq!(frame(&[end(-0x6000), sub(0x1000), sub(0x40)].concat()), 0x7040);
        assert_eq!(frame(&[end(0x20), sub(-8)].concat()), 0, "neither makes a frame");
        assert_eq!(frame(&SUBTRACT), 0, "the operand is cut off");
    }
}

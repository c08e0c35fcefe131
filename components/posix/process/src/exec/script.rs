//! `#!`: files that name the program that runs them, by Linux's rules.
use super::{Arguments, ExecRequest, SCRIPTS_MAX, file::Executable};
use crate::files::slots::OnExec;
use alloc::vec::Vec;
use vfs::Errno;

/// Bytes of a file that are read to find its format.
const HEAD_BYTES: usize = 256;

/// The first line of a script, parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptLine {
    /// Path of the interpreter.
    pub interpreter: Vec<u8>,
    /// The one argument of the interpreter.
    pub argument: Option<Vec<u8>>,
}

/// Replaces a script by its interpreter until the program is not a script; the arguments `script a b` become
/// `interpreter argument script a b`.
///
/// # Errors
/// `ENOEXEC`, `ELOOP`, `ENOENT` if the script's descriptor is closed before the interpreter could read it, and
/// those of opening.
pub fn resolve(request: &ExecRequest<'_>) -> Result<(Executable, Arguments), Errno> {
    let (mut program, mut arguments) = (request.program.clone(), request.arguments.clone());
    let mut name = request.path.to_vec();
    for _ in 0..=SCRIPTS_MAX {
        let mut head = [0; HEAD_BYTES];
        program.read_observed(0, &mut head)?;
        if !head.starts_with(b"#!") {
            return Ok((program, arguments));
        }
        if request.on_exec == OnExec::Close {
            return Err(Errno::ENOENT);
        }
        let line = parse(&head)?;
        let mut first = Vec::from([line.interpreter.clone()]);
        first.extend(line.argument);
        first.push(name);
        arguments.replace_first(&first);
        name = line.interpreter;
        program = (request.open)(&name)?;
    }
    Err(Errno::ELOOP)
}

/// Parses the first line of a script from the first bytes of its file.
///
/// # Errors
/// `ENOEXEC` if there is no interpreter, or its name may be incomplete.
pub fn parse(head: &[u8; HEAD_BYTES]) -> Result<ScriptLine, Errno> {
    let text = head.get(2..HEAD_BYTES - 1).unwrap_or_default();
    let is_blank = |byte: &u8| matches!(*byte, b' ' | b'\t');
    let is_end = |byte: &u8| matches!(*byte, b' ' | b'\t' | 0);
    let line = match text.iter().position(|byte| *byte == b'\n') {
        Some(end) => text.get(..end).unwrap_or_default(),
        None => {
            let word = trim_start(text, is_blank);
            if !word.iter().any(is_end) {
                return Err(Errno::ENOEXEC);
            }
            text
        }
    };
    let end = line.iter().rposition(|byte| !is_blank(byte)).map_or(0, |last| last + 1);
    let words = trim_start(line.get(..end).unwrap_or_default(), is_blank);
    let length = words.iter().position(is_end).unwrap_or(words.len());
    let (interpreter, rest) = words.split_at_checked(length).unwrap_or((words, &[]));
    if interpreter.is_empty() {
        return Err(Errno::ENOEXEC);
    }
    let argument = if rest.first() == Some(&0) { &[][..] } else { trim_start(rest, is_blank) };
    let argument = argument.split(|byte| *byte == 0).next().unwrap_or_default();
    Ok(ScriptLine {
        interpreter: interpreter.to_vec(),
        argument: (!argument.is_empty()).then(|| argument.to_vec()),
    })
}

fn trim_start(text: &[u8], is_blank: impl Fn(&u8) -> bool) -> &[u8] {
    let start = text.iter().position(|byte| !is_blank(byte)).unwrap_or(text.len());
    text.get(start..).unwrap_or_default()
}

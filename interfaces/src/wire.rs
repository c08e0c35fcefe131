//! The contents of a message: plain data of a fixed number of words ([`Wire`]).
//!
//! A value is encoded as its parts one after the other, one word for each number or `bool`. An option or an
//! enumeration begins with the number of the variant, and a variant shorter than the longest ends in zeroes.
//! Nothing is allocated. [`Reader`] checks all input as it reads: a word too few or too many, a `bool` that is
//! neither 0 nor 1, an unknown variant, and text that is not UTF-8 are refused. `#[derive(Wire)]` implements the
//! trait for structures and enumerations.
use crate::call::Refusal;
pub use interfaces_macro::Wire;
use rt::{
    device::DmaWindow,
    memory::Region,
    message::{Capability, Endpoint, MESSAGE_WORDS, Message},
};

/// The greatest number of words of a message.
pub const WORDS_MAX: usize = MESSAGE_WORDS;

/// Plain data of a fixed number of words.
pub trait Wire: Sized {
    /// Number of words.
    const WORDS: usize;
    /// Capabilities that go along; a message carries at most one.
    const CAPABILITIES: usize = 0;
    /// Appends the value to `message`, which has room: that is checked when the call is compiled.
    fn put(&self, message: &mut Message);
    /// Reads a value. Returns `None` if the words do not encode one.
    fn take(reader: &mut Reader<'_>) -> Option<Self>;
}

/// The reader of a received message.
#[derive(Debug)]
pub struct Reader<'m> {
    words: &'m [u64],
    capability: &'m mut Option<Capability>,
}

impl<'m> Reader<'m> {
    /// Reads the arguments of a call, `words` words behind the instance.
    ///
    /// # Errors
    /// [`Refusal::Malformed`] if there are more or fewer.
    #[inline]
    pub fn of_call(message: &'m mut Message, words: usize) -> Result<Reader<'m>, Refusal> {
        let (all, capability) = message.parts();
        let arguments = all.get(1..).filter(|arguments| arguments.len() == words);
        Ok(Reader { words: arguments.ok_or(Refusal::Malformed)?, capability })
    }
    /// Reads the result, `words` words.
    ///
    /// # Errors
    /// Those of [`Reader::of_call`].
    #[inline]
    pub fn of_answer(message: &'m mut Message, words: usize) -> Result<Reader<'m>, Refusal> {
        let (all, capability) = message.parts();
        if all.len() == words {
            Ok(Reader { words: all, capability })
        } else {
            Err(Refusal::Malformed)
        }
    }
    /// Reads the next word.
    #[inline]
    pub fn word(&mut self) -> Option<u64> {
        let (word, rest) = self.words.split_first()?;
        self.words = rest;
        Some(*word)
    }
    /// Skips padding words.
    #[inline]
    pub fn skip(&mut self, words: usize) -> Option<()> {
        self.words = self.words.get(words..)?;
        Some(())
    }
    /// Reads the next value.
    ///
    /// # Errors
    /// [`Refusal::Malformed`].
    #[inline]
    pub fn take<T: Wire>(&mut self) -> Result<T, Refusal> {
        T::take(self).ok_or(Refusal::Malformed)
    }
    /// Checks that nothing is left.
    ///
    /// # Errors
    /// [`Refusal::Malformed`].
    #[inline]
    pub fn finish(self) -> Result<(), Refusal> {
        let is_whole = self.words.is_empty() && self.capability.is_none();
        if is_whole { Ok(()) } else { Err(Refusal::Malformed) }
    }
}

/// Appends one word. Without room, which no compiled call lacks, the word is left out.
#[inline]
fn push(message: &mut Message, word: u64) {
    let has_room = message.push(word);
    debug_assert!(has_room, "proved when the call was compiled");
}

/// Appends `words` zeroes.
#[inline]
pub fn pad(message: &mut Message, words: usize) {
    for _ in 0..words {
        push(message, 0);
    }
}

/// Returns the greatest of `lengths`.
pub const fn longest(lengths: &[usize]) -> usize {
    match lengths {
        [] => 0,
        [first, rest @ ..] => {
            let of_rest = longest(rest);
            if *first > of_rest { *first } else { of_rest }
        }
    }
}

macro_rules! wire_numbers {
    ($($number:ty),*) => {$(
        impl Wire for $number {
            const WORDS: usize = 1;
            #[inline]
            fn put(&self, message: &mut Message) {
                push(message, *self as u64);
            }
            #[inline]
            fn take(reader: &mut Reader<'_>) -> Option<Self> {
                let word = reader.word()?;
                let number = word as $number;
                (number as u64 == word).then_some(number)
            }
        }
    )*};
}
wire_numbers!(u8, u16, u32, u64, usize, i8, i16, i32, i64, isize);

impl Wire for () {
    const WORDS: usize = 0;
    #[inline]
    fn put(&self, _: &mut Message) {}
    #[inline]
    fn take(_: &mut Reader<'_>) -> Option<()> {
        Some(())
    }
}

impl Wire for bool {
    const WORDS: usize = 1;
    #[inline]
    fn put(&self, message: &mut Message) {
        push(message, u64::from(*self));
    }
    #[inline]
    fn take(reader: &mut Reader<'_>) -> Option<bool> {
        match reader.word()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

impl<T: Wire> Wire for Option<T> {
    const WORDS: usize = 1 + T::WORDS;
    #[inline]
    fn put(&self, message: &mut Message) {
        self.is_some().put(message);
        match self {
            Some(value) => value.put(message),
            None => pad(message, T::WORDS),
        }
    }
    #[inline]
    fn take(reader: &mut Reader<'_>) -> Option<Option<T>> {
        if bool::take(reader)? {
            return T::take(reader).map(Some);
        }
        reader.skip(T::WORDS)?;
        Some(None)
    }
}

impl<T: Wire, E: Wire> Wire for Result<T, E> {
    const WORDS: usize = 1 + longest(&[T::WORDS, E::WORDS]);
    #[inline]
    fn put(&self, message: &mut Message) {
        self.is_err().put(message);
        match self {
            Ok(value) => {
                value.put(message);
                pad(message, Self::WORDS - 1 - T::WORDS);
            }
            Err(error) => {
                error.put(message);
                pad(message, Self::WORDS - 1 - E::WORDS);
            }
        }
    }
    #[inline]
    fn take(reader: &mut Reader<'_>) -> Option<Result<T, E>> {
        if bool::take(reader)? {
            let error = E::take(reader)?;
            reader.skip(Self::WORDS - 1 - E::WORDS)?;
            return Some(Err(error));
        }
        let value = T::take(reader)?;
        reader.skip(Self::WORDS - 1 - T::WORDS)?;
        Some(Ok(value))
    }
}

impl<A: Wire, B: Wire> Wire for (A, B) {
    const WORDS: usize = A::WORDS + B::WORDS;
    const CAPABILITIES: usize = A::CAPABILITIES + B::CAPABILITIES;
    #[inline]
    fn put(&self, message: &mut Message) {
        self.0.put(message);
        self.1.put(message);
    }
    #[inline]
    fn take(reader: &mut Reader<'_>) -> Option<(A, B)> {
        Some((A::take(reader)?, B::take(reader)?))
    }
}

impl<T: Wire + Copy + Default, const N: usize> Wire for [T; N] {
    const WORDS: usize = N * T::WORDS;
    #[inline]
    fn put(&self, message: &mut Message) {
        self.iter().for_each(|value| value.put(message));
    }
    #[inline]
    fn take(reader: &mut Reader<'_>) -> Option<[T; N]> {
        let mut values = [T::default(); N];
        for value in &mut values {
            *value = T::take(reader)?;
        }
        Some(values)
    }
}

/// The region goes along with the message as a capability.
impl Wire for Region {
    const WORDS: usize = 0;
    const CAPABILITIES: usize = 1;
    fn put(&self, message: &mut Message) {
        message.capability = Some(Capability::Region(self.clone()));
    }
    fn take(reader: &mut Reader<'_>) -> Option<Region> {
        match reader.capability.take()? {
            Capability::Region(region) => Some(region),
            _ => None,
        }
    }
}

/// The right to call the endpoint goes along with the message as a capability.
impl Wire for Endpoint {
    const WORDS: usize = 0;
    const CAPABILITIES: usize = 1;
    fn put(&self, message: &mut Message) {
        message.capability = Some(Capability::Endpoint(self.clone()));
    }
    fn take(reader: &mut Reader<'_>) -> Option<Endpoint> {
        match reader.capability.take()? {
            Capability::Endpoint(endpoint) => Some(endpoint),
            _ => None,
        }
    }
}

/// The right to lend goes along with the message as a capability.
impl Wire for DmaWindow {
    const WORDS: usize = 0;
    const CAPABILITIES: usize = 1;
    fn put(&self, message: &mut Message) {
        message.capability = Some(Capability::lender(self.clone()));
    }
    fn take(reader: &mut Reader<'_>) -> Option<DmaWindow> {
        reader.capability.take()?.into_lender()
    }
}

/// At most `N` bytes, encoded as their number and then eight bytes a word.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Bytes<const N: usize> {
    length: usize,
    /// The bytes; zeroes from `length` on.
    bytes: [u8; N],
}

impl<const N: usize> Bytes<N> {
    /// Returns `bytes` as a value, or `None` if they are too many.
    pub fn new(bytes: &[u8]) -> Option<Bytes<N>> {
        let mut room = [0; N];
        room.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(Bytes { length: bytes.len(), bytes: room })
    }
    /// Returns the bytes.
    pub fn as_slice(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }
}

impl<const N: usize> core::fmt::Debug for Bytes<N> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "\"{}\"", self.as_slice().escape_ascii())
    }
}

impl<const N: usize> Wire for Bytes<N> {
    const WORDS: usize = 1 + N.div_ceil(8);
    #[inline]
    fn put(&self, message: &mut Message) {
        push(message, self.length as u64);
        for chunk in self.bytes.chunks(8) {
            let mut word = [0; 8];
            word.iter_mut().zip(chunk).for_each(|(to, from)| *to = *from);
            push(message, u64::from_le_bytes(word));
        }
    }
    #[inline]
    fn take(reader: &mut Reader<'_>) -> Option<Bytes<N>> {
        let length = usize::take(reader)?;
        let mut bytes = [0; N];
        for chunk in bytes.chunks_mut(8) {
            let word = reader.word()?.to_le_bytes();
            chunk.iter_mut().zip(word).for_each(|(to, from)| *to = from);
        }
        bytes.get_mut(length..)?.fill(0);
        Some(Bytes { length, bytes })
    }
}

/// At most `N` bytes of UTF-8.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Text<const N: usize>(Bytes<N>);

/// The name of an instance.
pub type Name = Text<40>;

impl<const N: usize> Text<N> {
    /// Takes as much of `text` as fits.
    pub fn cut(text: &str) -> Text<N> {
        let fits = (0..=N.min(text.len())).rev().find_map(|length| text.get(..length));
        let empty = Bytes { length: 0, bytes: [0; N] };
        Text(Bytes::new(fits.unwrap_or_default().as_bytes()).unwrap_or(empty))
    }
    /// Returns the text.
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(self.0.as_slice()).unwrap_or_default()
    }
}

impl<const N: usize> core::fmt::Debug for Text<N> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.as_str().fmt(f)
    }
}

impl<const N: usize> Wire for Text<N> {
    const WORDS: usize = Bytes::<N>::WORDS;
    #[inline]
    fn put(&self, message: &mut Message) {
        self.0.put(message);
    }
    #[inline]
    fn take(reader: &mut Reader<'_>) -> Option<Text<N>> {
        let bytes = Bytes::take(reader)?;
        core::str::from_utf8(bytes.as_slice()).is_ok().then_some(Text(bytes))
    }
}

/// A value in a message, as the book documents it.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Name of the argument; empty for a result.
    pub name: &'static str,
    /// Its type.
    pub kind: &'static str,
    /// Number of words.
    pub words: usize,
    /// Number of capabilities that go along.
    pub capabilities: usize,
}

impl Field {
    /// Describes a value of type `T`.
    pub const fn of<T: Wire>(name: &'static str, kind: &'static str) -> Field {
        Field { name, kind, words: T::WORDS, capabilities: T::CAPABILITIES }
    }
}

/// A method that is a message, as the book documents it.
#[derive(Clone, Copy, Debug)]
pub struct Method {
    /// Name of the method.
    pub name: &'static str,
    /// The low half of its label.
    pub number: u16,
    /// A summary of its effect.
    pub summary: &'static str,
    /// The client issues the call again if the server died.
    pub is_idempotent: bool,
    /// The arguments, which follow the instance.
    pub arguments: &'static [Field],
    /// The contents of the answer.
    pub result: Field,
}

/// The messages of an interface, as the book documents them.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Name of the interface.
    pub name: &'static str,
    /// The high half of its labels.
    pub number: u16,
    /// A summary of the interface.
    pub summary: &'static str,
    /// Methods that are messages.
    pub methods: &'static [Method],
}

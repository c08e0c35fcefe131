//! The congestion control: windows of bytes, and how they grow and shrink.

/// A congestion control, by its name in `TCP_CONGESTION`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Algorithm {
    /// CUBIC (RFC 9438) with HyStart++ (RFC 9406).
    #[default]
    Cubic,
    /// Reno (RFC 5681).
    Reno,
}

impl Algorithm {
    /// Every algorithm, as `tcp_available_congestion_control` lists them.
    pub const ALL: [Self; 2] = [Self::Reno, Self::Cubic];

    /// Returns the algorithm of a name, or nothing.
    pub fn from_name(name: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name().as_bytes() == name)
    }

    /// The name of the algorithm.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cubic => "cubic",
            Self::Reno => "reno",
        }
    }
}

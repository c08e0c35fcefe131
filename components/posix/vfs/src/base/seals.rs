//! Seals: what may not be done to a file in memory any more (memfd_create(2), `F_ADD_SEALS` of fcntl(2)).
use bitflags::bitflags;

bitflags! {
    /// The seals of fcntl(2), with its values.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Seals: u8 {
        /// F_SEAL_SEAL: no further seals.
        const SEAL = 0x01;
        /// F_SEAL_SHRINK: it cannot become shorter.
        const SHRINK = 0x02;
        /// F_SEAL_GROW: it cannot become longer.
        const GROW = 0x04;
        /// F_SEAL_WRITE: its contents cannot change.
        const WRITE = 0x08;
        /// F_SEAL_FUTURE_WRITE: its contents can change through mappings there are, and not otherwise.
        const FUTURE_WRITE = 0x10;
        /// F_SEAL_EXEC: the execute bits of its mode stay.
        const EXECUTE = 0x20;
    }
}

impl Seals {
    /// Nobody new may write.
    pub(crate) const NO_WRITER: Seals = Seals::WRITE.union(Seals::FUTURE_WRITE);
    /// Seals that may forbid a write.
    pub(crate) const OF_WRITES: Seals = Seals::NO_WRITER.union(Seals::GROW);
    /// The seals of a program that nobody can make writable any more.
    pub(crate) const OF_PROGRAMS: Seals = Seals::NO_WRITER.union(Seals::GROW).union(Seals::SHRINK);
}

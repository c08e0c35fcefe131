//! Seals: operations that are permanently forbidden on a file in memory (memfd_create(2), `F_ADD_SEALS` of fcntl(2)).
use bitflags::bitflags;

bitflags! {
    /// The seals of fcntl(2), with its values.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Seals: u8 {
        /// F_SEAL_SEAL: no further seals can be added.
        const SEAL = 0x01;
        /// F_SEAL_SHRINK: the file cannot become shorter.
        const SHRINK = 0x02;
        /// F_SEAL_GROW: the file cannot become longer.
        const GROW = 0x04;
        /// F_SEAL_WRITE: the file's contents cannot change.
        const WRITE = 0x08;
        /// F_SEAL_FUTURE_WRITE: the file's contents can change through existing mappings only.
        const FUTURE_WRITE = 0x10;
        /// F_SEAL_EXEC: the execute bits of the file's mode cannot change.
        const EXECUTE = 0x20;
    }
}

impl Seals {
    /// The seals each of which forbids new writers.
    pub(crate) const NO_WRITER: Seals = Seals::WRITE.union(Seals::FUTURE_WRITE);
    /// Seals that may forbid a write.
    pub(crate) const OF_WRITES: Seals = Seals::NO_WRITER.union(Seals::GROW);
    /// The seals of a program that can never be made writable again.
    pub(crate) const OF_PROGRAMS: Seals = Seals::NO_WRITER.union(Seals::GROW).union(Seals::SHRINK);
}

//! The floor of results: the rows of a comparison, their bars and known causes, and the runs that the repository records.
pub mod bars;
pub mod causes;
pub mod chapters;
pub mod comparison;
pub mod history;

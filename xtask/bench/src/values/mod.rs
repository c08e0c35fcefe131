//! The lowest floor: units, figures as text, and lines fitted through points. It knows nothing of guests.
pub mod fit;
pub mod information;
pub mod text;
pub mod unit;

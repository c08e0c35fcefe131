//! The floor of drawings: shapes and labels, axes, bar charts.
pub mod axis;
pub mod chart;
pub mod dots;
pub mod drawing;

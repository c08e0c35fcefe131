//! The floor of reports: a comparison on the terminal, as a page of the documentation and as an HTML page.
pub mod curves;
pub mod html;
pub mod isolated;
pub mod kept;
pub mod page;
pub mod papers;
pub mod received;
pub mod rows;
pub mod runs;
pub mod table;
pub mod terminal;

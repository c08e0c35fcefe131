//! Tables of text, which the terminal and both pages show.

/// A table of text.
#[derive(Debug)]
pub struct Table {
    /// Its subject, and its paper if it is a paper's.
    pub title: String,
    /// Names of the columns.
    pub head: Vec<String>,
    /// The cells of each row.
    pub rows: Vec<Vec<String>>,
}

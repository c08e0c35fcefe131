//! Formats a comparison as one self-contained HTML page, light and dark.
use super::{
    curves,
    page::{cells, head, is_lost},
    papers, rows, runs,
};
use crate::{
    draw::drawing::{PATTERN, STYLE, escaped},
    results::{
        chapters::{chapters, title},
        comparison::{Results, Row},
        history::Run,
    },
};
use std::fmt::Write;

const LAYOUT: &str = "\
body{font:14px Helvetica,Arial,'Liberation Sans',sans-serif;max-width:76em;margin:2em auto;padding:0 1em;background:var(--page);color:var(--ink)}
a{color:var(--main)}td,th{padding:.15em .8em;text-align:right;vertical-align:bottom}td:first-child,th:first-child{text-align:left}
table{border-collapse:collapse}tr:nth-child(even){background:var(--even)}.wide{overflow-x:auto}nav ul{columns:2;padding-left:1.2em}
.bad{color:var(--bad)}";

/// A part of the page under a heading of its own.
struct Section {
    title: String,
    /// Text that follows the part's line in the table of contents.
    note: String,
    body: String,
}

/// Formats the page, with the figures of earlier `runs`.
pub fn page(results: &Results, runs: &[Run]) -> String {
    let (machine, against) = (escaped(&results.machine), escaped(&results.against));
    let title = format!("Skerry beside {against}");
    let mut text = format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\n\
         <meta name=\"color-scheme\" content=\"light dark\"><title>{title}</title>\n<style>{STYLE}{LAYOUT}</style>\n\
         <svg width=\"0\" height=\"0\" style=\"position:absolute\">{PATTERN}</svg>\n<h1>{title}</h1><p>{machine}</p>\n\
         <p>Signs are costs on a logarithmic axis, of time, of instructions or of memory. Bars are ratios to {against}: \
         shorter is better, the thin line is 1, the thick one what the row is to be at most, and ! marks a row above it.</p>\n"
    );
    let sections = sections(results, runs);
    text += "<nav><h2>Contents</h2><ul>\n";
    for Section { title, note, .. } in &sections {
        let (link, title) = (anchor(title), escaped(title));
        let _ = writeln!(text, "<li><a href=\"#{link}\">{title}</a>{note}</li>");
    }
    text += "</ul></nav>\n";
    for Section { title, body, .. } in &sections {
        let (link, title) = (anchor(title), escaped(title));
        let _ = writeln!(text, "<h2 id=\"{link}\">{title}</h2>\n{body}");
    }
    text + "</html>\n"
}

fn sections(results: &Results, runs: &[Run]) -> Vec<Section> {
    let mut sections: Vec<Section> =
        chapters(results).iter().filter_map(|rows| chapter(results, rows, runs)).collect();
    let curves = curves::html(results);
    if !curves.is_empty() {
        let title = "Mach/4.3BSD: several tasks".to_owned();
        sections.push(Section { title, note: String::new(), body: curves });
    }
    for paper in papers::tables(results) {
        let mut body = String::from("<div class=\"wide\"><table>\n");
        table_row(&mut body, "th", &paper.head);
        paper.rows.iter().for_each(|cells| table_row(&mut body, "td", cells));
        body += "</table></div>\n";
        sections.push(Section { title: paper.title, note: String::new(), body });
    }
    if !runs.is_empty() {
        let note = format!(" ({})", runs.len());
        let body = format!("<div class=\"wide\">{}</div>", runs::table(runs, results));
        sections.push(Section { title: "Recorded runs".to_owned(), note, body });
    }
    sections
}

fn chapter(results: &Results, rows: &[&Row], runs: &[Run]) -> Option<Section> {
    let title = title(rows.first()?);
    let above = rows.iter().filter(|row| is_lost(results, row)).count();
    let mut note = format!(" ({} rows", rows.len());
    if above > 0 {
        let _ = write!(note, ", <span class=\"bad\">{above} above</span>");
    }
    note.push(')');
    let drawing = rows::draw(results, rows, runs);
    let body = format!("<div class=\"wide\">{}</div>\n{}", drawing.svg(), figures(results, rows));
    Some(Section { title, note, body })
}

fn figures(results: &Results, rows: &[&Row]) -> String {
    let mut text = String::from("<details><summary>figures</summary><div class=\"wide\"><table>\n");
    table_row(&mut text, "th", &head(results));
    rows.iter().for_each(|row| table_row(&mut text, "td", &cells(results, row)));
    text + "</table></div></details>\n"
}

fn table_row(text: &mut String, element: &str, cells: &[String]) {
    *text += "<tr>";
    for cell in cells {
        let _ = write!(text, "<{element}>{}</{element}>", escaped(cell));
    }
    *text += "</tr>\n";
}

/// Returns the name by which a title is linked.
fn anchor(title: &str) -> String {
    let words = title.split(|char: char| !char.is_ascii_alphanumeric());
    let words: Vec<String> =
        words.filter(|word| !word.is_empty()).map(str::to_ascii_lowercase).collect();
    words.join("-")
}

#[cfg(test)]
#[path = "html_tests.rs"]
mod tests;

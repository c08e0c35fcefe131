//! Reads the tables of `/proc/skerry`, and formats a table.
use std::fmt::Write;

/// A line of `/proc/skerry/components`, by field; the last field has the rest of the line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row(Vec<(String, String)>);

/// Columns of `skerryctl list`.
const SHOWN: [&str; 8] =
    ["component", "world", "state", "restarts", "outage_us", "kib", "refused", "last_end"];
/// Fields whose change is an event to report.
const TOLD: [&str; 3] = ["state", "restarts", "last_end"];

/// Returns the rows below the header.
pub fn rows(text: &str) -> Vec<Row> {
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().unwrap_or_default().split_whitespace().collect();
    let row = |line: &str| {
        let mut rest = line;
        let mut fields = Vec::new();
        for (index, name) in names.iter().enumerate() {
            rest = rest.trim_start();
            let end = rest.find(' ').filter(|_| index + 1 < names.len()).unwrap_or(rest.len());
            fields.push(((*name).to_owned(), rest[..end].trim_end().to_owned()));
            rest = &rest[end..];
        }
        Row(fields)
    };
    lines.filter(|line| !line.trim().is_empty()).map(row).collect()
}

impl Row {
    /// Returns the value of a field; `-` if there is none.
    pub fn get(&self, field: &str) -> &str {
        let found = self.0.iter().find(|(name, _)| name == field);
        found.map_or("-", |(_, value)| value)
    }
    /// Returns the component's name.
    pub fn name(&self) -> &str {
        self.get("component")
    }
    /// Iterates over all fields and their values.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
    /// Returns the summary of the row that `follow` prints.
    pub fn summary(&self) -> String {
        format!(
            "{:<16}{:<10}{:>6} restarts  {}",
            self.name(),
            self.get("state"),
            self.get("restarts"),
            self.get("last_end")
        )
    }
}

/// Formats the table of `skerryctl list`: each column as wide as its widest value, numbers aligned
/// to the right.
pub fn list(rows: &[Row]) -> String {
    let mut text = String::new();
    let width = |field: &str| {
        let values = rows.iter().map(|row| row.get(field).len());
        values.max().unwrap_or(0).max(field.len())
    };
    let is_number = |field: &str| {
        rows.iter()
            .all(|row| row.get(field).bytes().all(|byte| byte.is_ascii_digit() || byte == b'-'))
    };
    let columns = SHOWN.map(|field| (field, width(field), is_number(field)));
    let mut line = |value: &dyn Fn(&str) -> String| {
        let mut shown = String::new();
        for (field, width, is_number) in &columns {
            let value = value(field);
            let _ = match is_number {
                true => write!(shown, "{value:>width$}  "),
                false => write!(shown, "{value:<width$}  "),
            };
        }
        text.push_str(shown.trim_end());
        text.push('\n');
    };
    line(&str::to_owned);
    rows.iter().for_each(|row| line(&|field| row.get(field).to_owned()));
    text
}

/// Returns the rows of `after` that differ from `before` in a reported field.
pub fn changed<'a>(before: &'a [Row], after: &'a [Row]) -> impl Iterator<Item = &'a Row> {
    after.iter().filter(|row| {
        let old = before.iter().find(|old| old.name() == row.name());
        old.is_none_or(|old| TOLD.iter().any(|field| old.get(field) != row.get(field)))
    })
}

/// Returns the lines about the component `name` in `/proc/skerry/isolated`.
pub fn block<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut blocks = text.split("\n\n");
    blocks.find(|block| {
        let first = block.lines().next().unwrap_or_default();
        first.split_whitespace().eq(["component", name])
    })
}

/// Returns the reasons for which the network stack dropped packets, with their numbers, from `/proc/skerry/net`: the lines of its
/// second part.
pub fn drops(report: &str) -> impl Iterator<Item = (&str, &str)> {
    let (_, part) = report.split_once("\n\n").unwrap_or_default();
    part.lines()
        .skip(1)
        .filter_map(|line| line.split_once(' '))
        .map(|(reason, count)| (reason, count.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
component  world    state       restarts  outage_us  kib  refused  last_end
posix      kernel   running            -          -    -        -  -
rtc        process  running           12        812  160        0  page fault: Read of 0x10
";

    #[test]
    fn the_last_field_has_the_rest_of_the_line() {
        let rows = rows(TABLE);
        assert_eq!(rows[1].get("last_end"), "page fault: Read of 0x10");
        assert_eq!((rows[1].name(), rows[1].get("restarts")), ("rtc", "12"));
        assert_eq!(rows[0].get("nothing"), "-");
    }

    #[test]
    fn a_table_is_as_wide_as_its_values() {
        assert_eq!(
            list(&rows(TABLE)),
            "\
component  world    state    restarts  outage_us  kib  refused  last_end
posix      kernel   running         -          -    -        -  -
rtc        process  running        12        812  160        0  page fault: Read of 0x10
"
        );
    }

    #[test]
    fn only_what_happened_is_told() {
        let before = rows(TABLE);
        let busier = rows(&TABLE.replace("160", "164"));
        assert_eq!(changed(&before, &busier).count(), 0);
        let after = rows(&TABLE.replace(" 12 ", " 13 "));
        assert_eq!(changed(&before, &after).map(Row::name).collect::<Vec<_>>(), ["rtc"]);
        assert_eq!(changed(&[], &after).count(), 2);
    }

    #[test]
    fn a_block_is_found_by_its_name() {
        let text = "component     rtc\nstate         running\n\ncomponent     uart\nstate         stopped\n";
        assert_eq!(block(text, "uart"), Some("component     uart\nstate         stopped\n"));
        assert_eq!(block(text, "rt"), None);
    }

    #[test]
    fn drops_of_the_stack_are_the_second_part() {
        let text = "     state\ntcp  listen 1\n\ndropped packets\nmalformed           7\nchecksum            0\n";
        assert_eq!(drops(text).collect::<Vec<_>>(), [("malformed", "7"), ("checksum", "0")]);
        assert_eq!(drops("").count(), 0);
    }
}

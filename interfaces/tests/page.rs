//! A test that docs/interfaces.md shows the present messages. The part behind its mark is generated from the
//! layouts.
use interfaces::{
    audit_log::AUDIT_LOG_LAYOUT,
    block::BLOCK_CONTROL_LAYOUT,
    clock::CLOCK_LAYOUT,
    entropy::ENTROPY_LAYOUT,
    introduction::{COMPLAINTS_LAYOUT, INTRODUCTION_LAYOUT},
    nic::NIC_CONTROL_LAYOUT,
    service::SERVICE_LAYOUT,
    sockets::remote::{MAIL_CONTROL_LAYOUT, STACK_CONTROL_LAYOUT},
    supervisor::SUPERVISOR_CONTROL_LAYOUT,
    terminal::PORT_CONTROL_LAYOUT,
    wire::{Field, Layout, Method},
};
use std::{fmt::Write, fs, path::PathBuf};

const MARK: &str = "<!-- generated: UPDATE=1 cargo test -p interfaces --test page -->\n";
const LAYOUTS: [Layout; 12] = [
    SERVICE_LAYOUT,
    CLOCK_LAYOUT,
    BLOCK_CONTROL_LAYOUT,
    PORT_CONTROL_LAYOUT,
    ENTROPY_LAYOUT,
    NIC_CONTROL_LAYOUT,
    MAIL_CONTROL_LAYOUT,
    STACK_CONTROL_LAYOUT,
    AUDIT_LOG_LAYOUT,
    INTRODUCTION_LAYOUT,
    COMPLAINTS_LAYOUT,
    SUPERVISOR_CONTROL_LAYOUT,
];

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/interfaces.md")
}

/// Formats a field as its type and the words it takes, from word `first` on.
fn field(field: &Field, first: usize) -> String {
    let name = if field.name.is_empty() { "" } else { " " };
    let place = match field.words {
        0 if field.capabilities > 0 => "goes along".to_string(),
        0 => return "-".to_string(),
        1 => format!("word {first}"),
        words => format!("words {first} to {}", first + words - 1),
    };
    format!("{}{name}`{}`: {place}", field.name, field.kind.replace(' ', ""))
}

fn row(interface: u16, method: &Method) -> String {
    let mut first = 1;
    let arguments: Vec<String> = method
        .arguments
        .iter()
        .map(|argument| {
            let text = field(argument, first);
            first += argument.words;
            text
        })
        .collect();
    let arguments = if arguments.is_empty() { "-".to_string() } else { arguments.join("; ") };
    let label = u64::from(interface) << 16 | u64::from(method.number);
    let again = if method.is_idempotent { "again" } else { "lost" };
    let (name, summary, result) = (method.name, method.summary, field(&method.result, 0));
    format!("| `{label:#x}` | `{name}` | {arguments} | {result} | {again} | {summary} |\n")
}

fn generated() -> String {
    let mut page = String::new();
    for layout in LAYOUTS {
        let Layout { name, number, summary, methods } = layout;
        let _ = write!(
            page,
            "\n## {name} (interface {number})\n\n{summary}\n\n\
             | label | method | arguments | result | server dies | |\n| --- | --- | --- | --- | --- | --- |\n"
        );
        methods.iter().for_each(|method| page.push_str(&row(number, method)));
    }
    page
}

#[test]
fn the_page_is_up_to_date() {
    let written = fs::read_to_string(path()).unwrap();
    let (prose, old) = written.split_once(MARK).expect("the page has its mark");
    let new = generated();
    if std::env::var_os("UPDATE").is_some() {
        fs::write(path(), format!("{prose}{MARK}{new}")).unwrap();
    } else {
        assert_eq!(old, new, "run UPDATE=1 cargo test -p interfaces --test page");
    }
}

#[test]
fn numbers_are_used_once() {
    let mut numbers: Vec<u16> = LAYOUTS.iter().map(|layout| layout.number).collect();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), LAYOUTS.len());
}

//! Wrong system descriptions are refused: one denial a field.
#[path = "../system/mod.rs"]
mod system;

/// The smallest system there is.
const SMALL: &str = r#"
memory_mib = 64
[[component]]
name = "posix"
world = "kernel"
uses = ["block", "file_system", "terminal", "clock"]
priority = "fair"

[[component]]
name = "tmpfs"
world = "kernel"
implements = ["file_system"]
priority = "fair"

[[component]]
name = "virtio-blk"
world = "kernel"
implements = ["block"]
devices = ["virtio:block"]
memory = ["dma"]
priority = "fair"

[[component]]
name = "uart"
world = "kernel"
implements = ["terminal"]
ports = ["0x3f8+8"]
interrupts = [4]
priority = "fair"

[[component]]
name = "rtc"
world = "kernel"
implements = ["clock"]
ports = ["0x70+2"]
priority = "fair"
[component.process]
parameters = "rtc.wait_ms=5"
calls = ["threads", "memory", "time", "log", "serve", "ports", "Entropy"]
memory_kib = 512
threads = 2
vectors = 3
log_lines = 4
log_burst = 5
share_percent = 10
ping_ms = 1000
ping_deadline_ms = 2000
restart = "on-failure"
restarts = 10
window_ms = 10000
pause_ms = 10
pause_max_ms = 1000
"#;

/// The place of the `name` of component `rtc`.
const RTC: &str = "name = \"rtc\"\nworld = \"kernel\"";

/// Refused, for a reason that holds `why`, once `good` reads `wrong`.
#[track_caller]
fn refused(good: &str, wrong: &str, why: &str) {
    assert!(SMALL.contains(good), "`{good}` is not there to be changed");
    match system::parse(&SMALL.replacen(good, wrong, 1)) {
        Ok(_) => panic!("`{wrong}` was taken"),
        Err(said) => assert!(said.contains(why), "`{wrong}`: {said}"),
    }
}

#[test]
fn the_small_system_is_taken_and_tabled() {
    let table = system::table("small", &system::parse(SMALL).expect("a right description"));
    assert!(table.contains(r#"devices: &[], ports: &[(1016, 8)], interrupts: &[4]"#));
    assert!(table.contains("const PLANS: &[::supervisor::Plan] = &[\n]"), "nobody is isolated");
}

#[test]
fn another_world_is_one_line() {
    let isolated = SMALL.replacen(RTC, "name = \"rtc\"\nworld = \"process\"", 1);
    let table = system::table("small", &system::parse(&isolated).expect("a right description"));
    let (_, plan) = table.split_once("const PLANS").expect("plans");
    for part in [
        "name: \"rtc\", parameters: \"rtc.wait_ms=5\"",
        "ports: &[(112, 2)], interrupts: &[], can_use_dma: false, memory_bytes: 524288, kept_bytes: 0",
        "vectors: 3, log_lines: (4, 5), threads: 2",
        "policy: ::rt::thread::Policy::Fair { nice: 0 }, share_percent: 10",
        "ping_ns: 1000000000, ping_deadline_ns: 2000000000",
        "restarts_max: 10, window_ns: 10000000000, pause_ns: 10000000, pause_ns_max: 1000000000",
    ] {
        assert!(plan.contains(part), "{plan}");
    }
}

#[test]
fn components_come_in_the_order_of_starting() {
    let table = system::table("small", &system::parse(SMALL).expect("a right description"));
    let place = |name: &str| table.find(&format!("name: {name:?}")).expect("a component");
    for driver in ["virtio-blk", "uart", "rtc", "tmpfs"] {
        assert!(place(driver) < place("posix"));
    }
}

#[test]
fn every_description_of_the_repository_is_taken() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../systems");
    for entry in std::fs::read_dir(folder).expect("the systems") {
        let path = entry.expect("a name").path();
        let text = std::fs::read_to_string(&path).expect("a text");
        let said = system::parse(&text).err();
        assert_eq!(said, None, "{}", path.display());
    }
}

#[test]
fn a_field_nobody_knows_is_refused() {
    refused("priority = ", "colour = \"red\"\npriority = ", "unknown field `colour`");
    refused("threads = 2", "threads = 2\ncolour = \"red\"", "unknown field `colour`");
}

#[test]
fn a_field_left_out_is_refused() {
    refused("priority = \"fair\"\n", "", "missing field `priority`");
}

#[test]
fn an_unknown_name_is_refused() {
    refused("name = \"tmpfs\"", "name = \"zfs\"", "not known");
}

#[test]
fn a_place_of_system_calls_that_is_none_is_refused() {
    let at = "memory_mib = 64\n";
    let master = SMALL.replacen(at, "memory_mib = 64\nsystem_calls = \"master\"\n", 1);
    let table = system::table("small", &system::parse(&master).expect("a right description"));
    assert!(table.contains("SystemCalls::Master;"), "{table}");
    refused(at, "memory_mib = 64\nsystem_calls = \"slave\"\n", "known are anywhere and master");
}

#[test]
fn a_name_twice_is_refused() {
    refused("name = \"rtc\"", "name = \"uart\"", "twice");
}

#[test]
fn a_system_without_a_personality_is_refused() {
    let rest = SMALL.replacen("name = \"posix\"", "name = \"ext4\"", 1);
    let rest = rest.replacen(
        "uses = [\"block\", \"file_system\", \"terminal\", \"clock\"]",
        "uses = [\"block\"]",
        1,
    );
    let said = system::parse(&rest).expect_err("nothing to start");
    assert!(said.contains("no component `posix`"), "{said}");
}

#[test]
fn what_is_wrong_is_said_with_its_line() {
    let line = SMALL.lines().position(|line| line.contains("0x70+2")).expect("a line") + 1;
    refused("0x70+2", "0x70", &format!("line {line}: component `rtc`: ports `0x70`"));
}

#[test]
fn a_world_that_is_none_is_refused() {
    refused("world = \"kernel\"", "world = \"user\"", "world `user` does not exist");
}

#[test]
fn a_component_that_cannot_be_isolated_stays_in_the_kernel() {
    refused("world = \"kernel\"", "world = \"process\"", "cannot be isolated");
}

#[test]
fn an_isolated_component_must_say_what_it_may_do() {
    let isolated = SMALL.replacen(RTC, "name = \"rtc\"\nworld = \"process\"", 1);
    let (bare, _) = isolated.split_once("[component.process]").expect("a table");
    let said = system::parse(bare).expect_err("nothing said");
    assert!(said.contains("needs a table `[component.process]`"), "{said}");
    for field in [
        "calls",
        "memory_kib",
        "threads",
        "share_percent",
        "ping_ms",
        "ping_deadline_ms",
        "restart",
    ] {
        refused(&format!("\n{field} = "), &format!("\n# {field} = "), "missing field");
    }
}

#[test]
fn a_kernel_call_that_is_none_is_refused() {
    refused("\"Entropy\"", "\"Reboot\"", "kernel call `Reboot` is not known");
}

#[test]
fn a_grant_that_the_calls_do_not_reach_is_refused() {
    refused("\"serve\", \"ports\"", "\"serve\"", "add \"ports\" to `calls`");
    refused("\"serve\", ", "", "cannot run without the kernel call ReplyAndReceive");
    refused("ports = [\"0x70+2\"]", "interrupts = [8]", "add \"interrupts\" to `calls`");
    refused("ports = [\"0x70+2\"]", "memory = [\"dma\"]", "add \"dma\" to `calls`");
    refused("ports = [\"0x70+2\"]", "devices = [\"virtio:console\"]", "add \"devices\"");
}

#[test]
fn more_memory_than_the_machine_can_promise_is_refused() {
    let isolated = SMALL.replacen(RTC, "name = \"rtc\"\nworld = \"process\"", 1);
    let greedy = isolated.replacen("memory_kib = 512", "memory_kib = 16385", 1);
    let said = system::parse(&greedy).expect_err("too much memory");
    assert!(said.contains("line 2: isolated components may have 16385 KiB"), "{said}");
}

#[test]
fn a_grant_for_each_device_needs_devices() {
    for field in ["device_threads", "device_memory_kib"] {
        refused("threads = 2", &format!("threads = 2\n{field} = 1"), "but no `devices`");
    }
}

#[test]
fn numbers_that_make_no_sense_are_refused() {
    refused("threads = 2", "threads = 0", "`threads` must not be 0");
    refused("threads = 2", "threads = -1", "invalid value");
    refused("window_ms = 10000", "window_ms = 86400001", "`window_ms` is more than a day");
}

#[test]
fn a_share_that_is_none_is_refused() {
    let line = SMALL.lines().position(|line| line.contains("share_percent")).expect("a line") + 1;
    for wrong in [0, 101] {
        let why = format!("line {line}: component `rtc`: `share_percent` {wrong} is none: give it");
        refused("share_percent = 10", &format!("share_percent = {wrong}"), &why);
    }
    refused("share_percent = 10", "share_percent = 256", "invalid value");
}

#[test]
fn what_two_would_own_is_refused() {
    refused("0x70+2", "0x3ff+1", "ports `0x3ff+1` overlap: some are uart's already");
    refused("[\"0x70+2\"]", "[\"0x70+2\", \"0x71+1\"]", "overlap: some are rtc's already");
    refused(
        "implements = [\"file_system\"]",
        "implements = [\"file_system\"]\ninterrupts = [4]",
        "component `uart`: interrupt 4 is tmpfs's already",
    );
}

#[test]
fn an_interface_it_does_not_have_is_refused() {
    refused(
        "implements = [\"clock\"]",
        "implements = [\"clock\", \"block\"]",
        "does not implement `block`",
    );
}

#[test]
fn an_interface_nobody_implements_is_refused() {
    refused("implements = [\"clock\"]", "implements = []", "uses `clock`, which nobody implements");
}

#[test]
fn a_use_it_cannot_do_without_must_be_granted() {
    refused("\"terminal\", \"clock\"]", "\"terminal\"]", "cannot run without `uses = [\"clock\"]`");
}

#[test]
fn a_use_beyond_its_own_is_refused_and_so_are_circles() {
    refused("devices = ", "uses = [\"file_system\"]\ndevices = ", "has no use for `file_system`");
}

#[test]
fn an_unknown_device_is_refused() {
    refused("virtio:block", "virtio:gpu", "device `virtio:gpu` is not known");
}

#[test]
fn ports_that_are_none_are_refused() {
    for wrong in ["0x3f8", "3f8+8", "0x3f8+0", "0xfff8+9", "0x13f8f+1", "0x3f8+-8", "all"] {
        refused("0x3f8+8", wrong, "are not FIRST+COUNT");
    }
}

#[test]
fn an_interrupt_that_cannot_be_is_refused() {
    refused("interrupts = [4]", "interrupts = [256]", "interrupt 256 does not exist");
    refused("interrupts = [4]", "interrupts = [-1]", "invalid value");
}

#[test]
fn memory_of_another_kind_is_refused() {
    refused("memory = [\"dma\"]", "memory = [\"all\"]", "memory `all` is not known");
}

#[test]
fn a_priority_that_is_none_is_refused() {
    for wrong in ["fifo:0", "fifo:100", "fifo", "high", "fair:20", "fair:", "rr:3"] {
        refused("priority = \"fair\"", &format!("priority = \"{wrong}\""), "is not known");
    }
}

#[test]
fn a_restart_of_another_kind_is_refused() {
    refused("\"on-failure\"", "\"always\"", "restart `always` is not known");
}

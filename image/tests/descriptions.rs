//! Wrong system descriptions are refused: one denial a field.
#[path = "../system.rs"]
mod system;

/// The smallest system there is.
const SMALL: &str = r#"
[[component]]
name = "posix"
world = "kernel"
uses = ["block", "file_system", "terminal", "clock"]
priority = "fair"
restart = "never"

[[component]]
name = "tmpfs"
world = "kernel"
implements = ["file_system"]
priority = "fair"
restart = "never"

[[component]]
name = "virtio-blk"
world = "kernel"
implements = ["block"]
devices = ["virtio:block"]
memory = ["dma"]
priority = "fair"
restart = "never"

[[component]]
name = "uart"
world = "kernel"
implements = ["terminal"]
ports = ["0x3f8+8"]
interrupts = [4]
priority = "fair"
restart = "never"

[[component]]
name = "rtc"
world = "kernel"
implements = ["clock"]
ports = ["0x70+2"]
priority = "fair"
restart = "never"
"#;

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
    assert!(table.contains("can_use_dma: true"));
}

#[test]
fn every_description_of_the_repository_is_taken() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../systems");
    for entry in std::fs::read_dir(folder).expect("the systems") {
        let path = entry.expect("a name").path();
        let text = std::fs::read_to_string(&path).expect("a text");
        assert!(system::parse(&text).is_ok(), "{}", path.display());
    }
}

#[test]
fn a_field_nobody_knows_is_refused() {
    refused("restart = ", "colour = \"red\"\nrestart = ", "unknown field `colour`");
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
fn a_world_without_a_back_end_is_refused() {
    refused("world = \"kernel\"", "world = \"process\"", "world `process` does not exist yet");
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
    for wrong in ["fifo:0", "fifo:100", "fifo", "high"] {
        refused("priority = \"fair\"", &format!("priority = \"{wrong}\""), "is not known");
    }
}

#[test]
fn a_restart_that_this_world_cannot_do_is_refused() {
    refused("restart = \"never\"", "restart = \"always\"", "needs a world of its own");
}

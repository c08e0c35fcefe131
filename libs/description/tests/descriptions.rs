//! Tests that wrong descriptions are refused, with one case for each field.
use description::{Member, Sources, System, World};
use std::path::Path;

/// The limits of a component in a process of its own.
const PROCESS: &str = r#"
[process]
calls = ["threads", "memory", "log", "serve", "call"]
memory_kib = 512
memory_percent = 70
threads = 2
share_percent = 10
ping_ms = 1000
ping_deadline_ms = 2000
restart = "never"
restarts = 0
window_ms = 10000
pause_ms = 10
pause_max_ms = 1000
"#;

const SYSTEM: &str = r#"
memory_mib = 64

[components]
posix = "kernel"
tmpfs = "kernel"
virtio-blk = "kernel"
uart = "kernel"
rtc = "kernel"
"#;

/// The components of the smallest possible system.
const COMPONENTS: [(&str, &str); 5] = [
    (
        "posix",
        r#"
worlds = ["kernel"]
entry = "personality"
uses = ["block", "file_system", "terminal", "clock"]
may_use = ["entropy"]
priority = "fair"
"#,
    ),
    (
        "tmpfs",
        r#"
worlds = ["kernel"]
implements = ["file_system"]
priority = "fair"
"#,
    ),
    (
        "virtio-blk",
        r#"
worlds = ["kernel"]
implements = ["block"]
devices = ["virtio:block"]
memory = ["dma"]
priority = "fair"
"#,
    ),
    (
        "uart",
        r#"
worlds = ["kernel"]
implements = ["terminal"]
ports = ["0x3f8+8"]
interrupts = [4]
priority = "fair"
"#,
    ),
    (
        "rtc",
        r#"
worlds = ["kernel", "process"]
implements = ["clock"]
ports = ["0x70+2"]
priority = "fair"

[process]
parameters = "rtc.wait_ms=5"
calls = ["threads", "memory", "log", "serve", "ports", "Entropy"]
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
"#,
    ),
];

/// Returns the small system with the text `good` replaced by `other` in the description of `name`, a component or `small`
/// itself.
#[track_caller]
fn changed(name: &str, good: &str, other: &str) -> Sources {
    let mut sources = Sources::default();
    let change = |this: &str, text: &str| match this == name {
        true => {
            assert!(text.contains(good), "`{good}` is not there to be changed");
            text.replacen(good, other, 1)
        }
        false => text.to_owned(),
    };
    sources.add_system(Path::new("systems/small.toml"), change("small", SYSTEM));
    for (component, text) in COMPONENTS {
        sources.add_component(&Path::new("components").join(component), change(component, text));
    }
    sources
}

/// Returns the small system with a second system beside it, `large`.
fn with_large(text: &str) -> Sources {
    let mut sources = changed("", "", "");
    sources.add_system(Path::new("systems/large.toml"), text.to_owned());
    sources
}

/// Checks that replacing `good` by `wrong` in the description of `name` is refused, for a reason that contains `why`.
#[track_caller]
fn refused(name: &str, good: &str, wrong: &str, why: &str) {
    match changed(name, good, wrong).system("small") {
        Ok(_) => panic!("`{wrong}` was taken"),
        Err(said) => assert!(said.contains(why), "`{wrong}`: {said}"),
    }
}

/// Returns the kernel's program of the small system.
fn kernel(sources: &Sources) -> String {
    sources.system("small").expect("a right description").kernel(Path::new("/archive"))
}

#[test]
fn the_small_system_is_taken_and_becomes_a_program() {
    let text = kernel(&changed("", "", ""));
    for part in [
        "name: \"small\",",
        "PersonalityPlace::Kernel(|them| launch::start(them, &COMPONENTS, launch::SystemCalls::Anywhere)),",
        "static COMPONENTS: [launch::Component; 5] = [",
        "name: \"virtio-blk\", world: \"kernel\", starter: launch::Starter::Plain(virtio_blk::start), implements: &[\"block\"]",
        "ports: &[(1016, 8), (112, 2)],\n    interrupts: &[4],\n    driven: &[2],",
        "name: \"posix\", world: \"kernel\", starter: launch::Starter::Personality",
        "plans: &[\n    ],\n    archive: include_bytes!(\"/archive\")",
        "image::run!(SYSTEM);",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn another_world_is_one_line() {
    let sources = changed("small", "rtc = \"kernel\"", "rtc = \"process\"");
    let text = kernel(&sources);
    for part in [
        "name: \"rtc\", world: \"process\", starter: launch::Starter::Isolated",
        "ports: &[(1016, 8)],",
        "Plan { name: \"rtc\", parameters: \"rtc.wait_ms=5\"",
        "partners: &[], may_power_down: false, devices: &[], ports: &[(112, 2)], interrupts: &[], can_use_dma: false, memory_bytes: 524288, memory_percent: 0, kept_bytes: 0",
        "vectors: 3, log_lines: (4, 5), threads: 2",
        "policy: image::Policy::Fair { nice: 0 }, share_percent: 10",
        "ping_ns: 1000000000, ping_deadline_ns: 2000000000",
        "restarts_max: 10, window_ns: 10000000000, pause_ns: 10000000, pause_ns_max: 1000000000",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let system = sources.system("small").expect("a right description");
    let isolated: Vec<&Member> = system.in_world(World::Process).collect();
    assert_eq!(isolated.len(), 1);
    assert!(
        system.program(isolated[0]).contains("interfaces::offer::serve(\"rtc\", rtc::start())")
    );
}

#[test]
fn a_component_with_a_main_function_is_a_program_by_itself() {
    let sources = changed(
        "rtc",
        "worlds = [\"kernel\", \"process\"]",
        "worlds = [\"process\"]\nentry = \"main\"",
    );
    let said = sources.system("small").expect_err("it lives in the kernel");
    assert!(said.contains("is isolated only"), "{said}");
    let mut sources = sources;
    let isolated = SYSTEM.replacen("rtc = \"kernel\"", "rtc = \"process\"", 1);
    sources.add_system(Path::new("systems/small.toml"), isolated);
    let system = sources.system("small").expect("a right description");
    let member = system.in_world(World::Process).next().expect("a component");
    assert!(system.program(member).contains("rt::component_main!(rtc::main);"));
}

#[test]
fn components_come_in_the_order_of_starting() {
    let text = kernel(&changed("", "", ""));
    let place = |name: &str| text.find(&format!("{{ name: {name:?}")).expect("a component");
    for driver in ["virtio-blk", "uart", "rtc", "tmpfs"] {
        assert!(place(driver) < place("posix"));
    }
}

#[test]
fn a_system_has_what_it_does_not_say_from_the_one_it_is_based_on() {
    let sources = with_large(
        "based_on = \"small\"\nmemory_mib = 128\nsystem_calls = \"master\"\n[components]\nrtc = \"process\"\nuart = \"kernel\"\n\
         [change.rtc.process]\nthreads = 7\nrestarts = 99\n",
    );
    let system = sources.system("large").expect("a right description");
    assert_eq!(system.memory_mib, 128);
    assert_eq!(system.members.len(), COMPONENTS.len());
    let text = system.kernel(Path::new("/archive"));
    for part in ["SystemCalls::Master", "threads: 7,", "restarts_max: 99,", "log_lines: (4, 5)"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let small = kernel(&sources);
    assert!(small.contains("Anywhere") && small.contains("Starter::Plain(rtc::start)"));
}

#[test]
fn a_component_is_taken_out_by_none() {
    let sources = with_large("based_on = \"small\"\n[components]\nrtc = \"none\"\n");
    let said = sources.system("large").expect_err("nobody implements the clock");
    assert!(said.contains("uses `clock`, which no component implements"), "{said}");
    let sources = with_large("based_on = \"small\"\n[components]\nvirtio-console = \"none\"\n");
    let said = sources.system("large").expect_err("there is none");
    assert!(said.contains("line 3: component `virtio-console`: it is not there"), "{said}");
}

#[test]
fn a_change_is_checked_like_the_component() {
    for (change, why) in [
        ("[change.rtc]\ncolour = \"red\"", "unknown field `colour`"),
        ("[change.rtc.process]\nthreads = 0", "`threads` must not be 0"),
        ("[change.rtc]\nports = [\"0x3f8+1\"]", "some are uart's already"),
        ("[change.zfs]\npriority = \"fair\"", "change of `zfs`: it is no component"),
    ] {
        let said = with_large(&format!("based_on = \"small\"\n{change}\n")).system("large");
        let said = said.err().unwrap_or_else(|| panic!("`{change}` was taken"));
        assert!(said.contains(why), "`{change}`: {said}");
    }
}

#[test]
fn a_base_that_cannot_be_is_refused() {
    let said = with_large("based_on = \"huge\"").system("large").expect_err("no base");
    assert!(said.contains("line 1: there is no system `huge`; there are large, small"), "{said}");
    let said = with_large("based_on = \"large\"").system("large").expect_err("a circle");
    assert!(said.contains("in a circle"), "{said}");
}

#[test]
fn every_system_of_the_repository_is_taken() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let sources = Sources::of_tree(&root).expect("the descriptions");
    let names: Vec<&str> = sources.systems().collect();
    assert!(["default", "monolith", "erring"].iter().all(|name| names.contains(name)));
    for name in names {
        assert_eq!(sources.system(name).err(), None, "{name}");
    }
}

#[test]
fn a_field_nobody_knows_is_refused() {
    refused("small", "memory_mib = ", "colour = \"red\"\nmemory_mib = ", "unknown field `colour`");
    refused("rtc", "priority = ", "colour = \"red\"\npriority = ", "unknown field `colour`");
    refused("rtc", "threads = 2", "threads = 2\ncolour = \"red\"", "unknown field `colour`");
}

#[test]
fn a_field_left_out_is_refused() {
    refused("tmpfs", "priority = \"fair\"\n", "", "missing field `priority`");
    refused("tmpfs", "worlds = [\"kernel\"]\n", "", "missing field `worlds`");
    refused("small", "memory_mib = 64\n", "", "`memory_mib` is missing");
}

#[test]
fn an_unknown_name_is_refused() {
    refused(
        "small",
        "tmpfs = ",
        "zfs = ",
        "line 6: component `zfs`: not known; known are posix, rtc",
    );
}

#[test]
fn a_place_of_system_calls_that_is_none_is_refused() {
    let at = "memory_mib = 64\n";
    let wrong = "memory_mib = 64\nsystem_calls = \"slave\"\n";
    refused("small", at, wrong, "line 3: system_calls `slave` is not known; known are anywhere");
}

#[test]
fn a_name_twice_is_refused() {
    refused("small", "rtc = ", "uart = ", "duplicate key `uart`");
}

#[test]
fn a_system_has_one_personality() {
    refused("posix", "entry = \"personality\"\n", "entry = \"start\"\n", "there is no personality");
    let two = "worlds = [\"kernel\"]\nentry = \"personality\"";
    refused("uart", "worlds = [\"kernel\"]", two, "there are two personalities");
}

#[test]
fn a_fault_is_reported_with_its_file_and_line() {
    let why = "components/rtc/component.toml: line 4: ports `0x70` are not";
    refused("rtc", "0x70+2", "0x70", why);
}

#[test]
fn a_world_that_is_none_is_refused() {
    refused("small", "uart = \"kernel\"", "uart = \"user\"", "world `user` does not exist");
    refused("uart", "[\"kernel\"]", "[\"user\"]", "world `user` is not known");
    refused("uart", "[\"kernel\"]", "[]", "`worlds` is empty");
}

/// The components of [`isolated`] and their worlds.
const WORLDS: [(&str, &str); 6] = [
    ("posix", "process"),
    ("tmpfs", "posix"),
    ("inet", "process"),
    ("virtio-blk", "process"),
    ("uart", "process"),
    ("rtc", "process"),
];

/// Returns a system whose personality is isolated, with the text `good` replaced by `other` in the description of `name`.
#[track_caller]
fn isolated(name: &str, good: &str, other: &str) -> Sources {
    let process = PROCESS.replacen("memory_percent = 70\n", "", 1);
    let driver = process.replacen("\"call\"", "\"ports\", \"interrupts\", \"devices\", \"dma\"", 1);
    let inet = "worlds = [\"process\"]\nentry = \"user\"\nimplements = [\"network\"]\nmay_use = [\"nic\"]\npriority = \"fair\"";
    let mut sources = Sources::default();
    let mut changed = name.is_empty();
    let mut change = |this: &str, text: String| match this == name {
        true => {
            assert!(text.contains(good), "`{good}` is not there to be changed");
            changed = true;
            text.replacen(good, other, 1)
        }
        false => text,
    };
    let texts = COMPONENTS.iter().copied().chain([("inet", inet)]);
    for (component, text) in texts {
        let text = text.replacen("worlds = [\"kernel\"]", "worlds = [\"kernel\", \"process\"]", 1);
        let text = match component {
            "posix" => text.replacen("\"entropy\"", "\"network\"", 1) + PROCESS,
            "tmpfs" | "rtc" => text,
            "inet" => text + &process,
            _ => text + &driver,
        };
        sources.add_component(&Path::new("components").join(component), change(component, text));
    }
    let worlds = WORLDS.map(|(component, world)| format!("{component} = \"{world}\"\n")).concat();
    let text = format!("memory_mib = 64\n[components]\n{worlds}");
    sources.add_system(Path::new("systems/isolated.toml"), change("isolated", text));
    assert!(changed, "there is no `{name}`");
    sources
}

#[track_caller]
fn isolated_system(name: &str, good: &str, other: &str) -> System {
    isolated(name, good, other).system("isolated").expect("a right description")
}

/// Checks that the change of [`isolated`] is refused, for a reason that contains `why`.
#[track_caller]
fn isolated_refused(name: &str, good: &str, wrong: &str, why: &str) {
    match isolated(name, good, wrong).system("isolated") {
        Ok(_) => panic!("`{wrong}` was taken"),
        Err(said) => assert!(said.contains(why), "`{wrong}`: {said}"),
    }
}

#[test]
fn components_share_the_process_of_the_personality() {
    let system = isolated_system("", "", "");
    let host = system.isolated_personalities().next().expect("a personality");
    assert_eq!(system.guests(host).map(|one| one.name.as_str()).collect::<Vec<_>>(), ["tmpfs"]);
    assert_eq!(system.members.last().map(|member| member.name.as_str()), Some("posix"));
    let program = system.program(host);
    for part in [
        "static COMPONENTS: [launch::Component; 6] = [",
        "name: \"tmpfs\", world: \"posix\", starter: launch::Starter::Plain(tmpfs::start)",
        "name: \"rtc\", world: \"process\", starter: launch::Starter::Isolated",
        "name: \"posix\", world: \"process\", starter: launch::Starter::Personality",
        "launch::start(\"posix\", &COMPONENTS, launch::SystemCalls::Anywhere);",
        "rt::component_main!(main);",
    ] {
        assert!(program.contains(part), "{part}: {program}");
    }
    let kernel = system.kernel(Path::new("/archive"));
    for part in [
        "PersonalityPlace::Processes(&[\"posix\"])",
        "ports: &[],\n    interrupts: &[],\n    driven: &[2],",
        "Plan { name: \"posix\",",
        "memory_percent: 70,",
    ] {
        assert!(kernel.contains(part), "{part}: {kernel}");
    }
    assert!(!kernel.contains("launch::") && system.linked().next().is_none(), "{kernel}");
    assert!(!kernel.contains("Plan { name: \"tmpfs\""), "{kernel}");
}

#[test]
fn a_process_calls_the_components_that_its_members_and_their_clients_use() {
    let partners = |system: &System, name: &str| -> Vec<String> {
        let member = system.members.iter().find(|member| member.name == name).expect("a member");
        system.partners(member).into_iter().map(|partner| partner.name.clone()).collect()
    };
    let mut all = partners(&isolated_system("", "", ""), "posix");
    all.sort();
    assert_eq!(all, ["inet", "rtc", "uart", "virtio-blk"]);
    let system = isolated_system("posix", "\"clock\"]", "\"file_system\"]");
    assert!(!partners(&system, "posix").contains(&"rtc".to_owned()), "nobody reads the clock");
    assert_eq!(partners(&system, "inet"), [""; 0], "its client uses the cards for it");
    // No component of the process uses a card, but the client of inet does.
    let system = isolated_system("uart", "[\"terminal\"]", "[\"terminal\", \"nic\"]");
    assert!(partners(&system, "posix").contains(&"uart".to_owned()));
}

/// A second personality, which shares the clock with the first and has no UART.
const TWO: &str = r#"
[instances.two]
posix = "process"
tmpfs = "posix"
inet = "process"
virtio-blk = "process"
uart = "none"
[change.virtio-blk]
devices = ["virtio:block#0"]
[change.virtio-blk-two]
devices = ["virtio:block#1"]
[change.posix.process]
memory_percent = 35
threads = 7
[change.posix-two.process]
share_percent = 50
"#;

/// Returns the system of [`isolated`] with a second personality that shares the UART, in whose description `good` is replaced by `other`.
#[track_caller]
fn system_of_two(good: &str, other: &str) -> Result<System, String> {
    assert!(TWO.contains(good), "`{good}` is not there to be changed");
    let two = TWO.replacen(good, other, 1).replacen("uart = \"none\"\n", "", 1);
    isolated("isolated", "memory_mib = 64\n", &format!("memory_mib = 64\n{two}")).system("isolated")
}

#[test]
fn a_second_personality_has_instances_and_devices_of_its_own_and_shares_the_rest() {
    let system = isolated("isolated", "memory_mib = 64\n", &format!("memory_mib = 64\n{TWO}"));
    let refused = system.system("isolated").expect_err("the second has no terminal");
    assert!(refused.contains("component `posix-two` uses `terminal`"), "{refused}");
    let system = system_of_two("uart = \"none\"\n", "").expect("a right description");
    let partners = |name: &str| -> Vec<String> {
        let member = system.members.iter().find(|member| member.name == name).expect("a member");
        let mut names: Vec<_> =
            system.partners(member).into_iter().map(|partner| partner.name.clone()).collect();
        names.sort();
        names
    };
    assert_eq!(partners("posix"), ["inet", "rtc", "uart", "virtio-blk"]);
    assert_eq!(partners("posix-two"), ["inet-two", "rtc", "uart", "virtio-blk-two"]);
    let last: Vec<&str> =
        system.members.iter().rev().take(2).map(|member| member.name.as_str()).collect();
    assert_eq!(last, ["posix-two", "posix"], "personalities are started last");
    let kernel = system.kernel(Path::new("/archive"));
    for part in [
        "PersonalityPlace::Processes(&[\"posix\", \"posix-two\"])",
        "may_power_down: false, devices: &[image::supervisor::DeviceKind::OneVirtio(2, 1)]",
        "OneVirtio(2, 0)",
    ] {
        assert!(kernel.contains(part), "{part}: {kernel}");
    }
    assert!(!kernel.contains("may_power_down: true"), "{kernel}");
    let plan = kernel.lines().find(|line| line.contains("Plan { name: \"posix-two\"")).unwrap();
    for part in ["memory_percent: 35", "threads: 7", "share_percent: 50"] {
        assert!(plan.contains(part), "{part}: {plan}");
    }
    let two = system.isolated_personalities().nth(1).expect("a second personality");
    let program = system.program(two);
    for part in [
        "name: \"tmpfs-two\", world: \"posix-two\", starter: launch::Starter::Plain(tmpfs::start)",
        "name: \"virtio-blk-two\", world: \"process\", starter: launch::Starter::Isolated",
        "launch::start(\"posix-two\", &COMPONENTS",
    ] {
        assert!(program.contains(part), "{part}: {program}");
    }
    assert!(!program.contains("name: \"virtio-blk\""), "{program}");
    let alone = isolated_system("", "", "").kernel(Path::new("/archive"));
    assert!(alone.contains("may_power_down: true"), "{alone}");
}

#[test]
fn a_set_of_instances_that_cannot_be_is_refused() {
    let refused = |good: &str, other: &str, why: &str| match system_of_two(good, other) {
        Ok(_) => panic!("`{other}` was taken"),
        Err(said) => assert!(said.contains(why), "`{other}`: {said}"),
    };
    let uart = "uart = \"none\"\n";
    refused(uart, "cron = \"process\"\n", "instance of `cron`: it is no component of this system");
    refused(uart, "uart = \"kernel\"\n", "world `kernel` is none of an instance");
    refused(uart, "uart = \"process\"\n", "ports `0x3f8+8` overlap");
    refused(
        "posix = \"process\"",
        "posix = \"none\"",
        "the instances of `two` have no personality",
    );
    refused("block#1", "block#0", "device `virtio:block#0` is virtio-blk's already");
    refused("block#0", "block", "device `virtio:block#1` is virtio-blk's already");
    refused("block#0", "block#first", "device `virtio:block#first` is not known");
    refused("memory_percent = 35", "memory_percent = 36", "72 percent of the machine's memory");
}

#[test]
fn parameters_of_all_that_share_a_process_reach_it() {
    let process = PROCESS.replacen("memory_percent = 70", "parameters = \"tmpfs.a=1\"", 1);
    let guest = format!("priority = \"fair\"\n{process}");
    let system = isolated_system("tmpfs", "priority = \"fair\"", &guest);
    let kernel = system.kernel(Path::new("/archive"));
    assert!(kernel.contains("Plan { name: \"posix\", parameters: \"tmpfs.a=1\""), "{kernel}");
}

#[test]
fn a_process_that_cannot_be_shared_is_refused() {
    let worlds = "worlds = [\"kernel\", \"process\"]";
    let main = "worlds = [\"process\"]\nentry = \"main\"";
    isolated_refused("tmpfs", worlds, main, "needs a table `[process]`");
    let at = "tmpfs = \"posix\"";
    isolated_refused("isolated", at, "tmpfs = \"uart\"", "only the personality's process has room");
    isolated_refused(
        "isolated",
        at,
        "tmpfs = \"tmpfs\"",
        "which has none: write tmpfs = \"process\"",
    );
    isolated_refused("isolated", at, "tmpfs = \"process\"", "has no table `[process]`");
    isolated_refused("isolated", at, "tmpfs = \"slave\"", "world `slave` does not exist");
    let uart = "uart = \"process\"";
    isolated_refused("isolated", uart, "uart = \"posix\"", "is not granted its `ports`");
    isolated_refused(
        "isolated",
        "posix = \"process\"",
        "posix = \"rtc\"",
        "whose entry is `personality`",
    );
    let worlds = "[\"kernel\", \"process\"]";
    isolated_refused(
        "tmpfs",
        worlds,
        "[\"kernel\"]",
        "shares the process of `posix`, but cannot be isolated",
    );
    refused("small", "tmpfs = \"kernel\"", "tmpfs = \"posix\"", "but cannot be isolated");
}

#[test]
fn a_component_in_the_kernel_is_out_of_reach_of_a_personality_in_a_process() {
    let why = "component `tmpfs` is in the kernel, where `posix` in its process cannot call it";
    isolated_refused("isolated", "tmpfs = \"posix\"", "tmpfs = \"kernel\"", why);
}

#[test]
fn more_than_a_share_of_every_machine_is_refused() {
    let why = "isolated components may have 71 percent of the machine's memory, more than 70";
    isolated_refused("posix", "memory_percent = 70", "memory_percent = 71", why);
}

#[test]
fn a_component_that_cannot_be_isolated_stays_in_the_kernel() {
    refused("small", "tmpfs = \"kernel\"", "tmpfs = \"process\"", "cannot be isolated");
    let worlds = "[\"kernel\", \"process\"]\nentry = \"main\"";
    refused(
        "rtc",
        "[\"kernel\", \"process\"]",
        worlds,
        "whose entry is `main` cannot live in the kernel",
    );
    refused("posix", "[\"kernel\"]", "[\"kernel\", \"process\"]", "needs a table `[process]`");
}

#[test]
fn a_component_that_uses_others_is_started_with_their_offers() {
    let sources =
        changed("tmpfs", "implements =", "entry = \"user\"\nuses = [\"block\"]\nimplements =");
    let system = sources.system("small").expect("a right description");
    let kernel = system.kernel(Path::new("archive"));
    let line = kernel.lines().find(|line| line.contains("\"tmpfs\"")).expect("its line");
    assert!(line.contains("Starter::User(tmpfs::start)"), "{line}");
    assert!(line.contains("uses: &[\"block\"]"), "{line}");
    assert!(system.linked().any(|member| member.name == "tmpfs"));
}

#[test]
fn a_component_may_be_started_by_a_crate_of_another_name() {
    let system = changed("tmpfs", "implements =", "crate = \"tmp-start\"\nimplements =")
        .system("small")
        .expect("a right description");
    let kernel = system.kernel(Path::new("archive"));
    assert!(kernel.contains(
        "name: \"tmpfs\", world: \"kernel\", starter: launch::Starter::Plain(tmp_start::start)"
    ));
    assert!(system.linked().any(|member| member.package() == "tmp-start"));
    for wrong in ["", "a b", "A"] {
        let crate_name = format!("crate = \"{wrong}\"\nimplements =");
        refused("tmpfs", "implements =", &crate_name, "has no name of a crate");
    }
}

#[test]
fn parameters_of_components_in_the_kernel_reach_it() {
    let line = "priority = \"fair\"\n[kernel]\nparameters = \"tmpfs.a=1 tmpfs.b=2\"";
    let sources = changed("tmpfs", "priority = \"fair\"", line);
    assert!(kernel(&sources).contains("parameters: \"tmpfs.a=1 tmpfs.b=2\","));
    let mut sources = sources;
    let text = "based_on = \"small\"\n[change.tmpfs.kernel]\nparameters = \"tmpfs.a=3\"\n";
    sources.add_system(Path::new("systems/large.toml"), text.to_owned());
    let large = sources.system("large").expect("a right description");
    assert!(large.kernel(Path::new("archive")).contains("parameters: \"tmpfs.a=3\","));
    for wrong in ["other.a=1", "tmpfs.a", "tmpfs=1", "tmpfsa=1"] {
        let line = format!("priority = \"fair\"\n[kernel]\nparameters = \"{wrong}\"");
        refused("tmpfs", "priority = \"fair\"", &line, "is not tmpfs.PARAMETER=VALUE");
    }
}

#[test]
fn a_component_of_the_process_world_must_say_what_it_may_do() {
    let process = COMPONENTS[4].1.split_once("[process]").expect("a table").1;
    refused("rtc", &format!("[process]{process}"), "", "needs a table `[process]`");
    for field in [
        "calls",
        "memory_kib",
        "threads",
        "share_percent",
        "ping_ms",
        "ping_deadline_ms",
        "restart",
    ] {
        refused("rtc", &format!("\n{field} = "), &format!("\n# {field} = "), "missing field");
    }
}

#[test]
fn a_kernel_call_that_is_none_is_refused() {
    refused("rtc", "\"Entropy\"", "\"Reboot\"", "kernel call `Reboot` is not known");
}

#[test]
fn a_grant_that_the_calls_do_not_reach_is_refused() {
    refused("rtc", "\"serve\", \"ports\"", "\"serve\"", "add \"ports\" to `calls`");
    refused("rtc", "\"serve\", ", "", "cannot run without the kernel call ReplyAndReceive");
    refused("rtc", "ports = [\"0x70+2\"]", "interrupts = [8]", "add \"interrupts\" to `calls`");
    refused("rtc", "ports = [\"0x70+2\"]", "memory = [\"dma\"]", "add \"dma\" to `calls`");
    refused("rtc", "ports = [\"0x70+2\"]", "devices = [\"virtio:console\"]", "add \"devices\"");
}

#[test]
fn more_memory_than_the_machine_can_promise_is_refused() {
    let change = "[change.rtc.process]\nmemory_kib = 16385\n";
    let text = format!("based_on = \"small\"\n[components]\nrtc = \"process\"\n{change}");
    let said = with_large(&text).system("large").expect_err("too much memory");
    assert!(said.contains("isolated components may have 16385 KiB"), "{said}");
}

#[test]
fn a_grant_for_each_device_needs_devices() {
    for field in ["device_threads", "device_memory_kib"] {
        refused("rtc", "threads = 2", &format!("threads = 2\n{field} = 1"), "but no `devices`");
    }
}

#[test]
fn numbers_that_make_no_sense_are_refused() {
    refused("rtc", "threads = 2", "threads = 0", "`threads` must not be 0");
    refused("rtc", "threads = 2", "threads = -1", "invalid value");
    refused("rtc", "window_ms = 10000", "window_ms = 86400001", "`window_ms` is more than a day");
}

#[test]
fn a_share_that_is_none_is_refused() {
    for wrong in [0, 101] {
        let why = format!("line 15: `share_percent` {wrong} is none: give it");
        refused("rtc", "share_percent = 10", &format!("share_percent = {wrong}"), &why);
    }
    refused("rtc", "share_percent = 10", "share_percent = 256", "invalid value");
}

#[test]
fn what_two_would_own_is_refused() {
    refused("rtc", "0x70+2", "0x3ff+1", "ports `0x3ff+1` overlap: some are uart's already");
    refused("rtc", "[\"0x70+2\"]", "[\"0x70+2\", \"0x71+1\"]", "overlap: some are rtc's already");
    let taken = "component `uart`: interrupt 4 is tmpfs's already";
    refused("tmpfs", "priority", "interrupts = [4]\npriority", taken);
    let taken = "device `virtio:block` is tmpfs's already";
    refused("tmpfs", "priority", "devices = [\"virtio:block\"]\npriority", taken);
}

#[test]
fn an_interface_that_is_none_is_refused() {
    refused("rtc", "[\"clock\"]", "[\"sundial\"]", "interface `sundial` is not known");
    refused("posix", "\"clock\"]", "\"sundial\"]", "interface `sundial` is not known");
    refused("posix", "\"entropy\"]", "\"sundial\"]", "interface `sundial` is not known");
}

#[test]
fn an_interface_no_component_implements_is_refused() {
    refused("rtc", "implements = [\"clock\"]", "", "uses `clock`, which no component implements");
}

#[test]
fn a_circle_of_uses_is_refused() {
    refused("uart", "priority", "uses = [\"terminal\"]\npriority", "go round in a circle");
    refused("uart", "priority", "may_use = [\"terminal\"]\npriority", "go round in a circle");
}

#[test]
fn an_unknown_device_is_refused() {
    refused("virtio-blk", "virtio:block", "virtio:tape", "device `virtio:tape` is not known");
}

#[test]
fn ports_that_are_none_are_refused() {
    for wrong in ["0x3f8", "3f8+8", "0x3f8+0", "0xfff8+9", "0x13f8f+1", "0x3f8+-8", "all"] {
        refused("uart", "0x3f8+8", wrong, "are not FIRST+COUNT");
    }
}

#[test]
fn an_interrupt_that_cannot_be_is_refused() {
    refused("uart", "interrupts = [4]", "interrupts = [256]", "interrupt 256 does not exist");
    refused("uart", "interrupts = [4]", "interrupts = [-1]", "invalid value");
}

#[test]
fn memory_of_another_kind_is_refused() {
    refused("virtio-blk", "[\"dma\"]", "[\"all\"]", "memory `all` is not known");
}

#[test]
fn a_priority_that_is_none_is_refused() {
    for wrong in ["fifo:0", "fifo:100", "fifo", "high", "fair:20", "fair:", "rr:3"] {
        refused("tmpfs", "\"fair\"", &format!("\"{wrong}\""), "is not known");
    }
}

#[test]
fn a_restart_of_another_kind_is_refused() {
    refused("rtc", "\"on-failure\"", "\"always\"", "restart `always` is not known");
}

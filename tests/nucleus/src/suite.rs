//! The tests and how they are run: each in a thread of its own, with the counts before and after compared.
use crate::{
    costs, derivations, devices, domains, hostile, memory, messages, ports, program, servers,
    shares, threads,
};
use alloc::{boxed::Box, vec::Vec};
use core::sync::atomic::{AtomicU32, Ordering::SeqCst};
use nucleus::{arch::power, memory::statistics, objects, params, thread, time};

const TESTS: &[(&str, fn())] = &[
    ("frames come back", memory::frames_come_back),
    ("heap objects do not overlap", memory::heap_objects_do_not_overlap),
    ("the heap needs single frames only", memory::heap_needs_single_frames_only),
    ("charges are refused before memory ends", memory::charges_are_refused),
    ("pages are cleared and copied whole", memory::pages_are_cleared_and_copied),
    ("space ranges map, move and unmap", memory::space_ranges),
    ("a clone copies on write", memory::clone_copies_on_write),
    ("a clone shares tables", memory::clone_shares_tables),
    ("shared tables are let go by the last", memory::shared_tables_are_let_go_by_the_last),
    ("user copies stop at the exact byte", memory::copies_stop_at_the_byte),
    ("threads start and end", threads::start_and_end),
    ("park keeps a token", threads::park_keeps_a_token),
    ("a deadline ends a wait", threads::deadline_ends_a_wait),
    ("no wake-up is lost", threads::no_wake_up_is_lost),
    ("a kick is kept", threads::kick_is_kept),
    ("loops are preempted", threads::loops_are_preempted),
    ("affinity is obeyed", threads::affinity_is_obeyed),
    ("real time goes first", threads::real_time_goes_first),
    ("calls are answered", messages::calls_are_answered),
    ("a deadline ends a call", messages::deadline_ends_a_call),
    ("the end of an endpoint wakes everybody", messages::end_wakes_everybody),
    ("receiving again cancels", messages::receiving_again_cancels),
    ("no bit is lost", messages::no_bit_is_lost),
    ("a caller lends its priority", messages::caller_lends_its_priority),
    ("a program calls and faults", program::calls_and_faults),
    ("registers survive", program::registers_survive),
    ("an NMI finds its processor", program::non_maskable_interrupts_find_their_processor),
    ("stray vectors harm nobody", program::stray_vectors_harm_nobody),
    ("a kick ends a loop in user mode", program::kick_ends_a_loop),
    ("many programs in one space", program::many_in_one_space),
    ("bad registers are refused", program::bad_registers_are_refused),
    ("a domain calls and leaves", domains::calls_and_leaves),
    ("what a domain lacks is refused", domains::lacks_are_refused),
    ("each field of a grant is needed", domains::each_grant_counts),
    ("a fault ends a domain and tells its callers", domains::fault_ends_it),
    ("an interrupt comes as bits", domains::interrupt_comes_as_bits),
    ("giving a capability back keeps the call", domains::closing_keeps_the_call),
    ("memory refused to a domain is not kept", domains::refused_memory_is_not_kept),
    ("memory that is shared stays charged", domains::shared_memory_stays_charged),
    ("registers are mapped once", domains::registers_are_mapped_once),
    ("vectors are limited", domains::vectors_are_limited),
    ("log lines are limited", domains::log_lines_are_limited),
    ("a domain in a loop is killed", domains::loop_is_killed),
    ("loops leave to others what is not their share", shares::loops_leave_the_rest_to_others),
    ("a handler does not sink", shares::handler_does_not_sink),
    ("loops disturb nobody", shares::loops_disturb_nobody),
    ("idle time is anybody's", shares::idle_time_is_anybodys),
    ("a domain's device is quiesced with it", domains::device_is_quiesced),
    ("a device reaches what is lent to it", devices::only_what_is_lent_is_reached),
    ("loans of a client that has ended come back", devices::loans_come_back),
    ("closed buffers are given back", devices::closed_buffers_are_given_back),
    ("a device raises only its own interrupts", devices::only_its_own_interrupts_are_raised),
    ("registers are no memory to the kernel", devices::registers_are_no_memory),
    ("a domain does not reach its device's message table", devices::message_table_is_not_mapped),
    ("only open ports are accessed", ports::only_open_ports_are_accessed),
    ("every form of port access is carried out", ports::every_form_is_carried_out),
    ("lists of port accesses are done whole", ports::lists_are_done_whole),
    ("closing ports reaches every processor", ports::closing_reaches_every_processor),
    ("maps of ports are not shared", ports::maps_are_not_shared),
    ("domains call each other", domains::call_each_other),
    ("threads of a domain call each other", domains::calls_within),
    ("calls keep to the rules", domains::calls_keep_to_the_rules),
    ("domains signal each other", domains::signal_each_other),
    ("a killed client is not answered", domains::killed_client_is_not_answered),
    ("memory is revoked from everybody", derivations::memory_is_taken_back),
    ("words are revoked", derivations::words_are_taken_back),
    ("those who wait are ended", derivations::those_who_wait_are_ended),
    ("woken words are handled", derivations::woken_words_are_handled),
    ("derivations end with their giver", derivations::gifts_end_with_their_giver),
    ("memory given to be read is not written", derivations::memory_is_read_only),
    ("frames of a pool are read", derivations::frames_of_a_pool_are_read),
    ("capabilities move", derivations::capabilities_move),
    ("what does not move along stays", derivations::what_does_not_go_stays),
    ("endpoints are revoked from who waits", derivations::endpoints_are_taken_back),
    ("derivations have limits", derivations::gifts_have_limits),
    ("long messages arrive whole", derivations::long_messages_arrive_whole),
    ("a window shows what it shows", derivations::windows_show_what_they_show),
    ("memory that was revoked is free", derivations::taken_back_memory_is_free),
    ("a component runs programs", servers::runs_programs),
    ("a component is killed with its programs", servers::killed_with_their_programs),
    ("a hostile component harms nobody", hostile::component_harms_nobody),
    ("attempts of a personality fail", hostile::attempts_fail),
    ("a hostile personality harms nobody", hostile::personality_harms_nobody),
    ("extended state is checked and kept", program::extended_state),
    (
        "a thread's extended state can be moved to its program's memory before it runs",
        program::state_before_run,
    ),
];

/// Runs every test and powers off. With the value `overflow` it uses up its stack instead, and the resulting panic is the test.
#[unsafe(no_mangle)]
fn skerry_start() {
    if params::get("skerry.selftest") == Some("overflow") {
        panic!("the stack held {} calls", threads::use_up_stack(0));
    }
    warm_up();
    match params::get("skerry.selftest") {
        Some("bench") => return one_of(costs::probes::report),
        Some("ports") => return one_of(costs::ports::report),
        Some("trace") => return one_of(costs::probes::trace),
        Some("hostile") => return hostile_alone(hostile::component_harms_nobody),
        Some("personality") => return hostile_alone(hostile::personality_harms_nobody),
        _ => {}
    }
    let rounds = params::number("skerry.selftest").unwrap_or(1).max(1);
    let mut passed = 0;
    let only = params::get("skerry.only").unwrap_or("");
    for _ in 0..rounds {
        for (name, test) in TESTS.iter().filter(|(name, _)| name.contains(only)) {
            let start_ns = time::now_ns();
            counted(name, *test);
            log::info!("selftest: ok: {name} ({} us)", (time::now_ns() - start_ns) / 1000);
            passed += 1;
        }
    }
    in_threads(1, |_| costs::report());
    log::info!("selftest: {passed} passed");
    power::off()
}

/// Runs `test` in a thread of its own, which frees its space and extended state at its end, and checks that nothing is left over.
fn counted(name: &str, test: fn()) {
    let before = settled_counts();
    in_threads(1, move |_| test());
    settle(&before, name);
}

/// Runs `body` instead of the tests, on one processor, and powers off.
fn one_of(body: fn()) {
    in_threads(1, move |_| body());
    log::info!("selftest: done");
    power::off()
}

/// Runs a hostile component instead of the tests, and powers off.
fn hostile_alone(test: fn()) {
    counted("hostile", test);
    log::info!("selftest: done");
    power::off()
}

/// Fills the caches that keep things for ever (stacks, registers mapped, tables of ports and lines), so that counts may be compared.
fn warm_up() {
    (0..2).for_each(|_| threads::start_and_end());
    in_threads(1, |_| domains::device_is_quiesced());
    in_threads(1, |_| domains::each_grant_counts());
    in_threads(1, |_| devices::only_what_is_lent_is_reached());
    in_threads(1, |_| derivations::woken_words_are_handled());
    in_threads(1, |_| drop(shares::bell()));
    thread::park(Some(time::now_ns() + 50_000_000), thread::Sleep::Uninterruptible);
}

/// Returns the counts that must be as before: live objects except slabs and cached stacks, and free frames with those of these.
fn counts() -> Vec<(&'static str, i64)> {
    let all = objects::all();
    let of = |wanted: &str| {
        all.iter().find(|count| count.name == wanted).map_or(0, |count| count.live as i64)
    };
    let mut counts: Vec<_> = all
        .iter()
        .filter(|count| !["slab", "stack", "large frame"].contains(&count.name))
        .map(|count| (count.name, count.live as i64))
        .collect();
    let memory = statistics();
    let free = memory.free_frames + memory.heap_frames + memory.stack_frames + memory.table_frames;
    counts.push(("free frames", free as i64 + of("frame")));
    counts.push(("charged", memory.charged_bytes as i64));
    counts
}

/// Returns the counts once two readings in a row agree, because they are not read at one instant.
fn settled_counts() -> Vec<(&'static str, i64)> {
    let mut before = counts();
    loop {
        thread::park(Some(time::now_ns() + 1_000_000), thread::Sleep::Uninterruptible);
        let now = counts();
        if now == before {
            return now;
        }
        before = now;
    }
}

/// Waits until the counts are as `before`: a thread is freed a moment after it reported its end.
fn settle(before: &[(&'static str, i64)], name: &str) {
    let give_up_ns = time::now_ns() + 2_000_000_000;
    loop {
        let now = counts();
        if now == before {
            return;
        }
        assert!(time::now_ns() < give_up_ns, "{name}: before {before:?}, after {now:?}");
        thread::park(Some(time::now_ns() + 1_000_000), thread::Sleep::Uninterruptible);
    }
}

/// Runs `body` in `count` threads at once, with their index, and waits for all.
pub fn in_threads(count: u32, body: impl Fn(u32) + Send + Sync + 'static) {
    struct Shared<F> {
        body: F,
        left: AtomicU32,
    }
    let shared = alloc::sync::Arc::new(Shared { body, left: AtomicU32::new(count) });
    for index in 0..count {
        let own = shared.clone();
        let body: thread::Body = Box::new(Box::new(move || {
            (own.body)(index);
            if own.left.fetch_sub(1, SeqCst) == 1 {
                thread::wake(&own.left, 1);
            }
        }));
        thread::spawn("test", thread::Policy::Fair { nice: 0 }, body)
            .expect("no memory for a test's thread");
    }
    loop {
        let left = shared.left.load(SeqCst);
        if left == 0 {
            return;
        }
        thread::wait_on(&shared.left, left, None, thread::Sleep::Uninterruptible);
    }
}

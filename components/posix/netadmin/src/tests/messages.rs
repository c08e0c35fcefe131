//! Requests of netlink and their answers.
use super::*;

const DUMP: u16 = 0x300;
const ACK: u16 = 4;
const ROUTE: NetlinkProtocol = NetlinkProtocol::Route;

#[test]
fn a_dump_of_links_has_both_and_an_end() {
    let answers = ask(ROUTE, &request(18, DUMP, &[0; 16]), &ROOT);
    assert!(answers.prompt.is_empty());
    let messages = split(&answers.dumped);
    let kinds: Vec<u16> = messages.iter().map(|message| message.0).collect();
    assert_eq!(kinds, [16, 16, 3]);
    assert!(messages.iter().all(|message| message.1 & 2 != 0));
    let card = &messages[1].2;
    assert_eq!(card[4..8], 2u32.to_le_bytes());
    assert_eq!(find(card, 16, 3).unwrap(), b"eth0\0");
    assert_eq!(find(card, 16, 4).unwrap(), 1500u32.to_le_bytes());
    assert_eq!(find(card, 16, 1).unwrap(), [0x52, 0x54, 0, 0x12, 0x34, 0x56]);
    assert_eq!(find(card, 16, 23).unwrap().len(), 192);
    assert_eq!(messages[2].2, [0; 4]);
}

#[test]
fn statistics_are_left_out_on_demand() {
    let body = [vec![0; 16], attribute(29, &8u32.to_le_bytes())].concat();
    let answers = ask(ROUTE, &request(18, DUMP, &body), &ROOT);
    assert!(find(&split(&answers.dumped)[0].2, 16, 23).is_none());
}

#[test]
fn a_link_is_found_by_name_or_is_not() {
    let named = |name: &[u8]| [vec![0; 16], attribute(3, name)].concat();
    let answers = ask(ROUTE, &request(18, 0, &named(b"eth0\0")), &ROOT);
    let messages = split(&answers.prompt);
    assert_eq!((messages.len(), messages[0].0), (1, 16));
    assert_eq!(error_of(&ask(ROUTE, &request(18, 0, &named(b"eth7\0")), &ROOT)), 19);
    assert_eq!(error_of(&ask(ROUTE, &request(18, 0, &[0; 16]), &ROOT)), 22);
}

#[test]
fn strict_checks_refuse_and_filter() {
    let strict = Asker { is_strict: true, ..ROOT };
    let by_table = |table: u32| {
        let mut head = vec![2u8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        head.extend(attribute(15, &table.to_le_bytes()));
        request(26, DUMP, &head)
    };
    let messages = split(&ask(ROUTE, &by_table(254), &strict).dumped);
    assert_eq!(messages.len(), 3);
    assert!(messages[..2].iter().all(|message| message.1 & 0x20 != 0));
    assert_eq!(split(&ask(ROUTE, &by_table(255), &strict).dumped).len(), 2);
    assert_eq!(error_of(&ask(ROUTE, &by_table(100), &strict)), 2);
    assert_eq!(split(&ask(ROUTE, &by_table(100), &ROOT).dumped).len(), 4);
    let mut bad = [0; 16];
    bad[8] = 1;
    assert_eq!(error_of(&ask(ROUTE, &request(18, DUMP, &bad), &strict)), 22);
}

#[test]
fn addresses_are_dumped_by_family() {
    let of = |family: u8| {
        let answers = ask(ROUTE, &request(22, DUMP, &[family, 0, 0, 0, 0, 0, 0, 0]), &ROOT);
        split(&answers.dumped)
    };
    assert_eq!((of(0).len(), of(2).len(), of(10).len()), (5, 3, 3));
    let card = &of(2)[1].2;
    assert_eq!(card[..4], [2, 24, 0x80, 0]);
    assert_eq!(find(card, 8, 2).unwrap(), [10, 0, 2, 15]);
    assert_eq!(find(card, 8, 4).unwrap(), [10, 0, 2, 255]);
    assert_eq!(find(card, 8, 3).unwrap(), b"eth0\0");
    assert_eq!(find(card, 8, 6).unwrap()[..8], [0xff; 8]);
}

#[test]
fn changes_need_the_right_and_are_acknowledged() {
    let body = [vec![2, 24, 0, 0, 2, 0, 0, 0], attribute(2, &[10, 1, 0, 9])].concat();
    let bytes = request(20, ACK | 0x600, &body);
    let nobody = Asker { may_administer: false, ..ROOT };
    assert_eq!(error_of(&ask(ROUTE, &bytes, &nobody)), 1);
    let world = FakeWorld::default();
    assert_eq!(error_of(&answer(ROUTE, &bytes, &ROOT, &world)), 0);
    let changes = world.0.changes.lock().unwrap();
    let [NetworkChange::Address(record, mode)] = changes.as_slice() else { panic!() };
    assert_eq!((record.address, record.prefix_length), (ip("10.1.0.9"), 24));
    assert_eq!((record.label.as_str(), record.broadcast), ("eth0", None));
    assert_eq!(*mode, EntryMode::Create);
}

#[test]
fn errors_quote_the_request_unless_capped() {
    let bytes = request(20, ACK, &[2, 40, 0, 0, 2, 0, 0, 0]);
    let whole = ask(ROUTE, &bytes, &ROOT);
    assert_eq!(split(&whole.prompt)[0].2.len(), 4 + bytes.len());
    let capped = Asker { quote: Quote::Header, ..ROOT };
    let (_, flags, body) = split(&ask(ROUTE, &bytes, &capped).prompt).remove(0);
    assert_eq!((flags, body.len()), (0x100, 20));
}

#[test]
fn routes_are_read_as_programs_write_them() {
    let world = FakeWorld::default();
    let body = [
        vec![2, 0, 0, 0, 254, 3, 0, 1, 0, 0, 0, 0],
        attribute(5, &[10, 0, 2, 2]),
        attribute(4, &2u32.to_le_bytes()),
        attribute(6, &100u32.to_le_bytes()),
    ]
    .concat();
    let done = answer(ROUTE, &request(24, ACK | 0x600, &body), &ROOT, &world);
    assert_eq!(error_of(&done), 0);
    let expected = RouteRecord {
        gateway: Some(ip("10.0.2.2")),
        preferred_source: None,
        scope: 0,
        protocol: 3,
        metric: 100,
        ..route("0.0.0.0", 0)
    };
    let changes = world.0.changes.lock().unwrap();
    assert_eq!(*changes, [NetworkChange::Route(expected, EntryMode::Create)]);
}

#[test]
fn refusals_have_the_numbers_of_linux() {
    use AdministrationError as E;
    let errors =
        [(E::NoRoute, 3), (E::NetworkUnreachable, 101), (E::Exists, 17), (E::NoDevice, 19)];
    for (refusal, number) in errors {
        let world = FakeWorld(FakeNetwork { refusal: Some(refusal), ..FakeNetwork::default() });
        let bytes = request(25, ACK, &[2, 0, 0, 0, 254, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(error_of(&answer(ROUTE, &bytes, &ROOT, &world)), number);
    }
}

#[test]
fn the_route_of_a_packet_is_told() {
    let ask_for = |head: u8, destination: &[u8]| {
        let mut body = vec![head, 0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0, 0];
        body.extend(attribute(1, destination));
        ask(ROUTE, &request(26, 0, &body), &ROOT)
    };
    let messages = split(&ask_for(2, &[8, 8, 8, 8]).prompt);
    let body = &messages[0].2;
    assert_eq!((messages[0].0, body[1]), (24, 32));
    assert_eq!(find(body, 12, 1).unwrap(), [8, 8, 8, 8]);
    assert_eq!(find(body, 12, 5).unwrap(), [10, 0, 2, 2]);
    assert_eq!(find(body, 12, 7).unwrap(), [10, 0, 2, 15]);
    assert_eq!(error_of(&ask_for(10, &[0x20; 16])), 101);
}

#[test]
fn neighbours_and_rules_are_dumped() {
    let near = split(&ask(ROUTE, &request(30, DUMP, &[0; 12]), &ROOT).dumped);
    assert_eq!(near[0].2[8..12], [2, 0, 0, 1]);
    assert_eq!(find(&near[0].2, 12, 2).unwrap(), [0x52, 0x55, 10, 0, 2, 2]);
    let rules =
        split(&ask(ROUTE, &request(34, DUMP, &[2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]), &ROOT).dumped);
    assert_eq!(rules.len(), 4);
    assert!(find(&rules[0].2, 12, 6).is_none());
    assert_eq!(find(&rules[1].2, 12, 6).unwrap(), 32_766u32.to_le_bytes());
    assert_eq!(error_of(&ask(ROUTE, &request(32, ACK, &[0; 12]), &ROOT)), 97);
}

#[test]
fn requests_in_one_datagram_are_answered_in_order() {
    let two = [request(18, 0, &[0; 16]), request(200, 0, &[0; 4]), request(2, ACK, &[])].concat();
    let messages = split(&ask(ROUTE, &two, &ROOT).prompt);
    let numbers: Vec<i32> = messages
        .iter()
        .map(|message| -i32::from_le_bytes(message.2[..4].try_into().unwrap()))
        .collect();
    assert_eq!(numbers, [22, 95, 0]);
}

fn inet_request(protocol: u8, states: u32, program: &[u8]) -> Vec<u8> {
    let mut body = vec![2, protocol, 0xff, 0];
    body.extend(states.to_le_bytes());
    body.extend([0; 40]);
    body.extend([0xff; 8]);
    if !program.is_empty() {
        body.extend(attribute(1, program));
    }
    request(20, DUMP, &body)
}

#[test]
fn sockets_are_chosen_by_state_and_filter() {
    let count = |states, program: &[u8]| {
        let answers = ask(NetlinkProtocol::Diagnosis, &inet_request(6, states, program), &ROOT);
        split(&answers.dumped).len() - 1
    };
    assert_eq!((count(!0, &[]), count(1 << 10, &[]), count(1 << 1, &[])), (2, 1, 1));
    // dport = 4000
    let by_peer = [12, 8, 12, 0, 0, 0, 0xa0, 0x0f];
    assert_eq!(count(!0, &by_peer), 1);
    // A step of nothing never ends.
    assert_eq!(count(!0, &[1, 4, 0, 0]), 0);
    // dst 10.0.2.0/24
    let by_network = [8, 16, 20, 0, 2, 24, 0, 0, 0xff, 0xff, 0xff, 0xff, 10, 0, 2, 0];
    assert_eq!(count(!0, &by_network), 1);
    let answers = ask(NetlinkProtocol::Diagnosis, &inet_request(6, 2, &[]), &ROOT);
    let body = &split(&answers.dumped)[0].2;
    assert_eq!(body[..4], [2, 1, 1, 3]);
    assert_eq!(body[4..8], [0, 22, 0x0f, 0xa0]);
    assert_eq!(find(body, 72, 4).unwrap(), b"cubic\0");
    assert_eq!(find(body, 72, 2).unwrap().len(), 232);
}

#[test]
fn local_sockets_are_listed() {
    let mut body = vec![1, 0, 0, 0];
    body.extend((!0u32).to_le_bytes());
    body.extend(0u32.to_le_bytes());
    body.extend(0x7fu32.to_le_bytes());
    body.extend([0; 8]);
    let messages = split(&ask(NetlinkProtocol::Diagnosis, &request(20, DUMP, &body), &ROOT).dumped);
    assert_eq!(messages.len(), 2);
    assert_eq!(find(&messages[0].2, 16, 0).unwrap(), b"/run/socket");
}

/// Returns a request for the parts `shown` of sockets of AF_PACKET.
fn packet_request(protocol: u8, shown: u32) -> Vec<u8> {
    let mut body = vec![17, protocol, 0, 0, 0, 0, 0, 0];
    body.extend(shown.to_le_bytes());
    body.extend([0; 8]);
    body
}

#[test]
fn packet_sockets_are_listed() {
    let dump = |body: &[u8], asker: &Asker| {
        split(&ask(NetlinkProtocol::Diagnosis, &request(20, DUMP, body), asker).dumped)
    };
    let messages = dump(&packet_request(0, 0x3f), &ROOT);
    assert_eq!(messages.len(), 2);
    let body = &messages[0].2;
    assert_eq!(body[..8], [17, 3, 0, 8, 77, 0, 0, 0]);
    let info = find(body, 16, 0).unwrap();
    assert_eq!((info.len(), info[0], info[20]), (24, 1, 3), "interface and flags");
    let mut membership = vec![1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 6, 0, 1, 0, 0x5e, 0, 0, 1];
    membership.resize(44, 0);
    assert_eq!(find(body, 16, 1).unwrap(), membership);
    assert_eq!(find(body, 16, 2).unwrap()[..8], [0, 16, 0, 0, 2, 0, 0, 0]);
    assert!(find(body, 16, 3).is_none());
    assert_eq!(find(body, 16, 4).unwrap(), [9, 0, 0, 0]);
    assert_eq!(find(body, 16, 5).unwrap(), 1000u32.to_le_bytes());
    let memory = find(body, 16, 6).unwrap();
    assert_eq!((memory.len(), &memory[..2]), (36, &640u16.to_le_bytes()[..]));
    assert_eq!(find(body, 16, 7).unwrap(), 6u64.to_le_bytes());
    let bare = dump(&packet_request(0, 0), &ROOT);
    assert_eq!(bare[0].2.len(), 16, "nothing that was not asked for");
    let user = Asker { may_administer: false, ..ROOT };
    let messages = dump(&packet_request(0, 0x20), &user);
    assert!(find(&messages[0].2, 16, 7).unwrap().is_empty(), "filters are for administrators");
}

#[test]
fn requests_about_packet_sockets_are_checked() {
    let answer = |flags, body: &[u8]| {
        error_of(&ask(NetlinkProtocol::Diagnosis, &request(20, flags, body), &ROOT))
    };
    assert_eq!(answer(DUMP, &packet_request(1, 0)), 22);
    assert_eq!(answer(DUMP, &packet_request(0, 0)[..19]), 22);
    assert_eq!(answer(0, &packet_request(0, 0)), 95, "sockets are only listed");
}

#[test]
fn the_controller_knows_itself_alone() {
    let named = |name: &[u8]| {
        let body = [vec![3, 1, 0, 0], attribute(2, name)].concat();
        ask(NetlinkProtocol::Generic, &request(16, 0, &body), &ROOT)
    };
    let messages = split(&named(b"nlctrl\0").prompt);
    assert_eq!(find(&messages[0].2, 4, 1).unwrap(), [16, 0]);
    assert_eq!(error_of(&named(b"ethtool\0")), 2);
}

#[test]
fn notices_have_their_groups() {
    let entry = entry(2, "10.0.2.15", 24);
    let told = crate::route::notification(&NetworkNotice::AddressGone(entry));
    assert_eq!((told.group, told.message[4]), (5, 21));
    let told = crate::route::notification(&NetworkNotice::Route(route("fe80::", 64)));
    assert_eq!((told.group, told.message[4]), (11, 24));
}

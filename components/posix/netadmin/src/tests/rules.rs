//! Rules, metrics of routes, settings, and texts of errors.
use super::*;

const DUMP: u16 = 0x300;
const ACK: u16 = 4;
const CREATE: u16 = 0x600;
const ROUTE: NetlinkProtocol = NetlinkProtocol::Route;

fn words(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Returns the text of the last answer, with its error number.
fn told(answers: &Answers) -> (i32, Option<String>) {
    let (_, flags, body) = split(&answers.prompt).pop().unwrap();
    let text = (flags & 0x200 != 0).then(|| find(&body, 20, 1).unwrap());
    let text = text.map(|bytes| String::from_utf8(bytes).unwrap());
    (error_of(answers), text)
}

#[test]
fn rules_are_read_and_told_as_programs_have_them() {
    let body = [
        vec![2, 16, 8, 0x10, 0, 0, 0, 1, 2, 0, 0, 0],
        attribute(1, &[10, 1, 0, 0]),
        attribute(2, &[11, 0, 0, 0]),
        attribute(3, b"lo\0"),
        attribute(6, &words(&[77])),
        attribute(10, &words(&[5])),
        attribute(14, &words(&[9])),
        attribute(15, &words(&[1000])),
        attribute(17, b"eth0\0"),
        attribute(20, &words(&[1, 2])),
        attribute(21, &[3]),
        attribute(22, &[17]),
        attribute(23, &[1, 0, 2, 0]),
        attribute(24, &[3, 0, 3, 0]),
    ]
    .concat();
    let world = FakeWorld::default();
    assert_eq!(error_of(&answer(ROUTE, &request(32, ACK | CREATE, &body), &ROOT, &world)), 0);
    let changes = world.0.changes.lock().unwrap();
    let [NetworkChange::Rule(rule, EntryMode::Create)] = changes.as_slice() else { panic!() };
    let expected = RuleRecord {
        flags: 2,
        protocol: 3,
        source: Some((ip("11.0.0.0"), 8)),
        destination: Some((ip("10.1.0.0"), 16)),
        type_of_service: 0x10,
        mark: 5,
        mark_mask: u32::MAX,
        input: "lo".into(),
        output: "eth0".into(),
        users: Some((1, 2)),
        ip_protocol: 17,
        source_ports: Some((1, 2)),
        destination_ports: Some((3, 3)),
        suppress_prefix: Some(9),
        ..RuleRecord::of_table(77, 1000)
    };
    assert_eq!(*rule, expected);
    let notice = crate::route::notification(&NetworkNotice::Rule(expected));
    assert_eq!(notice.group, 8);
    let head = [2, 16, 8, 0x10, 252, 0, 0, 1, 2, 0, 0, 0];
    assert_eq!(notice.message[16..28], head);
    for (number, value) in [
        (1, vec![10, 1, 0, 0]),
        (3, b"lo\0".to_vec()),
        (10, words(&[5])),
        (16, words(&[u32::MAX])),
        (20, words(&[1, 2])),
        (23, vec![1, 0, 2, 0]),
    ] {
        assert_eq!(find(&notice.message[16..], 12, number), Some(value), "{number}");
    }
}

#[test]
fn wrong_rules_are_refused() {
    let asker = Asker { wants_texts: true, quote: Quote::Header, ..ROOT };
    let refused = |head: [u8; 12], more: &[Vec<u8>]| {
        let body = [head.to_vec(), more.concat()].concat();
        let (number, text) = told(&ask(ROUTE, &request(32, ACK, &body), &asker));
        (number, text.unwrap_or_default().trim_end_matches('\0').to_owned())
    };
    let head = |to: u8, service: u8, action: u8| [2, to, 0, service, 254, 0, 0, action, 0, 0, 0, 0];
    let said = |text: &str| (22, text.to_owned());
    assert_eq!(refused(head(8, 0, 1), &[]), said("Invalid dst address"));
    assert_eq!(refused(head(33, 0, 1), &[attribute(1, &[0; 4])]), said("Invalid dst address"));
    let bits = said("Invalid dsfield (tos): ECN bits must be 0");
    assert_eq!(refused(head(0, 1, 1), &[]), bits);
    assert_eq!(refused(head(0, 0x20, 1), &[]), said("Invalid tos"));
    let target = attribute(4, &words(&[5]));
    assert_eq!(refused(head(0, 0, 1), core::slice::from_ref(&target)), said("Unexpected goto"));
    assert_eq!(refused(head(0, 0, 2), &[]), said("Missing goto target for action goto"));
    let back = [target, attribute(6, &words(&[5]))];
    assert_eq!(refused(head(0, 0, 2), &back), said("Backward goto not supported"));
    assert_eq!(
        refused(head(0, 0, 1), &[attribute(20, &words(&[5, 4]))]),
        said("Invalid uid range")
    );
    assert_eq!(refused(head(0, 0, 1), &[attribute(23, &[0; 4])]), said("Invalid sport range"));
}

#[test]
fn texts_come_with_errors_if_a_program_wants_them() {
    let world = || {
        let refusal = Some(AdministrationError::GatewayUnreachable);
        FakeWorld(FakeNetwork { refusal, ..FakeNetwork::default() })
    };
    let bytes = request(24, ACK, &[2, 0, 0, 0, 254, 0, 0, 1, 0, 0, 0, 0]);
    let silent = Asker { quote: Quote::Header, ..ROOT };
    assert_eq!(told(&answer(ROUTE, &bytes, &silent, &world())), (101, None));
    let asker = Asker { wants_texts: true, ..silent };
    let text = Some("Nexthop has invalid gateway\0".to_owned());
    assert_eq!(told(&answer(ROUTE, &bytes, &asker, &world())), (101, text));
    let strict = Asker { is_strict: true, ..asker };
    let body = [vec![2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], attribute(15, &words(&[100]))].concat();
    let answers = ask(ROUTE, &request(26, DUMP, &body), &strict);
    let (kind, flags, body) = split(&answers.dumped).pop().unwrap();
    assert_eq!((kind, flags), (3, 0x202));
    assert_eq!(body[..4], (-2i32).to_le_bytes());
    assert_eq!(find(&body, 4, 1).unwrap(), b"ipv4: FIB table does not exist\0");
}

#[test]
fn metrics_of_routes_are_kept() {
    let inner = [
        attribute(2, &words(&[70_000])),
        attribute(8, &words(&[1000])),
        attribute(11, &words(&[4])),
        attribute(16, b"reno\0"),
    ];
    let body =
        |inner: &[u8]| [vec![2, 0, 0, 0, 254, 3, 0, 1, 0, 0, 0, 0], attribute(8, inner)].concat();
    let world = FakeWorld::default();
    let bytes = request(24, ACK | CREATE, &body(&inner.concat()));
    assert_eq!(error_of(&answer(ROUTE, &bytes, &ROOT, &world)), 0);
    let changes = world.0.changes.lock().unwrap();
    let [NetworkChange::Route(route, _)] = changes.as_slice() else { panic!() };
    let given: Vec<(usize, u32)> = route.metrics.given().collect();
    assert_eq!(given, [(2, 65_520), (8, 1000), (11, 4), (16, 1)]);
    let notice = crate::route::notification(&NetworkNotice::Route(route.clone()));
    let told = find(&notice.message[16..], 12, 8).unwrap();
    assert_eq!(find(&told, 0, 16).unwrap(), b"reno\0");
    assert_eq!(find(&told, 0, 11).unwrap(), words(&[4]));
    for wrong in [attribute(16, b"none\0"), attribute(2, &[1]), attribute(18, &words(&[1]))] {
        assert_eq!(error_of(&ask(ROUTE, &request(24, ACK, &body(&wrong)), &ROOT)), 22);
    }
}

#[test]
fn settings_tables_and_next_hops_are_listed() {
    let count = |kind: u16, family: u8| {
        let answers = ask(ROUTE, &request(kind, DUMP, &[family, 0, 0, 0, 0, 0, 0, 0]), &ROOT);
        let messages = split(&answers.dumped);
        assert_eq!(messages.last().unwrap().0, 3);
        messages.len() - 1
    };
    assert_eq!((count(82, 0), count(82, 2), count(82, 10)), (8, 4, 4));
    assert_eq!((count(66, 0), count(66, 2)), (6, 3));
    assert_eq!(count(106, 0), 0);
    let of = |number: i32| {
        let body = [vec![2, 0, 0, 0], attribute(1, &number.to_le_bytes())].concat();
        ask(ROUTE, &request(82, 0, &body), &ROOT)
    };
    let (kind, _, body) = split(&of(-1).prompt).remove(0);
    assert_eq!((kind, find(&body, 4, 1).unwrap()), (80, vec![0xff; 4]));
    assert_eq!(error_of(&of(9)), 22);
}

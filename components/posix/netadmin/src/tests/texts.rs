//! The texts of `/proc/net`. The lines are those of Linux 6.1 for the same tables.
use super::{FakeNetwork, FakeWorld, NetlinkWorld};
use crate::tables;

fn lines(text: &str) -> Vec<String> {
    text.lines().map(str::to_owned).collect()
}

#[test]
fn packet_sockets_have_their_columns() {
    let all = FakeWorld::default().packet_sockets();
    let text = tables::packet_sockets(&all);
    let mut lines = text.lines();
    assert!(lines.next().unwrap().starts_with("sk               RefCnt Type Proto  Iface R"));
    let words: Vec<&str> = lines.next().unwrap().split_whitespace().collect();
    assert_eq!(words[1..], ["3", "3", "0800", "1", "1", "640", "1000", "77"]);
    assert_eq!(lines.next(), None);
}

#[test]
fn devices() {
    let text = lines(&tables::devices(&FakeNetwork::default()));
    assert_eq!(
        text[0],
        "Inter-|   Receive                                                |  Transmit"
    );
    assert_eq!(
        text[1],
        " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs \
         drop fifo colls carrier compressed"
    );
    assert_eq!(
        text[3],
        "  eth0:    1234      12    0    0    0     0          0         0        0       0    0    \
         0    0     0       0          0"
    );
}

#[test]
fn routes() {
    let text = lines(&tables::routes4(&FakeNetwork::default()));
    assert!(text.iter().all(|line| line.len() == 127));
    assert_eq!(text[1].trim_end(), "eth0\t00000000\t0202000A\t0003\t0\t0\t0\t00000000\t0\t0\t0");
    assert_eq!(text[2].trim_end(), "eth0\t0002000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0");
    assert_eq!(text.len(), 3);
    let six = tables::routes6(&FakeNetwork::default());
    assert_eq!(
        six,
        "fe800000000000000000000000000000 40 00000000000000000000000000000000 00 \
         00000000000000000000000000000000 00000100 00000001 00000000 00000001     eth0\n"
    );
}

#[test]
fn neighbours_and_addresses() {
    let text = lines(&tables::neighbours(&FakeNetwork::default()));
    assert_eq!(
        text[1],
        "10.0.2.2         0x1         0x2         52:55:0a:00:02:02     *        eth0"
    );
    assert_eq!(
        tables::addresses6(&FakeNetwork::default()),
        "00000000000000000000000000000001 01 80 10 80       lo\n\
         fe800000000000000000000000000001 02 40 20 80     eth0\n"
    );
}

#[test]
fn groups() {
    let text = lines(&tables::groups4(&FakeNetwork::default()));
    assert_eq!(text[1], "1\tlo        :     1      V3");
    assert_eq!(text[2], "\t\t\t\t010000E0     1 0:00000000\t\t0");
    let text = tables::hardware_groups(&FakeNetwork::default());
    assert_eq!(
        text,
        "2    eth0            2     0     01005e000001\n\
         2    eth0            2     1     01005e000002\n\
         2    eth0            1     0     333300000001\n"
    );
}

#[test]
fn tables_of_sockets() {
    let text = lines(&tables::tcp4(&FakeNetwork::default()));
    assert!(text.iter().all(|line| line.len() == 149));
    assert_eq!(
        text[2].trim_end(),
        "   1: 0F02000A:0016 0202000A:0FA0 01 00000002:00000001 01:00000015 00000003  1000        \
         0 77 1 0000000000000000 20 0 0 10 -1"
    );
    let six = lines(&tables::tcp6(&FakeNetwork::default()));
    assert!(six[1].starts_with(
        "   0: 00000000000000000000000000000000:0050 00000000000000000000000000000000:0000 0A "
    ));
    let udp = lines(&tables::udp4(&FakeNetwork::default()));
    assert!(udp[1].starts_with("    0: 00000000:0044 00000000:0000 07 "));
}

#[test]
fn counters() {
    let text = lines(&tables::simple(&FakeNetwork::default()));
    assert!(text[1].starts_with("Ip: 2 64 7 0 "));
    let [names, values] = [&text[4], &text[5]];
    assert_eq!(names.split(' ').count(), values.split(' ').count());
    assert!(values.starts_with("Tcp: 1 200 120000 -1 0 0 0 0 1 "));
    let text = lines(&tables::extended(&FakeNetwork::default()));
    let place = text[0].split(' ').position(|name| name == "TCPTimeouts").unwrap();
    assert_eq!(text[1].split(' ').nth(place), Some("3"));
    let text = tables::counters6(&FakeNetwork::default());
    assert!(text.starts_with("Ip6InReceives                   \t5\n"));
    let text = tables::socket_counts(&FakeNetwork::default(), 9);
    assert!(text.starts_with("sockets: used 9\nTCP: inuse 2 orphan 0 tw 0 alloc 3 mem 1\n"));
}

#[test]
fn values_of_settings() {
    use interfaces::sockets::NetworkParameter as P;
    assert_eq!(tables::format_values(P::TcpRmem, &[1, 2, 3]), "1\t2\t3\n");
    assert_eq!(tables::format_values(P::TcpCongestionControl, &[1]), "cubic\n");
    assert_eq!(tables::parse_name(P::TcpCongestionControl, b"reno\n"), Some(Ok(0)));
    let unknown = Some(Err(crate::NetErrno::ENOENT));
    assert_eq!(tables::parse_name(P::TcpCongestionControl, b" reno\n"), unknown);
    assert_eq!(tables::parse_name(P::TcpRmem, b"1"), None);
    assert_eq!(tables::congestion_controls(), "reno cubic\n");
}

#[test]
fn the_report_of_sockets_and_drops() {
    let text = tables::report(&FakeNetwork::default());
    let all = lines(&text);
    assert!(all[1].starts_with("tcp  listen "), "{text}");
    assert!(all[2].contains("10.0.2.15:22") && all[2].contains("10.0.2.2:4000"), "{text}");
    assert!(all[2].contains(" cwnd=10 ") && all[2].ends_with("queue-full=0 not-taken=0"), "{text}");
    assert!(text.ends_with("malformed           2\nchecksum            0\n"), "{text}");
}

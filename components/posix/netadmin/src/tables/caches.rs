//! `/proc/net/stat`: the statistics of the tables of neighbours and of the cache of routes, a line a processor.
use alloc::string::String;
use core::{fmt::Write, net::IpAddr};
use interfaces::sockets::NetworkAdministration;

/// The heads of Linux. The stack counts the entries; each other column is zero.
const NEIGHBOURS: &str = "entries  allocs   destroys hash_grows lookups  hits     res_failed \
                          rcv_probes_mcast rcv_probes_ucast periodic_gc_runs forced_gc_runs \
                          unresolved_discards table_fulls";
const ROUTES: &str = "entries  in_hit   in_slow_tot in_slow_mc in_no_route in_brd   in_martian_dst \
                      in_martian_src out_hit  out_slow_tot out_slow_mc gc_total gc_ignored \
                      gc_goal_miss gc_dst_overflow in_hlist_search out_hlist_search";
/// Digits of a number.
const DIGITS: usize = 8;

/// Returns a head, and for each processor a line with the entries of the table. A column is as wide as its name, or as its number.
fn text(head: &str, entries: usize, processors: usize) -> String {
    let mut text = String::from(head);
    text.push('\n');
    for _ in 0..processors {
        let mut names = head.split_whitespace().peekable();
        let mut value = entries;
        while let Some(name) = names.next() {
            let _ = write!(text, "{value:0DIGITS$x}");
            if names.peek().is_some() {
                let gap = name.len().max(DIGITS) - DIGITS + 1;
                text.extend(core::iter::repeat_n(' ', gap));
            }
            value = 0;
        }
        text.push('\n');
    }
    text
}

fn neighbours(network: &dyn NetworkAdministration, is_wanted: fn(&IpAddr) -> bool) -> usize {
    network.neighbours().iter().filter(|one| is_wanted(&one.address)).count()
}

/// Returns `/proc/net/stat/arp_cache`.
pub fn arp_cache(network: &dyn NetworkAdministration, processors: usize) -> String {
    text(NEIGHBOURS, neighbours(network, IpAddr::is_ipv4), processors)
}

/// Returns `/proc/net/stat/ndisc_cache`.
pub fn ndisc_cache(network: &dyn NetworkAdministration, processors: usize) -> String {
    text(NEIGHBOURS, neighbours(network, IpAddr::is_ipv6), processors)
}

/// Returns `/proc/net/stat/rt_cache`: there is no cache of routes, as in Linux since 3.6.
pub fn route_cache_counts(processors: usize) -> String {
    text(ROUTES, 0, processors)
}

/// Returns `/proc/net/mcfilter`: no member of a group of IPv4 excludes sources.
pub fn sources4() -> String {
    String::from("Idx Device        MCA        SRC    INC    EXC\n")
}

/// Returns `/proc/net/mcfilter6`.
pub fn sources6() -> String {
    String::from(
        "Idx Device                Multicast Address                   Source Address    INC    EXC\n",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_those_of_linux() {
        let all = text(NEIGHBOURS, 2, 2);
        let line = "00000002 00000000 00000000 00000000   00000000 00000000 00000000   00000000         \
                    00000000         00000000         00000000       00000000            00000000";
        assert_eq!(all.lines().collect::<alloc::vec::Vec<_>>(), [NEIGHBOURS, line, line]);
        let all = route_cache_counts(1);
        let line = "00000000 00000000 00000000    00000000   00000000    00000000 00000000       \
                    00000000       00000000 00000000     00000000    00000000 00000000   00000000     \
                    00000000        00000000        00000000";
        assert_eq!(all.lines().nth(1), Some(line));
    }
}

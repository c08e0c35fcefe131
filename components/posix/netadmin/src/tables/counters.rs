//! Counters.
use alloc::{collections::BTreeMap, format, string::String};
use core::fmt::Write;
use interfaces::sockets::{
    ConnectionState, InterfaceParameter, NetworkAdministration, NetworkParameter, ParameterScope,
    SocketProtocol, SocketRecord,
};

const IP: &str = "Forwarding DefaultTTL InReceives InHdrErrors InAddrErrors ForwDatagrams \
                  InUnknownProtos InDiscards InDelivers OutRequests OutDiscards OutNoRoutes \
                  ReasmTimeout ReasmReqds ReasmOKs ReasmFails FragOKs FragFails FragCreates";
const ICMP: &str = "InMsgs InErrors InCsumErrors InDestUnreachs InTimeExcds InParmProbs \
                    InSrcQuenchs InRedirects InEchos InEchoReps InTimestamps InTimestampReps \
                    InAddrMasks InAddrMaskReps OutMsgs OutErrors OutDestUnreachs OutTimeExcds \
                    OutParmProbs OutSrcQuenchs OutRedirects OutEchos OutEchoReps OutTimestamps \
                    OutTimestampReps OutAddrMasks OutAddrMaskReps";
const TCP: &str = "RtoAlgorithm RtoMin RtoMax MaxConn ActiveOpens PassiveOpens AttemptFails \
                   EstabResets CurrEstab InSegs OutSegs RetransSegs InErrs OutRsts InCsumErrors";
const UDP: &str = "InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors \
                   InCsumErrors IgnoredMulti MemErrors";
const TCP_EXT: &str = "SyncookiesSent SyncookiesRecv SyncookiesFailed EmbryonicRsts PruneCalled \
    RcvPruned OfoPruned OutOfWindowIcmps LockDroppedIcmps ArpFilter TW TWRecycled TWKilled \
    PAWSActive PAWSEstab DelayedACKs DelayedACKLocked DelayedACKLost ListenOverflows ListenDrops \
    TCPHPHits TCPPureAcks TCPHPAcks TCPRenoRecovery TCPSackRecovery TCPSACKReneging \
    TCPSACKReorder TCPRenoReorder TCPTSReorder TCPFullUndo TCPPartialUndo TCPDSACKUndo \
    TCPLossUndo TCPLostRetransmit TCPRenoFailures TCPSackFailures TCPLossFailures TCPFastRetrans \
    TCPSlowStartRetrans TCPTimeouts TCPLossProbes TCPLossProbeRecovery TCPRenoRecoveryFail \
    TCPSackRecoveryFail TCPRcvCollapsed TCPBacklogCoalesce TCPDSACKOldSent TCPDSACKOfoSent \
    TCPDSACKRecv TCPDSACKOfoRecv TCPAbortOnData TCPAbortOnClose TCPAbortOnMemory \
    TCPAbortOnTimeout TCPAbortOnLinger TCPAbortFailed TCPMemoryPressures \
    TCPMemoryPressuresChrono TCPSACKDiscard TCPDSACKIgnoredOld TCPDSACKIgnoredNoUndo \
    TCPSpuriousRTOs TCPMD5NotFound TCPMD5Unexpected TCPMD5Failure TCPSackShifted TCPSackMerged \
    TCPSackShiftFallback TCPBacklogDrop PFMemallocDrop TCPMinTTLDrop TCPDeferAcceptDrop \
    IPReversePathFilter TCPTimeWaitOverflow TCPReqQFullDoCookies TCPReqQFullDrop TCPRetransFail \
    TCPRcvCoalesce TCPOFOQueue TCPOFODrop TCPOFOMerge TCPChallengeACK TCPSYNChallenge \
    TCPFastOpenActive TCPFastOpenActiveFail TCPFastOpenPassive TCPFastOpenPassiveFail \
    TCPFastOpenListenOverflow TCPFastOpenCookieReqd TCPFastOpenBlackhole \
    TCPSpuriousRtxHostQueues BusyPollRxPackets TCPAutoCorking TCPFromZeroWindowAdv \
    TCPToZeroWindowAdv TCPWantZeroWindowAdv TCPSynRetrans TCPOrigDataSent TCPHystartTrainDetect \
    TCPHystartTrainCwnd TCPHystartDelayDetect TCPHystartDelayCwnd TCPACKSkippedSynRecv \
    TCPACKSkippedPAWS TCPACKSkippedSeq TCPACKSkippedFinWait2 TCPACKSkippedTimeWait \
    TCPACKSkippedChallenge TCPWinProbe TCPKeepAlive TCPMTUPFail TCPMTUPSuccess TCPDelivered \
    TCPDeliveredCE TCPAckCompressed TCPZeroWindowDrop TCPRcvQDrop TCPWqueueTooBig \
    TCPFastOpenPassiveAltKey TcpTimeoutRehash TcpDuplicateDataRehash TCPDSACKRecvSegs \
    TCPDSACKIgnoredDubious TCPMigrateReqSuccess TCPMigrateReqFailure";
const IP_EXT: &str = "InNoRoutes InTruncatedPkts InMcastPkts OutMcastPkts InBcastPkts \
    OutBcastPkts InOctets OutOctets InMcastOctets OutMcastOctets InBcastOctets OutBcastOctets \
    InCsumErrors InNoECTPkts InECT1Pkts InECT0Pkts InCEPkts ReasmOverlaps";
const IP6: &str = "InReceives InHdrErrors InTooBigErrors InNoRoutes InAddrErrors \
    InUnknownProtos InTruncatedPkts InDiscards InDelivers OutForwDatagrams OutRequests \
    OutDiscards OutNoRoutes ReasmTimeout ReasmReqds ReasmOKs ReasmFails FragOKs FragFails \
    FragCreates InMcastPkts OutMcastPkts InOctets OutOctets InMcastOctets OutMcastOctets \
    InBcastOctets OutBcastOctets InNoECTPkts InECT1Pkts InECT0Pkts InCEPkts";
const ICMP6: &str = "InMsgs InErrors OutMsgs OutErrors InCsumErrors InDestUnreachs InPktTooBigs \
    InTimeExcds InParmProblems InEchos InEchoReplies InGroupMembQueries InGroupMembResponses \
    InGroupMembReductions InRouterSolicits InRouterAdvertisements InNeighborSolicits \
    InNeighborAdvertisements InRedirects InMLDv2Reports OutDestUnreachs OutPktTooBigs \
    OutTimeExcds OutParmProblems OutEchos OutEchoReplies OutGroupMembQueries \
    OutGroupMembResponses OutGroupMembReductions OutRouterSolicits OutRouterAdvertisements \
    OutNeighborSolicits OutNeighborAdvertisements OutRedirects OutMLDv2Reports";

/// Writes the names of a group of counters, then their values.
fn group(text: &mut String, name: &str, counters: &str, value: impl Fn(&str) -> i64) {
    let _ = writeln!(text, "{name}: {counters}");
    let _ = write!(text, "{name}:");
    for counter in counters.split(' ') {
        let _ = write!(text, " {}", value(counter));
    }
    text.push('\n');
}

/// Looks up counters by group and name.
fn look_up(network: &dyn NetworkAdministration) -> impl Fn(&str, &str) -> i64 {
    let known: BTreeMap<_, _> = network.counters().into_iter().collect();
    move |group, name| {
        let value = known.get(format!("{group}{name}").as_str());
        value.map_or(0, |value| (*value).min(i64::MAX as u64) as i64)
    }
}

fn first(network: &dyn NetworkAdministration, parameter: NetworkParameter) -> Option<i64> {
    network.parameter(parameter)?.first().copied()
}

/// Returns the number of connections that count as established: ESTABLISHED and CLOSE-WAIT.
fn established(network: &dyn NetworkAdministration) -> i64 {
    let all = network.sockets(SocketProtocol::Tcp);
    let is_open =
        |state| matches!(state, ConnectionState::Established | ConnectionState::CloseWait);
    all.iter().filter(|socket| is_open(socket.state)).count() as i64
}

/// Returns `/proc/net/snmp`.
pub fn simple(network: &dyn NetworkAdministration) -> String {
    let value = look_up(network);
    let forwarding = NetworkParameter::Conf(ParameterScope::All, InterfaceParameter::Forwarding4);
    let mut text = String::new();
    group(&mut text, "Ip", IP, |name| match name {
        // 1 for a router, 2 for a host.
        "Forwarding" if first(network, forwarding).is_some_and(|value| value != 0) => 1,
        "Forwarding" => 2,
        "DefaultTTL" => first(network, NetworkParameter::DefaultTtl).unwrap_or(64),
        name => value("Ip", name),
    });
    group(&mut text, "Icmp", ICMP, |name| value("Icmp", name));
    group(&mut text, "Tcp", TCP, |name| match name {
        // RFC 2012: other; milliseconds; no limit.
        "RtoAlgorithm" => 1,
        "RtoMin" => 200,
        "RtoMax" => 120_000,
        "MaxConn" => -1,
        "CurrEstab" => established(network),
        name => value("Tcp", name),
    });
    group(&mut text, "Udp", UDP, |name| value("Udp", name));
    group(&mut text, "UdpLite", UDP, |name| value("UdpLite", name));
    text
}

/// Returns `/proc/net/netstat`.
pub fn extended(network: &dyn NetworkAdministration) -> String {
    let value = look_up(network);
    let mut text = String::new();
    group(&mut text, "TcpExt", TCP_EXT, |name| value("TcpExt", name));
    group(&mut text, "IpExt", IP_EXT, |name| value("IpExt", name));
    text
}

/// Returns `/proc/net/snmp6`.
pub fn counters6(network: &dyn NetworkAdministration) -> String {
    let value = look_up(network);
    let mut text = String::new();
    let groups = [("Ip6", IP6), ("Icmp6", ICMP6), ("Udp6", UDP), ("UdpLite6", UDP)];
    for (group, names) in groups {
        for name in names.split(' ') {
            let _ = writeln!(text, "{:<32}\t{}", format!("{group}{name}"), value(group, name));
        }
    }
    text
}

/// Returns the numbers of open sockets, for both families.
fn count(all: &[SocketRecord]) -> [usize; 2] {
    let is_open =
        |state| !matches!(state, ConnectionState::TimeWait | ConnectionState::SynReceived);
    [false, true].map(|is_version6| {
        let chosen = all.iter().filter(|one| one.is_version6 == is_version6);
        chosen.filter(|one| is_open(one.state)).count()
    })
}

/// Returns `/proc/net/sockstat`; `used` is the number of sockets of all families.
pub fn socket_counts(network: &dyn NetworkAdministration, used: u64) -> String {
    let (tcp, udp) = (network.sockets(SocketProtocol::Tcp), network.sockets(SocketProtocol::Udp));
    let waiting = tcp.iter().filter(|one| one.state == ConnectionState::TimeWait).count();
    let is_orphan = |state| {
        !matches!(
            state,
            ConnectionState::TimeWait | ConnectionState::SynReceived | ConnectionState::Listen
        )
    };
    let orphans = tcp.iter().filter(|one| one.inode == 0 && is_orphan(one.state)).count();
    let pages = |sockets: &[SocketRecord]| {
        let bytes: u64 = sockets
            .iter()
            .filter(|one| one.state != ConnectionState::Listen)
            .map(|one| u64::from(one.receive_queue) + u64::from(one.send_queue))
            .sum();
        bytes.div_ceil(4096)
    };
    let counts = count(&tcp);
    format!(
        "sockets: used {used}\nTCP: inuse {} orphan {orphans} tw {waiting} alloc {} mem {}\n\
         UDP: inuse {} mem {}\nUDPLITE: inuse {}\nRAW: inuse {}\nFRAG: inuse 0 memory 0\n",
        counts[0],
        counts[0] + counts[1],
        pages(&tcp),
        count(&udp)[0],
        pages(&udp),
        count(&network.sockets(SocketProtocol::UdpLite))[0],
        count(&network.sockets(SocketProtocol::Raw))[0]
    )
}

/// Returns `/proc/net/sockstat6`.
pub fn socket_counts6(network: &dyn NetworkAdministration) -> String {
    let of = |protocol| count(&network.sockets(protocol))[1];
    format!(
        "TCP6: inuse {}\nUDP6: inuse {}\nUDPLITE6: inuse {}\nRAW6: inuse {}\n\
         FRAG6: inuse 0 memory 0\n",
        of(SocketProtocol::Tcp),
        of(SocketProtocol::Udp),
        of(SocketProtocol::UdpLite),
        of(SocketProtocol::Raw)
    )
}

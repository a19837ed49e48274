//! The addresses that other machines can reach, and what must keep strangers out there.

use std::net::SocketAddr;

use super::error::{ConfigError, fault};
use crate::text::address::is_loopback;

/// The addresses of a node, and the strangers that they are open to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exposure<'a> {
    pub(super) http: SocketAddr,
    pub(super) resp: Option<SocketAddr>,
    /// Whether there is an auth file. What that lets callers without a token do is checked when it is read.
    pub(super) clients_are_known: bool,
    /// Whether clients are served within TLS.
    pub(super) clients_speak_tls: bool,
    /// The internal address, where one is opened.
    pub(super) raft: Option<SocketAddr>,
    /// The internal address that other nodes get, and the flag that it comes from.
    pub(super) advertised_raft: Option<(&'static str, &'a str)>,
    /// Whether a node that connects to the internal address must prove that it is a member.
    pub(super) raft_is_proven: bool,
    /// Whether all of it is allowed, for every client and node that can reach it.
    pub(super) insecure: bool,
}

/// Checks that strangers who could do harm reach nothing. Clients must show tokens or come from this machine, because a
/// node does not identify them otherwise. Other nodes must come from this machine too, unless they prove themselves.
/// Where clients show tokens, users of this machine are strangers as well: a node must prove itself on a loopback
/// address, too. Returns the addresses that `insecure` lets through, each behind its flag.
///
/// # Errors
/// The first address that strangers can reach, what could happen, and what to do.
pub(super) fn check_exposure(exposure: &Exposure<'_>) -> Result<Vec<String>, ConfigError> {
    let mut exposed = Vec::new();
    let mut check = |name: &'static str, address: String, is_open: bool, why: &str| {
        match is_open {
            false => {}
            true if exposure.insecure => exposed.push(format!("--{name} {address}")),
            true => return Err(fault(name, format_args!("{address} {why}"))),
        }
        Ok(())
    };
    let clients = [("http", Some(exposure.http)), ("resp", exposure.resp)];
    for (name, address) in clients.into_iter().filter_map(|(name, at)| Some((name, at?))) {
        let why = "can be reached from other machines, and clients need no token: \
                   give --auth-file, or listen on a loopback address, such as 127.0.0.1, behind a proxy that keeps \
                   strangers out, or give --insecure where a firewall does";
        let is_open = is_exposed(address) && !exposure.clients_are_known;
        check(name, address.to_string(), is_open, why)?;
    }
    let why = "can be reached from other machines, and anyone who connects to it can change the cluster: \
               give every node the same --cluster-secret-file (`mintleaf secret new` makes one) or a --raft-cert, \
               or use loopback addresses only, or give --insecure where a firewall keeps strangers out";
    let why_here = "asks for no proof, so every user of this machine can bypass the tokens of --auth-file there: \
                    give every node the same --cluster-secret-file (`mintleaf secret new` makes one) or a \
                    --raft-cert, or give --insecure where strangers have no account";
    if let Some(raft) = exposure.raft {
        let why = if is_exposed(raft) { why } else { why_here };
        let has_strangers = is_exposed(raft) || exposure.clients_are_known;
        check("raft", raft.to_string(), has_strangers && !exposure.raft_is_proven, why)?;
    }
    if let Some((name, address)) = exposure.advertised_raft {
        let is_open = !is_loopback(address) && !exposure.raft_is_proven;
        check(name, address.to_owned(), is_open, why)?;
    }
    Ok(exposed)
}

/// The addresses, each behind its flag, where clients show their tokens across a network without TLS.
pub(super) fn tokens_in_clear(exposure: &Exposure<'_>) -> Vec<String> {
    match exposure.clients_are_known && !exposure.clients_speak_tls {
        true => reachable(exposure.http, exposure.resp),
        false => Vec::new(),
    }
}

/// The addresses of clients that other machines can reach, each behind its flag.
pub(super) fn reachable(http: SocketAddr, resp: Option<SocketAddr>) -> Vec<String> {
    let clients = [("http", Some(http)), ("resp", resp)].into_iter();
    let exposed = clients.filter_map(|(name, at)| Some((name, at.filter(|at| is_exposed(*at))?)));
    exposed.map(|(name, address)| format!("--{name} {address}")).collect()
}

fn is_exposed(address: SocketAddr) -> bool {
    !address.ip().to_canonical().is_loopback()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(
        [http, resp, raft, advertised]: [&str; 4],
        raft_is_proven: bool,
        insecure: bool,
    ) -> Result<Vec<String>, String> {
        let address = |text: &str| text.parse::<SocketAddr>().ok();
        check_exposure(&Exposure {
            clients_are_known: false,
            clients_speak_tls: false,
            http: address(http).unwrap(),
            resp: address(resp),
            raft: address(raft),
            advertised_raft: (!advertised.is_empty()).then_some(("peers", advertised)),
            raft_is_proven,
            insecure,
        })
        .map_err(|error| error.to_string())
    }

    const OWN: &str = "127.0.0.1:1";
    const OPEN: &str = "0.0.0.0:1";

    #[test]
    fn loopback_addresses_need_nothing() {
        for addresses in [
            [OWN, "", "", ""],
            [OWN, OWN, OWN, ""],
            ["[::1]:1", "127.9.9.9:1", "[::ffff:127.0.0.1]:1", "localhost:1"],
        ] {
            assert_eq!(checked(addresses, false, false), Ok(vec![]), "{addresses:?}");
        }
    }

    #[test]
    fn an_address_that_others_can_reach_is_refused_by_name() {
        for (addresses, name) in [
            ([OPEN, "", "", ""], "--http 0.0.0.0:1 "),
            (["10.0.0.1:1", "", "", ""], "--http 10.0.0.1:1 "),
            (["[::]:1", "", "", ""], "--http [::]:1 "),
            ([OWN, OPEN, "", ""], "--resp 0.0.0.0:1 "),
            ([OWN, OWN, OPEN, ""], "--raft 0.0.0.0:1 "),
            ([OWN, OWN, OWN, "10.0.0.1:1"], "--peers 10.0.0.1:1 "),
            ([OWN, OWN, OWN, "a.example:1"], "--peers a.example:1 "),
        ] {
            let refused = checked(addresses, false, false).unwrap_err();
            assert!(refused.starts_with(name) && refused.contains("--insecure"), "{refused}");
            let exposed = checked(addresses, false, true).unwrap();
            assert_eq!(exposed, [name.trim_end()], "{addresses:?}");
        }
    }

    #[test]
    fn nodes_that_prove_themselves_may_be_anywhere_and_clients_may_not() {
        assert_eq!(checked([OWN, "", OPEN, "a.example:1"], true, false), Ok(vec![]));
        let refused = checked([OPEN, "", OPEN, "a.example:1"], true, false).unwrap_err();
        assert!(refused.starts_with("--http"), "{refused}");
    }

    #[test]
    fn clients_that_show_tokens_may_be_anywhere_and_nodes_that_prove_nothing_nowhere() {
        let exposure = |raft: &str, raft_is_proven, insecure| {
            let [http, resp, raft] = [OPEN, OPEN, raft].map(|text| text.parse().ok());
            check_exposure(&Exposure {
                http: http.unwrap(),
                resp,
                clients_are_known: true,
                clients_speak_tls: true,
                raft,
                advertised_raft: None,
                raft_is_proven,
                insecure,
            })
        };
        for raft in [OWN, OPEN] {
            let refused = exposure(raft, false, false).unwrap_err().to_string();
            assert!(refused.starts_with(&format!("--raft {raft} ")), "{refused}");
            assert!(refused.contains("mintleaf secret new"), "{refused}");
            assert_eq!(exposure(raft, true, false), Ok(vec![]));
            assert_eq!(exposure(raft, false, true), Ok(vec![format!("--raft {raft}")]));
        }
    }

    #[test]
    fn tokens_cross_a_network_in_the_clear_where_neither_tls_nor_this_machine_keeps_them() {
        let told = |http: &str, resp: &str, clients_are_known, clients_speak_tls| {
            tokens_in_clear(&Exposure {
                clients_are_known,
                clients_speak_tls,
                http: http.parse().unwrap(),
                resp: resp.parse().ok(),
                raft: None,
                advertised_raft: None,
                raft_is_proven: false,
                insecure: true,
            })
        };
        assert_eq!(told(OPEN, OPEN, true, false), ["--http 0.0.0.0:1", "--resp 0.0.0.0:1"]);
        assert_eq!(told(OWN, "10.0.0.1:1", true, false), ["--resp 10.0.0.1:1"]);
        for kept in [
            told(OWN, "[::1]:1", true, false),
            told(OPEN, OPEN, true, true),
            told(OPEN, "", false, false),
        ] {
            assert_eq!(kept, Vec::<String>::new());
        }
    }
}

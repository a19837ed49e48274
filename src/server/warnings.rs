//! What a process warns of at its start: settings that an operator may regret.

/// Warns, once for each start of a process, of addresses that `--insecure` lets strangers reach.
pub(super) fn warn_if_exposed(addresses: &[String]) {
    if !addresses.is_empty() {
        tracing::warn!(
            addresses = addresses.join(", "),
            "--insecure is given: every caller that reaches these addresses can change everything; let a firewall, or a proxy \
             with access rules, keep strangers out"
        );
    }
}

/// Warns, once for each start of a process, of addresses where clients show their tokens in the clear.
pub(super) fn warn_of_tokens_in_clear(addresses: &[String]) {
    if !addresses.is_empty() {
        tracing::warn!(
            addresses = addresses.join(", "),
            "clients on other machines show their tokens in the clear, and whoever listens on the way can use \
             them: give --tls-cert and --tls-key, or let nobody listen there"
        );
    }
}

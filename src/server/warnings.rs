//! What a process warns of at its start: settings that an operator may regret.

/// Warns, once for each start of a process, of addresses that `--insecure` lets strangers reach.
pub(super) fn warn_if_exposed(addresses: &[String]) {
    if !addresses.is_empty() {
        tracing::warn!(
            addresses = addresses.join(", "),
            "--insecure is given: anyone who reaches these addresses can change everything; keep strangers out with a \
             firewall, or with a proxy that has access rules"
        );
    }
}

/// Warns, once for each start of a process, of addresses where clients show their tokens in the clear.
pub(super) fn warn_of_tokens_in_clear(addresses: &[String]) {
    if !addresses.is_empty() {
        tracing::warn!(
            addresses = addresses.join(", "),
            "clients on other machines send their tokens in the clear, and anyone who listens on the way can use \
             them: give --tls-cert and --tls-key, or use a network where that cannot happen"
        );
    }
}

//! The values of labels: few, and none that a client chooses.

/// How many kinds of requests there are.
pub(crate) const MODES: usize = 5;

/// The kind of a request. The `mode` label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Ids of a tag.
    Segment,
    /// Ids made of time, worker id and sequence.
    Snowflake,
    /// Numbers of keys of a sequence.
    Sequence,
    /// Numbers of a register.
    Register,
    /// Everything else: tags, membership, pages, probes.
    Admin,
}

impl Mode {
    /// In the order of the variants.
    pub(super) const LABELS: [&'static str; MODES] =
        ["segment", "snowflake", "sequence", "register", "admin"];

    pub(super) fn label(self) -> &'static str {
        Self::LABELS[self as usize]
    }
}

/// The protocol of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// HTTP/1.1.
    Http,
    /// The Redis protocol.
    Resp,
}

impl Protocol {
    /// In the order of the variants.
    pub(super) const LABELS: [&'static str; 2] = ["http", "resp"];

    /// The protocol in names of threads and metrics.
    pub(crate) fn name(self) -> &'static str {
        Self::LABELS[self as usize]
    }
}

/// Files that a node reads while it runs. The `what` label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reloaded {
    /// The auth file.
    Tokens,
    /// The certificate, key and CAs for clients.
    ClientCertificates,
    /// The secret, or the certificate, key and CAs, between nodes.
    PeerKeys,
}

impl Reloaded {
    /// In the order of the variants.
    pub(super) const LABELS: [&'static str; 3] = ["tokens", "client_certificates", "peer_keys"];
}

/// How a backup ended. The `outcome` label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BackupOutcome {
    /// All of it was written.
    Complete,
    /// It broke off: its reader went away, as a rule.
    BrokenOff,
}

impl BackupOutcome {
    /// In the order of the variants.
    pub(super) const LABELS: [&'static str; 2] = ["complete", "broken_off"];
}

/// How a grab ended. The `outcome` label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrabOutcome {
    /// Committed, and the segment is held.
    Granted,
    /// Committed, and refused: the tag is unknown or exhausted.
    Rejected,
    /// Not known to be committed: no quorum, a timeout, a lost reply.
    Failed,
}

impl GrabOutcome {
    /// In the order of the variants.
    pub(super) const LABELS: [&'static str; 3] = ["granted", "rejected", "failed"];
}

/// How a message to the leader ended. The `outcome` label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeaderMessage {
    /// The leader answered each of its requests, well or not.
    Answered,
    /// The leader has too much to do.
    Overloaded,
    /// No leader answered. Its requests are sent again while their callers wait.
    Failed,
}

impl LeaderMessage {
    /// In the order of the variants.
    pub(super) const LABELS: [&'static str; 3] = ["answered", "overloaded", "failed"];
}

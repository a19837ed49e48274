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
    pub(crate) const ALL: [Mode; MODES] =
        [Mode::Segment, Mode::Snowflake, Mode::Sequence, Mode::Register, Mode::Admin];

    pub(super) fn label(self) -> &'static str {
        match self {
            Mode::Segment => "segment",
            Mode::Snowflake => "snowflake",
            Mode::Sequence => "sequence",
            Mode::Register => "register",
            Mode::Admin => "admin",
        }
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
    pub(super) const ALL: [Protocol; 2] = [Protocol::Http, Protocol::Resp];

    /// The protocol in names of threads and metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Protocol::Http => "http",
            Protocol::Resp => "resp",
        }
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
    pub(super) const ALL: [Reloaded; 3] =
        [Reloaded::Tokens, Reloaded::ClientCertificates, Reloaded::PeerKeys];

    pub(super) fn label(self) -> &'static str {
        match self {
            Reloaded::Tokens => "tokens",
            Reloaded::ClientCertificates => "client_certificates",
            Reloaded::PeerKeys => "peer_keys",
        }
    }
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
    pub(super) const ALL: [BackupOutcome; 2] = [BackupOutcome::Complete, BackupOutcome::BrokenOff];

    pub(super) fn label(self) -> &'static str {
        match self {
            BackupOutcome::Complete => "complete",
            BackupOutcome::BrokenOff => "broken_off",
        }
    }
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
    pub(super) const ALL: [GrabOutcome; 3] =
        [GrabOutcome::Granted, GrabOutcome::Rejected, GrabOutcome::Failed];

    pub(super) fn label(self) -> &'static str {
        match self {
            GrabOutcome::Granted => "granted",
            GrabOutcome::Rejected => "rejected",
            GrabOutcome::Failed => "failed",
        }
    }
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
    pub(super) const ALL: [LeaderMessage; 3] =
        [LeaderMessage::Answered, LeaderMessage::Overloaded, LeaderMessage::Failed];

    pub(super) fn label(self) -> &'static str {
        match self {
            LeaderMessage::Answered => "answered",
            LeaderMessage::Overloaded => "overloaded",
            LeaderMessage::Failed => "failed",
        }
    }
}

//! What a register keeps of a key.

/// The number of a key of a register.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Registration {
    /// The number, the same for ever.
    pub id: u64,
    /// The number as the cluster writes it, such as `INV-2026-000017`.
    pub text: String,
    /// The period of its number, for a register with periods.
    pub period: Option<String>,
    /// Whether this call was the first one with the key. After a lost answer it may be false for the first one too.
    pub is_new: bool,
}

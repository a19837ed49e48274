//! Periodic tasks of every member: they probe silent members, learn what the others run, renew this store's
//! incarnation, and look after the membership.

mod confirm_incarnation;
mod hand_over;
mod learn_releases;
mod probe;
mod tend_membership;

pub(crate) use confirm_incarnation::renew_incarnation;
pub(crate) use hand_over::hand_over;
pub(crate) use learn_releases::learn_releases;
pub(crate) use probe::probe;
pub(crate) use tend_membership::tend_membership;

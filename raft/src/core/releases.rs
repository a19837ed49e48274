//! What the other members run.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use crate::state_machine::Release;
use crate::types::Member;

/// What the other members last said that their builds support, by store.
#[derive(Default)]
pub(crate) struct KnownReleases(Mutex<BTreeMap<u128, Release>>);

impl KnownReleases {
    pub(crate) fn of(&self, member: &Member) -> Option<Release> {
        self.0.lock().get(&member.store).cloned()
    }

    pub(crate) fn record(&self, member: &Member, release: Release) {
        self.0.lock().insert(member.store, release);
    }

    /// Keeps the list as short as the membership.
    pub(crate) fn keep_only(&self, members: &BTreeMap<u64, Member>) {
        self.0.lock().retain(|store, _| members.values().any(|member| member.store == *store));
    }
}

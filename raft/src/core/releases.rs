//! What the other members run, and where they are.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use crate::state_machine::Release;
use crate::types::Member;

/// What the other members last said of themselves, by store.
#[derive(Default)]
pub(crate) struct KnownReleases(Mutex<BTreeMap<u128, Known>>);

/// What one member last said.
#[derive(Clone, Debug)]
struct Known {
    release: Release,
    /// `None` for a member of a build that says nothing of it, and before it was heard.
    zone: Option<String>,
}

impl KnownReleases {
    pub(crate) fn of(&self, member: &Member) -> Option<Release> {
        self.0.lock().get(&member.store).map(|known| known.release.clone())
    }

    /// The zone of a member: empty where it is in none, `None` when it has not said so.
    pub(crate) fn zone_of(&self, member: &Member) -> Option<String> {
        self.0.lock().get(&member.store).and_then(|known| known.zone.clone())
    }

    /// Records what a member's build supports. Its zone stays as it was, for as long as it runs the same build.
    pub(crate) fn record(&self, member: &Member, release: Release) {
        let mut all = self.0.lock();
        let zone = all.remove(&member.store).filter(|known| known.release == release);
        all.insert(member.store, Known { release, zone: zone.and_then(|known| known.zone) });
    }

    pub(crate) fn record_zone(&self, member: &Member, zone: String) {
        if let Some(known) = self.0.lock().get_mut(&member.store) {
            known.zone = Some(zone);
        }
    }

    /// Keeps the list as short as the membership.
    pub(crate) fn keep_only(&self, members: &BTreeMap<u64, Member>) {
        self.0.lock().retain(|store, _| members.values().any(|member| member.store == *store));
    }
}

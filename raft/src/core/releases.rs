//! What the other members run, and where they are located.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use crate::state_machine::Release;
use crate::types::Member;

/// What the other members last reported about themselves, by store.
#[derive(Default)]
pub(crate) struct KnownReleases(Mutex<BTreeMap<u128, Known>>);

/// What one member last reported.
#[derive(Clone, Debug)]
struct Known {
    release: Release,
    /// `None` for a member whose build does not report it, and until the member is heard.
    zone: Option<String>,
}

impl KnownReleases {
    pub(crate) fn of(&self, member: &Member) -> Option<Release> {
        self.0.lock().get(&member.store).map(|known| known.release.clone())
    }

    /// The zone of a member: empty if it has none, `None` if it has not reported one.
    pub(crate) fn zone_of(&self, member: &Member) -> Option<String> {
        self.0.lock().get(&member.store).and_then(|known| known.zone.clone())
    }

    /// Records what a member's build supports. Its zone is kept as long as it runs the same build.
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

    /// Drops every entry that does not belong to a member.
    pub(crate) fn keep_only(&self, members: &BTreeMap<u64, Member>) {
        self.0.lock().retain(|store, _| members.values().any(|member| member.store == *store));
    }
}

//! Entries in the order of their names, in a table that is copied by sharing.
//!
//! Entries live in leaves of at most [`LEAF_ENTRIES_MAX`]. A copy of the table shares all leaves, and
//! a change then copies only the leaf it falls in. So a snapshot of a million entries is taken in
//! microseconds and written at leisure, and applying never waits for it.

use std::sync::Arc;

/// Entries in one leaf at most: what the first change after a snapshot copies.
const LEAF_ENTRIES_MAX: usize = 256;

/// An entry of the table.
pub(super) trait Named: Clone {
    /// The name that it is found by.
    fn name(&self) -> &str;
}

#[derive(Clone, Debug)]
pub(super) struct SharedTable<E> {
    /// No leaf is empty; all entries ascend by name, within a leaf and from leaf to leaf.
    leaves: Vec<Arc<Vec<E>>>,
    entries: usize,
}

impl<E> Default for SharedTable<E> {
    fn default() -> Self {
        Self { leaves: Vec::new(), entries: 0 }
    }
}

impl<E: Named> SharedTable<E> {
    /// How many entries there are, tombstones included.
    pub(super) fn len(&self) -> usize {
        self.entries
    }

    pub(super) fn get(&self, name: &str) -> Option<&E> {
        let leaf = self.leaves.get(self.leaf_of(name))?;
        Some(&leaf[find(leaf, name).ok()?])
    }

    pub(super) fn get_mut(&mut self, name: &str) -> Option<&mut E> {
        let at = self.leaf_of(name);
        let leaf = self.leaves.get_mut(at)?;
        let position = find(leaf, name).ok()?;
        Some(&mut Arc::make_mut(leaf)[position])
    }

    /// The entry with the highest name.
    pub(super) fn last(&self) -> Option<&E> {
        self.leaves.last()?.last()
    }

    /// Adds an entry whose name is not in the table yet.
    ///
    /// # Panics
    /// If the name is in the table.
    pub(super) fn insert(&mut self, entry: E) -> &mut E {
        let (at, position) = self.make_room(entry.name());
        self.entries += 1;
        let leaf = Arc::make_mut(&mut self.leaves[at]);
        leaf.insert(position, entry);
        &mut leaf[position]
    }

    /// Removes the entry with this name, if there is one.
    pub(super) fn remove(&mut self, name: &str) {
        let at = self.leaf_of(name);
        let Some(leaf) = self.leaves.get_mut(at) else { return };
        let Ok(position) = find(leaf, name) else { return };
        Arc::make_mut(leaf).remove(position);
        if leaf.is_empty() {
            self.leaves.remove(at);
        }
        self.entries -= 1;
    }

    /// Changes every entry. None may change its name.
    pub(super) fn for_each_mut(&mut self, change: impl FnMut(&mut E)) {
        let Self { leaves, entries: _ } = self;
        leaves.iter_mut().flat_map(Arc::make_mut).for_each(change);
    }

    /// The entries after `name`; all of them without a name.
    pub(super) fn after(&self, name: Option<&str>) -> impl Iterator<Item = &E> {
        self.beginning_with("", name)
    }

    /// The entries whose names begin with `prefix`; with `name`, only those after it. Of all other entries it looks
    /// only at those in one leaf.
    pub(super) fn beginning_with(
        &self,
        prefix: &str,
        name: Option<&str>,
    ) -> impl Iterator<Item = &E> {
        let first = self.leaf_of(name.map_or(prefix, |name| name.max(prefix)));
        self.leaves[first.min(self.leaves.len())..]
            .iter()
            .flat_map(|leaf| leaf.iter())
            .skip_while(move |entry| {
                entry.name() < prefix || name.is_some_and(|name| entry.name() <= name)
            })
            .take_while(move |entry| entry.name().starts_with(prefix))
    }

    /// The leaf that a name is in or would be in; 0 in an empty table.
    fn leaf_of(&self, name: &str) -> usize {
        self.leaves.partition_point(|leaf| leaf[0].name() <= name).saturating_sub(1)
    }

    /// The leaf, not full, and the position in it that a new name belongs to.
    fn make_room(&mut self, name: &str) -> (usize, usize) {
        let at = self.leaf_of(name);
        let is_last = at + 1 == self.leaves.len();
        let Some(leaf) = self.leaves.get_mut(at) else {
            self.leaves.push(Arc::default());
            return (0, 0);
        };
        let position = find(leaf, name).expect_err("the name is in the table already");
        if leaf.len() < LEAF_ENTRIES_MAX {
            return (at, position);
        }
        // Beyond the last name a fresh leaf begins, so that names that come in order, as they do
        // from a snapshot, leave full leaves behind.
        let appends = is_last && position == leaf.len();
        let kept = if appends { leaf.len() } else { leaf.len() / 2 };
        let upper = Arc::make_mut(leaf).split_off(kept);
        self.leaves.insert(at + 1, Arc::new(upper));
        if position < kept { (at, position) } else { (at + 1, position - kept) }
    }
}

/// Where `name` is in a leaf, or else where it would be.
fn find<E: Named>(leaf: &[E], name: &str) -> Result<usize, usize> {
    leaf.binary_search_by(|entry| entry.name().cmp(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::Protection;
    use crate::state::tag_entry::TagEntry;
    use crate::state::tests::tag;

    fn table(numbers: impl IntoIterator<Item = u32>) -> SharedTable<TagEntry> {
        let mut table = SharedTable::default();
        for number in numbers {
            table.insert(TagEntry::unborn(tag(&name(number))));
        }
        table
    }

    fn name(number: u32) -> String {
        format!("tag-{number:06}")
    }

    /// How many leaves two tables do not share.
    fn leaves_apart(one: &SharedTable<TagEntry>, other: &SharedTable<TagEntry>) -> usize {
        one.leaves.iter().zip(&other.leaves).filter(|(a, b)| !Arc::ptr_eq(a, b)).count()
    }

    #[test]
    fn entries_are_found_in_order_however_they_came() {
        let scattered = (0..5000).map(|number| number * 1237 % 5000);
        let orders: [Box<dyn Iterator<Item = u32>>; 3] =
            [Box::new(0..5000), Box::new((0..5000).rev()), Box::new(scattered)];
        for order in orders {
            let table = table(order);
            assert_eq!(table.len(), 5000);
            assert!(table.leaves.iter().all(|leaf| (1..=LEAF_ENTRIES_MAX).contains(&leaf.len())));
            assert!(table.after(None).map(TagEntry::name).eq((0..5000).map(name)));
            assert!((0..5000).all(|number| table.get(&name(number)).is_some()));
            assert!(["", "tag-", "tag-0000001", "z"].iter().all(|name| table.get(name).is_none()));
        }
    }

    #[test]
    fn reading_on_begins_after_a_name_that_need_not_exist() {
        let table = table((0..1000).map(|number| number * 2));
        for after in 0..2000 {
            let next = table.after(Some(&name(after))).next().map(TagEntry::name);
            let expected = Some(name((after + 2) / 2 * 2)).filter(|_| after < 1998);
            assert_eq!(next, expected.as_deref(), "after {after}");
        }
        assert_eq!(table.after(Some("")).count(), 1000);
        assert_eq!(SharedTable::<TagEntry>::default().after(Some("a")).count(), 0);
    }

    #[test]
    fn a_prefix_finds_the_names_that_begin_with_it_wherever_reading_goes_on() {
        let table = table((0..3000).map(|number| number * 2));
        let names: Vec<String> = (0..3000).map(|number| name(number * 2)).collect();
        for prefix in
            ["", "tag-", "tag-0", "tag-0005", "tag-00051", "tag-000512", "tag-9", "a", "z"]
        {
            let afters = [0, 1, 511, 512, 513, 520, 5998, 9999].map(name);
            let afters = afters.iter().map(String::as_str).chain(["a", "zz"]);
            for after in std::iter::once(None).chain(afters.map(Some)) {
                let found = table.beginning_with(prefix, after).map(TagEntry::name);
                let expected = names.iter().map(String::as_str).filter(|name| {
                    name.starts_with(prefix) && after.is_none_or(|after| *name > after)
                });
                assert!(found.eq(expected), "{prefix} after {after:?}");
            }
        }
    }

    #[test]
    fn what_is_removed_is_gone_and_the_rest_stays_in_order() {
        let mut table = table(0..1000);
        let copy = table.clone();
        (0..1000).filter(|number| number % 3 != 0).for_each(|number| table.remove(&name(number)));
        table.remove("nothing");
        let left: Vec<String> = (0..1000).step_by(3).map(name).collect();
        assert!(table.after(None).map(TagEntry::name).eq(left.iter().map(String::as_str)));
        assert_eq!((table.len(), copy.len()), (left.len(), 1000));
        left.iter().for_each(|name| table.remove(name));
        assert!(table.len() == 0 && table.leaves.is_empty());
        table.insert(TagEntry::unborn(tag("again")));
        assert!(table.get("again").is_some());
    }

    #[test]
    fn names_that_come_in_order_fill_their_leaves() {
        assert_eq!(table(0..1024).leaves.len(), 4);
    }

    #[test]
    fn a_copy_shares_every_leaf_until_one_is_changed() {
        let mut table = table(0..2048);
        let copy = table.clone();
        assert_eq!(leaves_apart(&table, &copy), 0);
        table.get_mut(&name(700)).unwrap().create(10, 5, "", Protection::default(), 0);
        table.get_mut(&name(701)).unwrap().create(10, 5, "", Protection::default(), 0);
        assert_eq!(leaves_apart(&table, &copy), 1);
        assert!(!copy.get(&name(700)).unwrap().is_live());
    }

    #[test]
    #[should_panic(expected = "in the table already")]
    fn a_name_has_one_entry() {
        table([1, 1]);
    }
}

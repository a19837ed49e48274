//! Entries in the order of their names, in a table that is copied by sharing.
//!
//! Entries live in leaves, each of some 16 KiB at most. A copy of the table shares all leaves, and
//! a change then copies only the leaf it falls in. So a snapshot of a million entries is taken in
//! microseconds and written at leisure, and applying never waits for it.

use std::cmp::Ordering;
use std::sync::Arc;

/// Entries in a leaf of entries as they are, at most: what the first change after a snapshot copies.
const LEAF_ENTRIES_MAX: usize = 256;

/// Something that is found by a name.
pub(super) trait Named {
    /// The name that it is found by.
    fn name(&self) -> &str;
}

impl<E: Named> Named for &E {
    fn name(&self) -> &str {
        (**self).name()
    }
}

/// Entries that follow each other, as they lie in memory.
pub(super) trait Leaf: Clone + Default {
    /// An entry to add.
    type New<'a>: Named;
    /// An entry of the leaf.
    type Entry<'a>: Named
    where
        Self: 'a;

    /// How many entries there are.
    fn len(&self) -> usize;

    /// The bytes of an entry's name; names are ordered by them.
    fn name(&self, at: usize) -> &[u8];

    fn get(&self, at: usize) -> Self::Entry<'_>;

    /// Puts an entry in front of the one that is at this place.
    fn insert(&mut self, at: usize, entry: Self::New<'_>);

    fn remove(&mut self, at: usize);

    /// Takes off the entries from this place on.
    fn split_off(&mut self, at: usize) -> Self;

    /// Whether another entry needs another leaf.
    fn is_full(&self) -> bool;
}

/// Each entry as it is.
impl<E: Named + Clone> Leaf for Vec<E> {
    type New<'a> = E;
    type Entry<'a>
        = &'a E
    where
        E: 'a;

    fn len(&self) -> usize {
        self.len()
    }

    fn name(&self, at: usize) -> &[u8] {
        self[at].name().as_bytes()
    }

    fn get(&self, at: usize) -> &E {
        &self[at]
    }

    fn insert(&mut self, at: usize, entry: E) {
        self.insert(at, entry);
    }

    fn remove(&mut self, at: usize) {
        self.remove(at);
    }

    fn split_off(&mut self, at: usize) -> Self {
        self.split_off(at)
    }

    fn is_full(&self) -> bool {
        self.len() >= LEAF_ENTRIES_MAX
    }
}

#[derive(Clone, Debug)]
pub(super) struct SharedTable<L> {
    /// No leaf is empty; all entries ascend by name, within a leaf and from leaf to leaf.
    leaves: Vec<Arc<L>>,
    entries: usize,
}

impl<L> Default for SharedTable<L> {
    fn default() -> Self {
        Self { leaves: Vec::new(), entries: 0 }
    }
}

impl<L: Leaf> SharedTable<L> {
    /// How many entries there are, tombstones included.
    pub(super) fn len(&self) -> usize {
        self.entries
    }

    pub(super) fn get(&self, name: &str) -> Option<L::Entry<'_>> {
        let leaf = self.leaves.get(self.leaf_of(name))?;
        Some(leaf.get(find(&**leaf, name).ok()?))
    }

    /// The entry with the highest name.
    pub(super) fn last(&self) -> Option<L::Entry<'_>> {
        let last = self.leaves.last()?;
        Some(last.get(last.len() - 1))
    }

    /// Adds an entry whose name is not in the table yet.
    ///
    /// # Panics
    /// If the name is in the table.
    pub(super) fn insert(&mut self, entry: L::New<'_>) {
        let (at, position) = self.make_room(entry.name());
        Arc::make_mut(&mut self.leaves[at]).insert(position, entry);
        self.entries += 1;
    }

    /// Removes the entry with this name, if there is one.
    pub(super) fn remove(&mut self, name: &str) {
        let at = self.leaf_of(name);
        let Some(leaf) = self.leaves.get_mut(at) else { return };
        let Ok(position) = find(&**leaf, name) else { return };
        Arc::make_mut(leaf).remove(position);
        if leaf.len() == 0 {
            self.leaves.remove(at);
        }
        self.entries -= 1;
    }

    /// The leaf that an entry is in, and its place there.
    pub(super) fn leaf_mut(&mut self, name: &str) -> Option<(&mut Arc<L>, usize)> {
        let at = self.leaf_of(name);
        let leaf = self.leaves.get_mut(at)?;
        let position = find(&**leaf, name).ok()?;
        Some((leaf, position))
    }

    pub(super) fn leaves_mut(&mut self) -> impl Iterator<Item = &mut L> {
        self.leaves.iter_mut().map(Arc::make_mut)
    }

    #[cfg(test)]
    pub(super) fn leaves(&self) -> impl Iterator<Item = &L> {
        self.leaves.iter().map(|leaf| &**leaf)
    }

    /// Makes two leaves of the one that a name is in.
    pub(super) fn split(&mut self, name: &str) {
        let at = self.leaf_of(name);
        let leaf = Arc::make_mut(&mut self.leaves[at]);
        let upper = leaf.split_off(leaf.len() / 2);
        self.leaves.insert(at + 1, Arc::new(upper));
    }

    /// The entries after `name`; all of them without a name.
    pub(super) fn after(&self, name: Option<&str>) -> impl Iterator<Item = L::Entry<'_>> {
        self.beginning_with("", name)
    }

    /// The entries whose names begin with `prefix`; with `name`, only those after it. Of all other entries it looks
    /// only at those in one leaf.
    pub(super) fn beginning_with(
        &self,
        prefix: &str,
        name: Option<&str>,
    ) -> impl Iterator<Item = L::Entry<'_>> {
        let first = self.leaf_of(name.map_or(prefix, |name| name.max(prefix)));
        self.leaves[first.min(self.leaves.len())..]
            .iter()
            .flat_map(|leaf| (0..leaf.len()).map(|at| leaf.get(at)))
            .skip_while(move |entry| {
                entry.name() < prefix || name.is_some_and(|name| entry.name() <= name)
            })
            .take_while(move |entry| entry.name().starts_with(prefix))
    }

    /// The leaf that a name is in or would be in; 0 in an empty table.
    fn leaf_of(&self, name: &str) -> usize {
        let begins_before = |leaf: &Arc<L>| leaf.name(0) <= name.as_bytes();
        // A snapshot brings names in order, and most of those that are made one after the other are in order, too.
        match self.leaves.last() {
            Some(last) if begins_before(last) => self.leaves.len() - 1,
            _ => self.leaves.partition_point(begins_before).saturating_sub(1),
        }
    }

    /// The leaf, not full, and the position in it that a new name belongs to.
    fn make_room(&mut self, name: &str) -> (usize, usize) {
        let at = self.leaf_of(name);
        let Some(leaf) = self.leaves.get_mut(at) else {
            self.leaves.push(Arc::default());
            return (0, 0);
        };
        let position = find(&**leaf, name).expect_err("the name is in the table already");
        if !leaf.is_full() {
            return (at, position);
        }
        // Behind a full leaf a fresh one begins, so that names that come in order, as they do
        // from a snapshot, leave full leaves behind.
        let appends = position == leaf.len();
        let kept = if appends { leaf.len() } else { leaf.len() / 2 };
        let upper = Arc::make_mut(leaf).split_off(kept);
        self.leaves.insert(at + 1, Arc::new(upper));
        if position < kept { (at, position) } else { (at + 1, position - kept) }
    }
}

impl<E: Named + Clone> SharedTable<Vec<E>> {
    pub(super) fn get_mut(&mut self, name: &str) -> Option<&mut E> {
        let (leaf, at) = self.leaf_mut(name)?;
        Some(&mut Arc::make_mut(leaf)[at])
    }

    /// Changes every entry. None may change its name.
    pub(super) fn for_each_mut(&mut self, change: impl FnMut(&mut E)) {
        self.leaves_mut().flatten().for_each(change);
    }
}

/// Where `name` is in a leaf, or else where it would be.
fn find(leaf: &impl Leaf, name: &str) -> Result<usize, usize> {
    let (mut low, mut high) = (0, leaf.len());
    if high > 0 && leaf.name(high - 1) < name.as_bytes() {
        return Err(high);
    }
    while low < high {
        let middle = low.midpoint(high);
        match leaf.name(middle).cmp(name.as_bytes()) {
            Ordering::Less => low = middle + 1,
            Ordering::Equal => return Ok(middle),
            Ordering::Greater => high = middle,
        }
    }
    Err(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug)]
    struct Item {
        name: String,
        changed: bool,
    }

    impl Named for Item {
        fn name(&self) -> &str {
            &self.name
        }
    }

    fn item(name: String) -> Item {
        Item { name, changed: false }
    }

    fn table(numbers: impl IntoIterator<Item = u32>) -> SharedTable<Vec<Item>> {
        let mut table = SharedTable::default();
        for number in numbers {
            table.insert(item(name(number)));
        }
        table
    }

    fn name_of(item: &Item) -> &str {
        &item.name
    }

    fn name(number: u32) -> String {
        format!("tag-{number:06}")
    }

    /// How many leaves two tables do not share.
    fn leaves_apart(one: &SharedTable<Vec<Item>>, other: &SharedTable<Vec<Item>>) -> usize {
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
            assert!(table.after(None).map(name_of).eq((0..5000).map(name)));
            assert!((0..5000).all(|number| table.get(&name(number)).is_some()));
            assert!(["", "tag-", "tag-0000001", "z"].iter().all(|name| table.get(name).is_none()));
        }
    }

    #[test]
    fn reading_on_begins_after_a_name_that_need_not_exist() {
        let table = table((0..1000).map(|number| number * 2));
        for after in 0..2000 {
            let next = table.after(Some(&name(after))).next().map(name_of);
            let expected = Some(name((after + 2) / 2 * 2)).filter(|_| after < 1998);
            assert_eq!(next, expected.as_deref(), "after {after}");
        }
        assert_eq!(table.after(Some("")).count(), 1000);
        assert_eq!(SharedTable::<Vec<Item>>::default().after(Some("a")).count(), 0);
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
                let found = table.beginning_with(prefix, after).map(name_of);
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
        assert!(table.after(None).map(name_of).eq(left.iter().map(String::as_str)));
        assert_eq!((table.len(), copy.len()), (left.len(), 1000));
        left.iter().for_each(|name| table.remove(name));
        assert!(table.len() == 0 && table.leaves.is_empty());
        table.insert(item("again".to_owned()));
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
        table.get_mut(&name(700)).unwrap().changed = true;
        table.get_mut(&name(701)).unwrap().changed = true;
        assert_eq!(leaves_apart(&table, &copy), 1);
        assert!(!copy.get(&name(700)).unwrap().changed);
    }

    #[test]
    #[should_panic(expected = "in the table already")]
    fn a_name_has_one_entry() {
        table([1, 1]);
    }
}

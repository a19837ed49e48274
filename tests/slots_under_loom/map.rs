//! The part of `papaya`'s map that the table of tags uses, with a lock around each call.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::marker::PhantomData;

use crate::Mutex;

/// A map whose calls are atomic. What it held stays in memory, as a caller may refer to it.
pub struct HashMap<K: 'static, V: 'static, S> {
    held: Mutex<BTreeMap<&'static K, &'static V>>,
    hasher: PhantomData<fn() -> S>,
}

pub struct HashMapRef<'a, K: 'static, V: 'static, S, G> {
    map: &'a HashMap<K, V, S>,
    guard: PhantomData<G>,
}

pub struct LocalGuard<'a>(PhantomData<&'a ()>);

/// The value that has the place.
pub struct OccupiedError<V: 'static> {
    pub current: &'static V,
}

impl<K: Ord, V, S> Default for HashMap<K, V, S> {
    fn default() -> Self {
        Self { held: Mutex::default(), hasher: PhantomData }
    }
}

impl<K, V, S> HashMap<K, V, S> {
    pub fn pin(&self) -> HashMapRef<'_, K, V, S, LocalGuard<'_>> {
        HashMapRef { map: self, guard: PhantomData }
    }
}

impl<K: Ord, V, S, G> HashMapRef<'_, K, V, S, G> {
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&'static V>
    where
        K: Borrow<Q>,
    {
        let held = self.map.held.lock();
        held.iter().find(|(name, _)| (**name).borrow() == key).map(|(_, value)| *value)
    }

    pub fn try_insert(&self, key: K, value: V) -> Result<&'static V, OccupiedError<V>> {
        let mut held = self.map.held.lock();
        if let Some(current) = held.get(&key) {
            return Err(OccupiedError { current });
        }
        let value: &'static V = Box::leak(Box::new(value));
        held.insert(Box::leak(Box::new(key)), value);
        drop(held);
        // The atomics of the product's file are not loom's: other threads may come before the next of them here.
        loom::thread::yield_now();
        Ok(value)
    }

    pub fn remove<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&'static V>
    where
        K: Borrow<Q>,
    {
        let mut held = self.map.held.lock();
        let name = *held.keys().find(|name| (***name).borrow() == key)?;
        held.remove(name)
    }

    pub fn remove_if(
        &self,
        key: &K,
        is_its: impl Fn(&K, &V) -> bool,
    ) -> Result<Option<(&'static K, &'static V)>, (&'static K, &'static V)> {
        let mut held = self.map.held.lock();
        let Some((name, value)) = held.get_key_value(key).map(|(name, value)| (*name, *value))
        else {
            return Ok(None);
        };
        if !is_its(name, value) {
            return Err((name, value));
        }
        held.remove(name);
        Ok(Some((name, value)))
    }

    pub fn iter(&self) -> std::vec::IntoIter<(&'static K, &'static V)> {
        let held = self.map.held.lock();
        held.iter().map(|(name, value)| (*name, *value)).collect::<Vec<_>>().into_iter()
    }

    pub fn keys(&self) -> impl Iterator<Item = &'static K> {
        self.iter().map(|(name, _)| name)
    }

    pub fn values(&self) -> impl Iterator<Item = &'static V> {
        self.iter().map(|(_, value)| value)
    }
}

impl<K: Ord, V, S, G> IntoIterator for &HashMapRef<'_, K, V, S, G> {
    type Item = (&'static K, &'static V);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

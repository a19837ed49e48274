//! Small numbers for texts, and for the processes that hand out ids.

use std::collections::HashMap;

/// Texts by number, in the order of their first appearance.
#[derive(Default)]
pub(crate) struct Names {
    numbers: HashMap<Box<str>, u32>,
    names: Vec<Box<str>>,
}

impl Names {
    pub(crate) fn number(&mut self, name: &str) -> u32 {
        if let Some(&number) = self.numbers.get(name) {
            return number;
        }
        let number = u32::try_from(self.names.len()).expect("there are fewer names than lines");
        self.numbers.insert(name.into(), number);
        self.names.push(name.into());
        number
    }

    pub(crate) fn name(&self, number: u32) -> &str {
        &self.names[number as usize]
    }

    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }
}

/// The number of an issuer of ids: a node, and one of its process starts if that is known.
pub(crate) type IssuerId = u32;

#[derive(Default)]
pub(crate) struct Issuers {
    boots: Names,
    numbers: HashMap<(u64, Option<u32>), IssuerId>,
    issuers: Vec<(u64, Option<u32>)>,
}

impl Issuers {
    pub(crate) fn number(&mut self, node: u64, boot: Option<&str>) -> IssuerId {
        let issuer = (node, boot.map(|boot| self.boots.number(boot)));
        *self.numbers.entry(issuer).or_insert_with(|| {
            self.issuers.push(issuer);
            u32::try_from(self.issuers.len() - 1).expect("there are fewer issuers than lines")
        })
    }

    pub(crate) fn node(&self, issuer: IssuerId) -> u64 {
        self.issuers[issuer as usize].0
    }

    pub(crate) fn knows_boot(&self, issuer: IssuerId) -> bool {
        self.issuers[issuer as usize].1.is_some()
    }

    /// Whether two issuers may be the same process, according to what is known of them.
    pub(crate) fn may_be_one(&self, one: IssuerId, other: IssuerId) -> bool {
        let (one, other) = (self.issuers[one as usize], self.issuers[other as usize]);
        one.0 == other.0 && (one.1 == other.1 || one.1.is_none() || other.1.is_none())
    }

    pub(crate) fn show(&self, issuer: IssuerId) -> String {
        let (node, boot) = self.issuers[issuer as usize];
        boot.map_or_else(
            || format!("node {node}"),
            |boot| format!("node {node}, boot {}", self.boots.name(boot)),
        )
    }
}

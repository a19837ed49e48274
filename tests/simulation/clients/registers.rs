//! Callers of registers: they ask for the number of a key until they have it, at one node after another.

use std::iter;
use std::sync::Arc;

use mintleaf::service::{Consistency, Error, KeyName};
use mintleaf_core::tag::BizTag;

use super::{Clients, Outcome};
use crate::machine::Serving;

/// Registers, with one line and with one for each period.
pub(crate) const REGISTER: &str = "ledger";
pub(super) const REGISTER_OF_PERIODS: &str = "vouchers";
const REGISTERS: [&str; 2] = [REGISTER, REGISTER_OF_PERIODS];

/// How often a caller asks for a key until it gives up.
const ATTEMPTS: u64 = 6;
/// How many of the latest keys callers choose from, so that several ask for one at a time.
const LATEST: u64 = 4;
/// A caller asks for fewer keys together than this, and sometimes for more than share a commit.
const TOGETHER: u64 = 50;
/// How many keys a list has at most; it takes several to see all.
const PAGE: usize = 50;

impl Clients {
    /// Asks for one key after another.
    pub(super) async fn call_registers(self: Arc<Self>) {
        while !self.is_stopping() {
            let (tag, key) = (self.random.pick(&REGISTERS), self.register_key());
            for _ in 0..self.random.within(1..ATTEMPTS) {
                let Some(serving) = self.any_serving().await else { continue };
                let asked = self.wait(&serving, self.use_register(&serving, tag, &key)).await;
                let outcome = match &asked {
                    None => "no answer".to_owned(),
                    Some(Ok(())) => "well".to_owned(),
                    Some(Err(error)) => error.to_string(),
                };
                let by = serving.incarnation;
                self.trace.note(format_args!("caller {tag} {key} at {by:?}: {outcome}"));
                // A caller that knows its number asks once more from time to time.
                if matches!(asked, Some(Ok(()))) && self.random.chance(70) {
                    break;
                }
            }
        }
    }

    /// Mostly one of the latest keys or the next one, sometimes any that was ever asked for.
    fn register_key(&self) -> String {
        let next = self.oracle.keys_asked() / 2;
        let number = match self.random.chance(15) {
            true => self.random.within(0..next + 1),
            false => (next + self.random.within(0..LATEST)).saturating_sub(LATEST / 2),
        };
        format!("order-{number}")
    }

    /// Asks for the number of a key, or whether it has one. Sometimes creates, deletes or freezes the register.
    async fn use_register(&self, serving: &Serving, tag: &str, key: &str) -> Outcome {
        match self.random.within(0..100) {
            0..10 => self.meddle(serving, tag).await,
            10..20 => self.read_key(serving, tag, key).await,
            20..35 => {
                let more = (1..self.random.within(2..TOGETHER)).map(|_| self.register_key());
                let keys: Vec<_> = iter::once(key.to_owned()).chain(more).collect();
                self.ask_for_numbers(serving, tag, &keys).await
            }
            _ => self.ask_for_number(serving, tag, key).await,
        }
    }

    /// Asks for the number of a key; the oracle judges the answer.
    pub(super) async fn ask_for_number(&self, serving: &Serving, tag: &str, key: &str) -> Outcome {
        self.ask_for_numbers(serving, tag, &[key.to_owned()]).await
    }

    /// Asks for the numbers of keys, in this order; the oracle judges the answers. Returns the first error.
    async fn ask_for_numbers(&self, serving: &Serving, tag: &str, keys: &[String]) -> Outcome {
        let by = serving.incarnation;
        let before: Vec<_> = keys.iter().map(|key| self.oracle.asked_for(tag, key)).collect();
        let frozen_since = self.oracle.frozen_since(by, tag);
        let name = BizTag::parse(tag)?;
        let asked: Vec<Box<str>> = keys.iter().map(|key| key.as_str().into()).collect();
        let answers = serving.services.ids.register_all(&name, &asked).await;
        let (mut outcome, mut last) = (Ok(()), None);
        for ((key, answer), before) in keys.iter().zip(answers).zip(before) {
            match answer {
                Ok(told) => {
                    if told.is_new {
                        self.oracle.check_thawed(by, tag, frozen_since);
                    }
                    self.oracle.told_number(by, (tag, key), &told, before.and_behind(last));
                    last = Some((told.period, told.number));
                }
                Err(error) => outcome = outcome.and(Err(error)),
            }
        }
        outcome
    }

    /// Asks which number a key has, if any; the oracle judges the answer.
    async fn read_key(&self, serving: &Serving, tag: &str, key: &str) -> Outcome {
        let before = self.oracle.number_of(tag, key);
        let of = KeyName::parse(tag, key)?;
        let read = serving.services.ids.registered(&of, Consistency::Linearizable).await;
        let told = match read {
            Ok(told) => Some((told.period, told.number)),
            Err(Error::NotFound(_)) => None,
            Err(error) => return Err(error),
        };
        self.oracle.told_of_key(serving.incarnation, (tag, key), told, before);
        Ok(())
    }

    /// Asks every register for a new key. Returns the first error that a healed cluster must not return.
    pub(super) async fn take_registered(&self, serving: &Serving, key: &str) -> Outcome {
        if !self.has_programs {
            return Ok(());
        }
        let number = self.ask_for_number(serving, REGISTER, key).await;
        // A register that followed most clocks into a later period never goes back.
        drop(self.ask_for_number(serving, REGISTER_OF_PERIODS, key).await);
        number
    }

    /// Lists every register; the oracle judges the lists.
    pub(super) async fn check_registers(&self, serving: &Serving) -> Outcome {
        'registers: for tag in REGISTERS {
            let before = self.oracle.register(tag);
            let mut periods: Vec<_> = before.keys().map(|(period, _)| *period).collect();
            periods.dedup();
            let name = BizTag::parse(tag).expect("a name");
            for period in periods {
                let (mut list, mut after) = (Vec::new(), Some(0));
                while let Some(from) = after {
                    let (ids, how) = (&serving.services.ids, Consistency::Linearizable);
                    match ids.register_page(&name, period, (from, PAGE), how).await {
                        Ok(page) => {
                            list.extend(page.entries);
                            after = page.next;
                        }
                        // It was left deleted.
                        Err(Error::UnknownTag) => continue 'registers,
                        Err(error) => return Err(error),
                    }
                }
                self.oracle.listed((tag, period), &list, &before);
            }
        }
        Ok(())
    }
}

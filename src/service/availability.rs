//! Whether ids could be had: the outcome of a request for them, without an id taken or a tag created.

use mintleaf_core::limits::ID_END;
use mintleaf_core::state::TagRow;
use mintleaf_core::tag::BizTag;

use super::error::Error;
use super::ids::{IdService, Source};
use crate::limits::GRAB_MAX;

impl IdService {
    /// Whether [`take`](Self::take) would return `count` ids of a tag now. Takes nothing, reserves nothing and creates
    /// no tag. Ids that are held need no quorum; all others need one, as they do when they are taken.
    ///
    /// # Errors
    /// The same as [`take`](Self::take), except overload, which has passed by the next request.
    pub async fn could_take(&self, tag: &str, count: u64) -> Result<(), Error> {
        let tag = BizTag::parse(tag)?;
        let held = {
            let slots = self.table.pin();
            let slot = slots.get(tag.as_str());
            if slot.is_some_and(|slot| slot.is_frozen()) {
                return Err(Error::Frozen);
            }
            slot.map_or(Ok(()), |slot| slot.check_rate_limit(count))?;
            slot.map_or(0, |slot| slot.remaining())
        };
        if held >= count {
            return Ok(());
        }
        if let Some(shaped) = self.table.shaped().get(tag.as_str()) {
            return self.could_take_shaped(&shaped, count).await;
        }
        self.replica.read_barrier(self.replica.deadline(GRAB_MAX)).await?;
        match self.replica.read(|state| state.tag(tag.as_str())) {
            Some(row) if row.protection.frozen => Err(Error::Frozen),
            Some(TagRow { shape: Some(_), .. }) => {
                match self.source(tag.as_str(), self.replica.deadline(GRAB_MAX)).await? {
                    Source::Shaped(shaped) => self.could_take_shaped(&shaped, count).await,
                    Source::Plain(_) => Ok(()),
                }
            }
            Some(row) if held + (ID_END - row.max_id) < count => Err(Error::Exhausted),
            Some(_) => Ok(()),
            None => match &self.creation {
                Some(creation) => creation.could_create(&tag),
                None => Err(Error::UnknownTag),
            },
        }
    }

    /// Whether [`take_snowflakes`](Self::take_snowflakes) would give an id. Takes none; waits as it does
    /// for a window that is on its way.
    ///
    /// # Errors
    /// The same as [`take_snowflakes`](Self::take_snowflakes), except overload.
    pub async fn could_take_snowflakes(&self) -> Result<(), Error> {
        self.snowflakes.could_take().await
    }
}

//! Ids of one tag for one owner.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::client::Client;
use crate::engine::slot::Slot;
use crate::error::Error;

/// Ids of one tag for one thread or task, which takes them in blocks. Most calls are a single addition.
///
/// The ids that a handle still holds when it is dropped are wasted: at most an eighth of a lease. Once its client is
/// closed, a handle hands out the rest of its block, and then fails.
///
/// ```no_run
/// # async fn example(client: mintleaf_client::Client) -> Result<(), mintleaf_client::Error> {
/// let mut orders = client.handle("orders")?;
/// let id = orders.next_id().await?;
/// # Ok(())
/// # }
/// ```
pub struct Handle {
    block: Block,
    client: Client,
    tag: String,
    slot: Option<Arc<Slot>>,
}

/// The ids that a handle has taken out of a lease.
#[derive(Debug, Default)]
pub(crate) struct Block {
    next: u64,
    end: u64,
}

impl Block {
    /// The next id of the block.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<u64> {
        let id = self.next;
        // In an empty block `next` equals `end`, so 0 is never handed out.
        if id < self.end {
            self.next = id + 1;
            return Some(id);
        }
        None
    }

    /// Continues with these ids. The block must be used up.
    pub(crate) fn set(&mut self, ids: Range<u64>) {
        debug_assert_eq!(self.next, self.end);
        (self.next, self.end) = (ids.start, ids.end);
    }
}

impl Client {
    /// Ids of one tag for one thread or task: the fastest way to take many.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when every node would reject the tag, [`Error::Closed`].
    pub fn handle(&self, tag: &str) -> Result<Handle, Error> {
        let slot = self.inner.engine.slot(tag)?;
        Ok(Handle { block: Block::default(), client: self.clone(), tag: tag.to_owned(), slot })
    }
}

impl Handle {
    /// The next id, if one is held. It never waits.
    #[inline]
    pub fn next_held(&mut self) -> Option<u64> {
        match self.block.next() {
            Some(id) => Some(id),
            None => self.next_block(),
        }
    }

    /// The next id.
    ///
    /// # Errors
    /// As [`Client::next_id`].
    #[inline]
    pub async fn next_id(&mut self) -> Result<u64, Error> {
        match self.next_held() {
            Some(id) => Ok(id),
            None => self.client.next_id(&self.tag).await,
        }
    }

    #[cold]
    #[inline(never)]
    fn next_block(&mut self) -> Option<u64> {
        let block = self.client.inner.engine.held_block(self.slot.as_ref()?)?;
        self.block.set(block);
        self.block.next()
    }

    pub(crate) fn tag(&self) -> &str {
        &self.tag
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("tag", &self.tag).finish_non_exhaustive()
    }
}

package io.mintleaf.client;

import java.util.Arrays;

/**
 * Hands out the ids that this process holds of one line, without a lock.
 *
 * <p>Ids come from one chunk that all threads share, in rising order. A thread that takes so many that it
 * empties one chunk after the other gets blocks of its own, where two threads do not meet at one counter.
 * Whoever finds nothing calls {@link #refill}.
 */
abstract class Dispenser {
  /** Cells of blocks, at most; a power of two. Threads without a cell share the chunk. */
  private static final int CELLS_MAX =
      Integer.highestOneBit(Math.min(64, 8 * Runtime.getRuntime().availableProcessors()));

  /** The block of the thread that was first to need one: found without a look at the cells. */
  private volatile Block favourite = Block.NONE;
  /** The blocks of other threads, by thread id. A cell changes with the lock only. */
  private volatile Block[] cells = {Block.NONE};
  private volatile Chunk shared = Chunk.EMPTY;

  /** The last thread that was given a part of a lease; guarded by this. */
  private Thread lastRefilled;

  /** Returns an id when neither the thread's block nor the shared chunk has one. */
  abstract long refill(Thread thread);

  final long next() {
    Thread thread = Thread.currentThread();
    Block block = favourite;
    if (block.owner == thread) {
      Cursor cursor = block.cursor;
      long id = cursor.next;
      if (id <= block.last) {
        cursor.next = id + 1;
        return id;
      }
    }
    return nextElsewhere(thread);
  }

  private long nextElsewhere(Thread thread) {
    Block[] cells = this.cells;
    Block block = cells[cellOf(thread, cells.length)];
    if (block.owner == thread) {
      Cursor cursor = block.cursor;
      long id = cursor.next;
      if (id <= block.last) {
        cursor.next = id + 1;
        return id;
      }
    }
    Chunk chunk = shared;
    long taken = chunk.getAndIncrement();
    return taken < chunk.size ? chunk.first + taken : refill(thread);
  }

  /** Returns an id of the shared chunk that is not too old, or 0. */
  final long nextFresh(Ticker ticker) {
    Chunk chunk = shared;
    if (chunk.isTimed && chunk.expires - ticker.nanos() < 0) {
      return 0;
    }
    long taken = chunk.getAndIncrement();
    return taken < chunk.size ? chunk.first + taken : 0;
  }

  /** Takes up to {@code count} ids out of the calling thread's own blocks; null when they have none. */
  final IdRange takeOwned(long count) {
    Thread thread = Thread.currentThread();
    Block block = favourite;
    IdRange range = block.owner == thread ? block.take(count) : null;
    if (range != null) {
      return range;
    }
    Block[] cells = this.cells;
    block = cells[cellOf(thread, cells.length)];
    return block.owner == thread ? block.take(count) : null;
  }

  /** Takes up to {@code count} ids out of the shared chunk; null when it has none. Called with the lock. */
  final IdRange takeShared(long count) {
    return shared.take(count);
  }

  /** Puts ids where all threads find them. The chunk before must be spent. Called with the lock. */
  final void share(IdRange range, long expires) {
    share(range, expires, true);
  }

  /** Puts ids where all threads find them, which look at the ticker only if {@code isTimed}. Called with the lock. */
  final void share(IdRange range, long expires, boolean isTimed) {
    shared = range == null ? Chunk.EMPTY : new Chunk(range.first, range.size, expires, isTimed);
  }

  /** Drops the shared chunk if its ids are too old. Called with the lock. */
  final void dropSharedOlderThan(long now) {
    if (shared.expires - now < 0) {
      shared = Chunk.EMPTY;
    }
  }

  /**
   * Gives ids to the calling thread alone, if it takes one part after the other and there is a place for
   * it. Its own blocks are spent. Called with the lock.
   *
   * @return whether the thread has them now
   */
  final boolean own(Thread thread, IdRange range) {
    boolean again = lastRefilled == thread;
    lastRefilled = thread;
    Block block = Block.of(thread, range);
    if (block == null) {
      return false;
    }
    if (favourite.owner == thread || (again && favourite.isFree())) {
      favourite = block;
      return true;
    }
    while (true) {
      int cell = cellOf(thread, cells.length);
      if (cells[cell].owner == thread || (again && cells[cell].isFree())) {
        cells[cell] = block;
        return true;
      }
      if (!again || cells.length >= CELLS_MAX) {
        return false;
      }
      grow();
    }
  }

  /**
   * Takes what threads that have ended left in their blocks; null when there is nothing. Called with the
   * lock, and before {@link #own}, which puts new blocks in their places.
   */
  final IdRange reclaim() {
    if (favourite.isOrphaned()) {
      IdRange left = favourite.take(Long.MAX_VALUE);
      favourite = Block.NONE;
      if (left != null) {
        return left;
      }
    }
    for (int i = 0; i < cells.length; i++) {
      if (cells[i].isOrphaned()) {
        IdRange left = cells[i].take(Long.MAX_VALUE);
        cells[i] = Block.NONE;
        if (left != null) {
          return left;
        }
      }
    }
    return null;
  }

  /** Returns whether the shared chunk or a block has an id left, as far as the calling thread sees. */
  final boolean holdsAny() {
    Chunk chunk = shared;
    if (chunk.get() < chunk.size || favourite.isHolding()) {
      return true;
    }
    for (Block block : cells) {
      if (block.isHolding()) {
        return true;
      }
    }
    return false;
  }

  /** Drops everything that is held. Called with the lock. */
  final void discard() {
    favourite = Block.NONE;
    cells = new Block[] {Block.NONE};
    shared = Chunk.EMPTY;
    lastRefilled = null;
  }

  private void grow() {
    Block[] grown = new Block[cells.length * 2];
    Arrays.fill(grown, Block.NONE);
    for (Block block : cells) {
      if (block.owner != null) {
        grown[cellOf(block.owner, grown.length)] = block;
      }
    }
    cells = grown;
  }

  private static int cellOf(Thread thread, int cells) {
    return (int) thread.getId() & (cells - 1);
  }
}

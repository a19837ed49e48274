package io.mintleaf.client;

import java.util.Arrays;

/**
 * Hands out the ids that this process holds of one line, without a lock.
 *
 * <p>Ids come from one chunk that all threads share, in rising order. A thread that takes so many that it
 * empties one chunk after the other gets blocks of its own, where an id costs no atomic operation and two
 * threads do not meet. Whoever finds nothing calls {@link #refill}.
 */
abstract class Dispenser {
  /** Cells of blocks, at most; a power of two. Threads without a cell share the chunk. */
  private static final int CELLS_MAX =
      Integer.highestOneBit(Math.min(64, 8 * Runtime.getRuntime().availableProcessors()));

  private volatile Block[] cells = {Block.NONE};
  private volatile Chunk shared = Chunk.EMPTY;

  /** The last thread that was given a part of a lease; guarded by this. */
  private Thread lastRefilled;

  /** Returns an id when neither the thread's block nor the shared chunk has one. */
  abstract long refill(Thread thread);

  final long next() {
    Thread thread = Thread.currentThread();
    Block[] cells = this.cells;
    Block block = cells[cellOf(thread, cells.length)];
    if (block.owner == thread) {
      long taken = block.taken;
      if (taken < block.size) {
        block.taken = taken + 1;
        return block.first + taken;
      }
    }
    return nextShared(thread);
  }

  private long nextShared(Thread thread) {
    Chunk chunk = shared;
    long taken = chunk.getAndIncrement();
    return taken < chunk.size ? chunk.first + taken : refill(thread);
  }

  /** Returns an id of the shared chunk that is not too old, or 0. */
  final long nextFresh(long nanos) {
    Chunk chunk = shared;
    if (chunk.expires - nanos < 0) {
      return 0;
    }
    long taken = chunk.getAndIncrement();
    return taken < chunk.size ? chunk.first + taken : 0;
  }

  /** Takes up to {@code count} ids out of the calling thread's own block; null when it has none. */
  final IdRange takeOwned(long count) {
    Thread thread = Thread.currentThread();
    Block[] cells = this.cells;
    Block block = cells[cellOf(thread, cells.length)];
    if (block.owner != thread || block.taken >= block.size) {
      return null;
    }
    IdRange range = new IdRange(block.first + block.taken, Math.min(count, block.size - block.taken));
    block.taken += range.size;
    return range;
  }

  /** Takes up to {@code count} ids out of the shared chunk; null when it has none. Called with the lock. */
  final IdRange takeShared(long count) {
    return shared.take(count);
  }

  /** Puts ids where all threads find them. The chunk before must be spent. Called with the lock. */
  final void share(IdRange range, long expires) {
    shared = range == null ? Chunk.EMPTY : new Chunk(range.first, range.size, expires);
  }

  /** Drops the shared chunk if its ids are too old. Called with the lock. */
  final void dropSharedOlderThan(long now) {
    if (shared.expires - now < 0) {
      shared = Chunk.EMPTY;
    }
  }

  /**
   * Gives ids to a thread alone, if it takes one part after the other and there is a cell for it.
   * Called with the lock.
   *
   * @return whether the thread has them now
   */
  final boolean own(Thread thread, IdRange range) {
    Thread before = lastRefilled;
    lastRefilled = thread;
    while (true) {
      int cell = cellOf(thread, cells.length);
      Block there = cells[cell];
      if (there.owner == thread || (before == thread && there.owner == null)) {
        cells[cell] = new Block(thread, range.first, range.size);
        return true;
      }
      if (before != thread || cells.length >= CELLS_MAX) {
        return false;
      }
      grow();
    }
  }

  /** Takes what threads that have ended left in their blocks; null when there is nothing. Called with the lock. */
  final IdRange reclaim() {
    Block[] cells = this.cells;
    for (int i = 0; i < cells.length; i++) {
      Block block = cells[i];
      if (block.owner == null || block.owner.isAlive()) {
        continue;
      }
      cells[i] = Block.NONE;
      IdRange left = block.leftByTheDead();
      if (left != null) {
        return left;
      }
    }
    return null;
  }

  /** Drops everything that is held. Called with the lock. */
  final void discard() {
    cells = new Block[] {Block.NONE};
    shared = Chunk.EMPTY;
    lastRefilled = null;
  }

  private void grow() {
    Block[] old = cells;
    Block[] grown = new Block[old.length * 2];
    Arrays.fill(grown, Block.NONE);
    for (Block block : old) {
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

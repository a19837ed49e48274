package io.mintleaf.client;

import java.util.ArrayDeque;
import java.util.Collection;

/**
 * The current lease of a line and the next one, and the cursor that walks them upward.
 *
 * <p>Not thread-safe: a line's lock guards it.
 */
final class LeaseBuffer {
  private ArrayDeque<IdRange> current = new ArrayDeque<>();
  private long currentSize;
  private long left;
  private long currentExpires;
  private ArrayDeque<IdRange> next;
  private long nextExpires;
  /** As long as more is left than this, no other lease is asked for. */
  private long enough;

  /**
   * Puts a lease behind what is held.
   *
   * @param ranges ranges that rise and do not overlap
   * @param expires when they become too old to hand out, on the ticker, where that matters
   */
  void install(Collection<IdRange> ranges, long expires) {
    next = new ArrayDeque<>(ranges);
    nextExpires = expires;
    if (left == 0) {
      promote();
    }
  }

  /** Returns the next ids, {@code max} at most, or null when nothing is held. */
  IdRange cut(long max) {
    if (left == 0 && next != null) {
      promote();
    }
    if (left == 0) {
      return null;
    }
    IdRange head = current.poll();
    IdRange rest = head.after(max);
    if (rest != null) {
      current.addFirst(rest);
    }
    IdRange taken = new IdRange(head.first, Math.min(max, head.size));
    left -= taken.size;
    return taken;
  }

  /** Returns whether so little is left that the next lease should be asked for. */
  boolean wantsMore() {
    return next == null && currentSize > 0 && left <= enough;
  }

  /** Puts the next attempt off until half of what is left now is used. */
  void aheadFailed() {
    enough = left / 2;
  }

  /** Returns whether nothing is held. */
  boolean isEmpty() {
    return left == 0 && next == null;
  }

  /** Returns how many ids the lease that ids come from had at first. */
  long currentSize() {
    return currentSize;
  }

  /** Returns when the ids that were cut last become too old. */
  long expires() {
    return currentExpires;
  }

  /** Drops leases that are too old. */
  void dropOlderThan(long now) {
    if (next != null && nextExpires - now < 0) {
      next = null;
    }
    if (left > 0 && currentExpires - now < 0) {
      clearCurrent();
    }
  }

  /** Drops everything. */
  void clear() {
    next = null;
    clearCurrent();
  }

  private void clearCurrent() {
    current.clear();
    left = 0;
    enough = 0;
  }

  private void promote() {
    current = next;
    currentExpires = nextExpires;
    next = null;
    long size = 0;
    for (IdRange range : current) {
      size += range.size;
    }
    currentSize = size;
    left = size;
    enough = size / 2;
  }
}

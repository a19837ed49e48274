package io.mintleaf.client;

/**
 * Ids that belong to one thread.
 *
 * <p>The place of the cursor is plain: only the owner reads and writes it while it lives, and whoever has seen that
 * the owner has ended sees its last write. All else is constant, because every thread reads {@link #owner} to find
 * out whether a block is its own.
 */
final class Block {
  /** The block of nobody. */
  static final Block NONE = new Block(null, 1, 0);

  final Thread owner;
  /** Below 2^63-1, so that the cursor never overflows. */
  final long last;
  final Cursor cursor;

  private Block(Thread owner, long first, long last) {
    this.owner = owner;
    this.cursor = new Cursor(first);
    this.last = last;
  }

  /** Returns a block of these ids, or null if 2^63-1 is among them. */
  static Block of(Thread owner, IdRange range) {
    long last = range.first + range.size - 1;
    return last == Long.MAX_VALUE ? null : new Block(owner, range.first, last);
  }

  /** Returns whether its thread has ended. Ids may be left. */
  boolean isOrphaned() {
    return owner != null && !owner.isAlive();
  }

  /** Returns whether another block may take its place: nobody's ids would be lost. */
  boolean isFree() {
    return owner == null || isOrphaned() && cursor.next > last;
  }

  /** Returns whether ids are left. Other threads than the owner may see more than there are. */
  boolean isHolding() {
    return cursor.next <= last;
  }

  /** Takes up to {@code count} ids, or returns null if none is left. For the owner alone, while it lives. */
  IdRange take(long count) {
    long next = cursor.next;
    if (next > last) {
      return null;
    }
    IdRange range = new IdRange(next, Math.min(count, last - next + 1));
    cursor.next = next + range.size;
    return range;
  }
}

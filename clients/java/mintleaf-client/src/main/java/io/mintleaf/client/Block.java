package io.mintleaf.client;

/**
 * Ids that belong to one thread.
 *
 * <p>{@link #taken} is plain: only the owner reads and writes it while it lives, and whoever has seen
 * that the owner has ended sees its last write. It counts instead of holding the next id, because the id
 * after 2^63-1 has no {@code long}.
 */
final class Block {
  /** The block of nobody. */
  static final Block NONE = new Block(null, 0, 0);

  final Thread owner;
  final long first;
  final long size;
  long taken;

  Block(Thread owner, long first, long size) {
    this.owner = owner;
    this.first = first;
    this.size = size;
  }

  /** Returns what a thread that has ended left over, or null. */
  IdRange leftByTheDead() {
    if (owner == null || owner.isAlive() || taken >= size) {
      return null;
    }
    return new IdRange(first + taken, size - taken);
  }
}

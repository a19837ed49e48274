package io.mintleaf.client;

import java.util.concurrent.atomic.AtomicLong;

/**
 * Ids that any number of threads take from, in rising order.
 *
 * <p>The atomic value counts the attempts to take one; those beyond {@link #size} found nothing. It is a
 * {@code long}, so that no number of failed attempts brings it round to ids that were given.
 */
final class Chunk extends AtomicLong {
  private static final long serialVersionUID = 1L;

  /** The chunk that holds nothing. */
  static final Chunk EMPTY = new Chunk(0, 0, 0, false);

  final long first;
  final long size;

  /** When the ids become too old to hand out, on the ticker; only where a line has such a limit. */
  final long expires;

  /** Whether calls look at the ticker themselves; else the chunk is taken away when it expires. */
  final boolean isTimed;

  Chunk(long first, long size, long expires, boolean isTimed) {
    this.first = first;
    this.size = size;
    this.expires = expires;
    this.isTimed = isTimed;
  }

  /** Takes up to {@code count} ids, or returns null when none is left. */
  IdRange take(long count) {
    long from = getAndAdd(count);
    return from >= size ? null : new IdRange(first + from, Math.min(count, size - from));
  }
}

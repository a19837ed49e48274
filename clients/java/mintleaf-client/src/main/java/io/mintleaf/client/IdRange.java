package io.mintleaf.client;

/** Consecutive ids, as many as {@link #size} from {@link #first} on. Immutable; never empty. */
final class IdRange {
  final long first;
  final long size;

  IdRange(long first, long size) {
    this.first = first;
    this.size = size;
  }

  /** Returns the ids after the first {@code count}, or null if there are none. */
  IdRange after(long count) {
    return count >= size ? null : new IdRange(first + count, size - count);
  }
}

package io.mintleaf.client;

/** Computes how many ids to lease next, so that a lease lasts for a while and little is wasted. */
final class LeaseSize {
  private static final int SMALLEST = 10;
  private static final int SNOWFLAKES_MAX = 100_000;

  private final long lastsNanos;
  private final int min;
  private final int max;
  private long last;
  private long askedAt;
  private long used;
  private boolean askedBefore;
  /** The size of the next lease, after a node refused a larger one, or 0. */
  private int countMax;

  private LeaseSize(long lastsNanos, int first, int min, int max, long now) {
    this.lastsNanos = lastsNanos;
    this.min = Math.min(min, max);
    this.max = max;
    this.last = Math.min(first, max);
    this.askedAt = now;
  }

  /** Begins with 100 ids; a lease should last ten seconds, which is longer than an election. */
  static LeaseSize ofTag(int leaseMax, long now) {
    return new LeaseSize(10_000_000_000L, 100, SMALLEST, leaseMax, now);
  }

  /** Begins with one id; a lease should last half a second, because it is thrown away after one. */
  static LeaseSize ofSnowflakes(int leaseMax, long now) {
    return new LeaseSize(500_000_000L, 1, 1, Math.min(leaseMax, SNOWFLAKES_MAX), now);
  }

  /** Notes that ids were handed out. */
  void used(long ids) {
    used += ids;
  }

  /**
   * Returns the size of the lease to ask for, from the use since the last one.
   *
   * @param waiting ids that calls wait for, which come on top
   */
  int next(long waiting, long now) {
    if (countMax > 0) {
      int size = countMax;
      countMax = 0;
      used = 0;
      askedAt = now;
      return size;
    }
    long elapsed = Math.max(1_000_000L, now - askedAt);
    if (askedBefore) {
      double wanted = (double) used * lastsNanos / elapsed;
      double bounded = Math.max(last / 4.0, Math.min(last * 4.0, wanted));
      last = (long) Math.max(min, Math.min(max, bounded));
    }
    askedBefore = true;
    used = 0;
    askedAt = now;
    return (int) Math.min(max, last + waiting);
  }

  /** Makes the next lease one of so many ids, after a node said that one request gets no more. */
  void atMost(int countMax) {
    this.countMax = countMax;
    last = Math.min(last, countMax);
  }

  /** Halves the next lease, after a node said that the tag's rate limit does not allow so many. */
  void halve() {
    last = Math.max(min, last / 2);
  }
}

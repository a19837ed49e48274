package io.mintleaf.client;

import java.util.List;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;

/**
 * Makes snowflake ids in process, by the worker id of a lease. No request is sent for an id.
 *
 * <p>Ids rise. They show the time of the nodes: where the lease began, and the time since then by the monotonic clock,
 * so that clocks that jump change nothing. A burst of more ids than a millisecond has runs ahead of that time, as far as
 * the lease reaches. When the pool renews the lease no more, the generator goes on with another one of the pool.
 *
 * <p>Safe for use by many threads.
 */
public final class WorkerSnowflakes {
  static final long EPOCH_MS = 1288834974657L;
  static final int WORKER_BITS = 10;
  static final int SEQUENCE_BITS = 12;
  private static final int LOW_BITS_MAX = 22;

  private final WorkerLeases leases;
  private final FlightControl control;
  private final LeaseTerms terms;
  /** The lease that the program holds. */
  private final WorkerLease first;
  private final long epochMs;
  private final int workerBits;
  private final int sequenceBits;
  private final Stamps stamps = new Stamps();

  // Guarded by the stamps, as all below.
  /** The lease that ids come from: the first, or another one that took its place. */
  private WorkerLease lease;
  /** The last millisecond that was stamped. */
  private long lastMs;
  private boolean replacing;
  private boolean closed;
  private MintleafException lastAttempt;

  WorkerSnowflakes(
      WorkerLeases leases,
      LeaseTerms terms,
      WorkerLease lease,
      long stampedMs,
      long epochMs,
      int workerBits,
      int sequenceBits) {
    if (workerBits < 1 || sequenceBits < 1 || workerBits + sequenceBits > LOW_BITS_MAX) {
      throw new IllegalArgumentException(
          "worker id and sequence have 1 bit or more each, and " + LOW_BITS_MAX + " together at most");
    }
    this.leases = leases;
    this.control = leases.control;
    this.terms = terms;
    this.first = lease;
    this.lease = lease;
    this.lastMs = stampedMs;
    this.epochMs = epochMs;
    this.workerBits = workerBits;
    this.sequenceBits = sequenceBits;
    checkFits(lease);
  }

  /**
   * Returns the next id.
   *
   * @return an id from 1 to 2^63-1, above every one that was returned before this call began
   * @throws MintleafException if the lease has no millisecond left until the deadline of calls
   */
  public long nextId() {
    long id = stamps.nextFresh(control.ticker);
    return id != 0 ? id : stamps.refill(Thread.currentThread());
  }

  /**
   * Returns the worker id of the ids that come next.
   *
   * @return that of the lease, or of the one that took its place
   */
  public int workerId() {
    synchronized (stamps) {
      return lease.workerId();
    }
  }

  boolean hasLayout(long epochMs, int workerBits, int sequenceBits) {
    return this.epochMs == epochMs && this.workerBits == workerBits && this.sequenceBits == sequenceBits;
  }

  private void checkFits(WorkerLease lease) {
    if (lease.workerId() >>> workerBits != 0) {
      throw new IllegalArgumentException(
          "the worker id " + lease.workerId() + " of the pool " + lease.pool() + " does not fit " + workerBits + " bits");
    }
    if (lease.fromMs() <= epochMs) {
      throw new IllegalArgumentException("the epoch " + epochMs + " is not before the lease");
    }
  }

  /** The ids of one millisecond, which all threads share until it is over or they are used up. */
  private final class Stamps extends Dispenser {
    private boolean isEnding;

    @Override
    synchronized long refill(Thread thread) {
      long deadline = control.deadline();
      while (true) {
        if (closed) {
          throw MintleafException.leaseClosed();
        }
        long now = control.ticker.nanos();
        long id = nextFresh(control.ticker);
        if (id == 0) {
          id = stampNext(now);
        }
        if (id != 0) {
          return id;
        }
        if (deadline - now <= 0) {
          throw MintleafException.unavailable(
              "the lease is used up" + (lastAttempt == null ? "" : ", and " + lastAttempt.getMessage()));
        }
        awaitChange(deadline - now);
      }
    }

    /** Stamps another millisecond and returns its first id, or 0 if the lease has none. */
    private long stampNext(long now) {
      long nowMs = lease.nowMs(now);
      long ms = Math.max(lastMs + 1, nowMs);
      long time = ms - epochMs;
      boolean isShown = time <= Long.MAX_VALUE >> workerBits + sequenceBits;
      if (!isShown || !lease.stamp(ms)) {
        return 0;
      }
      // A burst loses no id by it, and the ids of slow times spread evenly over any number of shards.
      long sequence = ms == nowMs ? ThreadLocalRandom.current().nextLong(1L << sequenceBits) : 0;
      lastMs = ms;
      long first = (time << workerBits | lease.workerId()) << sequenceBits | sequence;
      // A burst that is ahead of the time need not look at it, which takes longer than all else.
      boolean isAhead = ms > nowMs;
      share(new IdRange(first, (1L << sequenceBits) - sequence).after(1), lease.endOf(ms), !isAhead);
      if (isAhead && !isEnding) {
        endIn(lease.endOf(ms) - now);
      }
      return first;
    }

    private void endIn(long nanos) {
      isEnding = true;
      control.threads.timer().schedule(this::endIfOver, nanos, TimeUnit.NANOSECONDS);
    }

    /** Takes a millisecond away from calls that do not look at the time, once it is over. */
    private synchronized void endIfOver() {
      isEnding = false;
      long left = lease.endOf(lastMs) - control.ticker.nanos();
      if (left > 0 && !closed) {
        endIn(left);
      } else {
        discard();
      }
    }

    private void awaitChange(long nanos) {
      try {
        TimeUnit.NANOSECONDS.timedWait(this, nanos);
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
        throw MintleafException.interrupted();
      }
    }
  }

  /** Lets waiting calls look at the lease again. */
  void leaseChanged() {
    synchronized (stamps) {
      lastAttempt = null;
      stamps.notifyAll();
    }
  }

  /** Notes what a request met, to be said by a call that gets no id. */
  void attemptFailed(MintleafException why) {
    synchronized (stamps) {
      lastAttempt = why;
    }
  }

  /** Goes on with another lease of the pool as soon as there is one, if ids come from this one. */
  void replace(WorkerLease used) {
    synchronized (stamps) {
      if (closed || replacing || lease != used) {
        return;
      }
      replacing = true;
    }
    ask();
  }

  private void ask() {
    if (!isClosed()) {
      control.beginUntilOver(terms.lease(), new Replacement());
    }
  }

  private void goOnWith(WorkerLease next) {
    checkFits(next);
    next.stampedBy(this);
    WorkerLease unused = next;
    synchronized (stamps) {
      if (!closed) {
        unused = lease;
        lease = next;
        replacing = false;
      }
    }
    if (unused != first) {
      unused.stampedBy(null);
      unused.end();
    }
    leaseChanged();
    if (next.isLost()) {
      replace(next);
    }
  }

  /**
   * Ends the generator, so that it stamps nothing more.
   *
   * @param ending the lease that ends; another one that has taken its place ends with it
   * @param calls where requests go that give leases back
   */
  void end(WorkerLease ending, List<Call> calls) {
    WorkerLease last;
    synchronized (stamps) {
      last = closed || lease == ending ? null : lease;
      closed = true;
      stamps.discard();
      stamps.notifyAll();
    }
    if (last != null) {
      calls.addAll(last.end());
    }
  }

  private boolean isClosed() {
    synchronized (stamps) {
      return closed;
    }
  }

  /** The request for another lease, which is tried until a node grants one. */
  private final class Replacement implements Flight.Goal {
    @Override
    public boolean isOver() {
      return isClosed();
    }

    @Override
    public void answered(Answer answer) throws MalformedAnswer {
      WorkerLease next = leases.taken(terms, answer);
      try {
        goOnWith(next);
      } catch (IllegalArgumentException e) {
        next.end();
        refused(new MintleafException("unavailable", 0, e.getMessage()));
      }
    }

    @Override
    public void refused(MintleafException why) {
      WorkerSnowflakes.this.attemptFailed(why);
      control.againAfterRefusal(WorkerSnowflakes.this::ask);
    }

    @Override
    public void attemptFailed(MintleafException why) {
      WorkerSnowflakes.this.attemptFailed(why);
    }

    @Override
    public void gaveUp() {
      // The generator is closed.
    }
  }
}

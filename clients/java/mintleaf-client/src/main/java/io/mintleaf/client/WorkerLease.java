package io.mintleaf.client;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;

/**
 * A worker id that no other process has, for generators of snowflake ids.
 *
 * <p>The Unix milliseconds from {@link #fromMs} up to, and without, {@link #untilMs} belong to the holder for ever,
 * together with the worker id: a program that asks {@link #mayStamp} before each id repeats none, whatever a clock shows
 * and however long it was paused. The lease renews itself, so that {@link #untilMs} moves on.
 *
 * <p>Keep one for a process, and {@link #close} it when the program ends. Use either {@link #mayStamp} for a generator
 * of the program's own or {@link #generator}: once the lease has its generator, all milliseconds are the generator's.
 */
public final class WorkerLease implements AutoCloseable {
  private final WorkerLeases leases;
  private final LeaseTerms terms;
  private final int workerId;
  private final String name;
  private final long fromMs;
  /** When the answer came that granted the lease, on the ticker. */
  private final long granted;

  private long untilMs;
  /** The highest millisecond that was granted. */
  private long lastMs;
  private boolean lost;
  private boolean closed;
  private WorkerSnowflakes generator;

  WorkerLease(WorkerLeases leases, LeaseTerms terms, Window window, long granted) {
    this.leases = leases;
    this.terms = terms;
    this.workerId = window.workerId;
    this.name = window.lease;
    this.fromMs = window.fromMs;
    this.granted = granted;
    this.untilMs = window.untilMs;
    this.lastMs = window.fromMs - 1;
  }

  /**
   * Returns the pool that the worker id is from.
   *
   * @return the name
   */
  public String pool() {
    return terms.pool;
  }

  /**
   * Returns the worker id.
   *
   * @return 0 to 65,535, within what the pool has
   */
  public int workerId() {
    return workerId;
  }

  /**
   * Returns the first millisecond that may be stamped.
   *
   * @return Unix time
   */
  public long fromMs() {
    return fromMs;
  }

  /**
   * Returns the first millisecond that may not be stamped as of now. It only rises.
   *
   * @return Unix time
   */
  public synchronized long untilMs() {
    return untilMs;
  }

  /**
   * Returns whether the holder may stamp a millisecond with the worker id. No clock is read.
   *
   * @param ms Unix time
   * @return true exactly if the lease is not closed, has no generator, and the time is from {@link #fromMs} on and before
   *     {@link #untilMs}
   */
  public synchronized boolean mayStamp(long ms) {
    return generator == null && stamp(ms);
  }

  /** Grants a millisecond to the program, or to the generator. */
  synchronized boolean stamp(long ms) {
    if (closed || ms < fromMs || ms >= untilMs) {
      return false;
    }
    lastMs = Math.max(lastMs, ms);
    return true;
  }

  /**
   * Returns whether the pool renews the lease no more. What it has granted stays the holder's until {@link #untilMs}.
   *
   * @return true once a node has said so
   */
  public synchronized boolean isLost() {
    return lost;
  }

  /**
   * Returns the generator of this lease in the usual layout: 41 bits of time since 1288834974657, 10 of the worker
   * id, 12 of a sequence. It stamps no millisecond that {@link #mayStamp} has granted before.
   *
   * @return the same object for each call
   * @throws IllegalArgumentException if the worker id is above 1023
   */
  public WorkerSnowflakes generator() {
    return generator(WorkerSnowflakes.EPOCH_MS, WorkerSnowflakes.WORKER_BITS, WorkerSnowflakes.SEQUENCE_BITS);
  }

  /**
   * Returns the generator of this lease in a layout of the program's own.
   *
   * @param epochMs the Unix millisecond that ids count from; before {@link #fromMs}
   * @param workerBits bits of the worker id, 1 to 21
   * @param sequenceBits bits of the sequence, 1 to 21; together with those of the worker id 22 at most
   * @return the same object for each call
   * @throws IllegalArgumentException if the layout is out of bounds or the worker id does not fit
   * @throws IllegalStateException if the lease has a generator in another layout
   */
  public WorkerSnowflakes generator(long epochMs, int workerBits, int sequenceBits) {
    WorkerSnowflakes made;
    synchronized (this) {
      if (generator == null) {
        generator = new WorkerSnowflakes(leases, terms, this, lastMs, epochMs, workerBits, sequenceBits);
      }
      made = generator;
    }
    if (!made.hasLayout(epochMs, workerBits, sequenceBits)) {
      throw new IllegalStateException("the lease has a generator in another layout, and a second might repeat its ids");
    }
    if (isLost()) {
      made.replace(this);
    }
    return made;
  }

  /**
   * Ends the lease and its generator, and gives back what was not stamped. Waits for a node no longer than one attempt
   * may take; without its answer the lease runs out by itself. A second close does nothing.
   */
  @Override
  public void close() {
    leases.await(end());
  }

  /** Ends the lease and its generator, and begins to give back what was not stamped. */
  List<Call> end() {
    List<Call> calls = new ArrayList<>();
    WorkerSnowflakes stamping = generatorNow();
    if (stamping != null) {
      stamping.end(this, calls);
    }
    long last;
    synchronized (this) {
      last = closed || lost ? -1 : lastMs;
      closed = true;
    }
    leases.drop(this);
    try {
      if (last >= 0) {
        calls.add(leases.giveBack(terms, name, last));
      }
    } catch (MintleafException e) {
      // No request can be sent any more: the lease runs out by itself.
    }
    return calls;
  }

  /** Returns what nodes call the lease, which proves its holder. */
  String name() {
    return name;
  }

  private synchronized boolean isClosed() {
    return closed;
  }

  private synchronized WorkerSnowflakes generatorNow() {
    return generator;
  }

  /** Names the generator that learns when the lease is renewed or lost, and that ends with it; or null. */
  synchronized void stampedBy(WorkerSnowflakes generator) {
    this.generator = generator;
  }

  /** Returns the millisecond that it is by the lease's own reckoning, which no clock that jumps can move. */
  long nowMs(long nanos) {
    return fromMs + TimeUnit.NANOSECONDS.toMillis(nanos - granted);
  }

  /** Returns when a millisecond ends, on the ticker. */
  long endOf(long ms) {
    return granted + TimeUnit.MILLISECONDS.toNanos(ms - fromMs + 1) - 1;
  }

  /** Renews the lease when half of its time has passed. */
  void renewInTime() {
    leases.control.threads.executeAfter(this::renew, TimeUnit.SECONDS.toNanos(terms.seconds) / 2);
  }

  private void renew() {
    if (!isClosed()) {
      leases.control.beginUntilOver(terms.renew(name), new Renewal());
    }
  }

  private void renewed(Window window) {
    boolean isBehind;
    synchronized (this) {
      untilMs = Math.max(untilMs, window.untilMs);
      isBehind = untilMs <= nowMs(leases.control.ticker.nanos());
    }
    WorkerSnowflakes stamping = generatorNow();
    if (stamping != null) {
      stamping.leaseChanged();
      if (isBehind) {
        stamping.replace(this); // this process's clock runs ahead of the nodes', by more than a lease
      }
    }
  }

  private void lose() {
    synchronized (this) {
      lost = true;
    }
    WorkerSnowflakes stamping = generatorNow();
    if (stamping != null) {
      stamping.replace(this);
    }
  }

  /** One renewal, which is tried until a node answers. */
  private final class Renewal implements Flight.Goal {
    @Override
    public boolean isOver() {
      return isClosed();
    }

    @Override
    public void answered(Answer answer) throws MalformedAnswer {
      Window window = Window.read(answer);
      if (window.workerId != workerId || !window.lease.equals(name)) {
        throw new MalformedAnswer("another lease");
      }
      renewed(window);
      renewInTime();
    }

    @Override
    public void refused(MintleafException why) {
      if (why.status() == 404 || why.status() == 409) {
        lose();
      } else {
        leases.control.againAfterRefusal(WorkerLease.this::renew);
      }
    }

    @Override
    public void attemptFailed(MintleafException why) {
      WorkerSnowflakes stamping = generatorNow();
      if (stamping != null) {
        stamping.attemptFailed(why);
      }
    }

    @Override
    public void gaveUp() {
      // The lease is closed.
    }
  }
}

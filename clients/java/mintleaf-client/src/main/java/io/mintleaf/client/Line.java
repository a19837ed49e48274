package io.mintleaf.client;

import java.util.ArrayDeque;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.Set;

/**
 * One tag, or the snowflakes: the leases that are held of it, and the calls that wait.
 *
 * <p>The rules are those of {@code docs/clients.md}. Everything that is not said to be without a lock is
 * guarded by the line itself, and nothing is waited for with the lock held.
 */
final class Line extends Dispenser {
  /** What the answers about a line have said of it. */
  private enum Shape {
    UNKNOWN,
    LEASED,
    /** Each call asks for itself and nothing is kept. */
    SINGLE
  }

  private static final int WAITING_MAX = 10_000;
  private static final int BLOCK_MAX = 65_536;
  private static final int PARTS = 8;
  /** Leases of lines that are used less than this often are not spread over threads, so that ids rise. */
  private static final int OWNED_FROM = 10_000;

  /** Leases of fewer ids are followed by none ahead. */
  private static final int AHEAD_FROM = 3;

  /** The tag, or null where lines are not found by tag. */
  final String tag;
  private final FlightControl control;
  private final String path;
  /** Whether answers may tell the line's shape; else it stays as it was made. */
  private final boolean tellsShape;
  /** How long ids may be kept, or 0 for ever. */
  private final long freshNanos;
  private final LeaseSize size;
  private final LeaseBuffer buffer = new LeaseBuffer();
  private final ArrayDeque<IdsCall> waiting = new ArrayDeque<>();
  /** Calls that ask for themselves, and have not ended. */
  private final Set<Call> alone = Collections.newSetFromMap(new IdentityHashMap<>());

  private volatile Shape shape;
  private boolean inFlight;
  private boolean closed;

  private Line(FlightControl control, String tag, String path, Shape shape, long freshNanos, LeaseSize size) {
    this.control = control;
    this.tag = tag;
    this.path = path;
    this.shape = shape;
    this.tellsShape = shape == Shape.UNKNOWN;
    this.freshNanos = freshNanos;
    this.size = size;
  }

  static Line ofTag(FlightControl control, String tag, int leaseMax) {
    return new Line(control, tag, pathOf(tag), Shape.UNKNOWN, 0,
        LeaseSize.ofTag(leaseMax, control.ticker.nanos()));
  }

  static String pathOf(String tag) {
    return "/v1/segment/" + Names.escape(tag);
  }

  /** Returns the request for ids one by one. */
  static Request requestOf(String path, int count) {
    return Request.get(path + "?count=" + count);
  }

  /** Makes the line of all calls that nothing is ever held for, each with a request of its own. */
  static Line withoutLease(FlightControl control) {
    return new Line(control, null, null, Shape.SINGLE, 0, LeaseSize.ofTag(1, control.ticker.nanos()));
  }

  static Line ofSnowflakes(FlightControl control, int leaseMax, long freshNanos) {
    return new Line(control, null, "/v1/snowflake", Shape.LEASED, freshNanos,
        LeaseSize.ofSnowflakes(leaseMax, control.ticker.nanos()));
  }

  /** Returns whether ids of the line are plain numbers that may be held, as far as is known. Without the lock. */
  boolean isLeased() {
    return shape == Shape.LEASED;
  }

  /** Returns whether the next call is answered from what is held. */
  synchronized boolean isHolding() {
    return !buffer.isEmpty() || holdsAny();
  }

  /** Begins a call that asks for itself, whatever is held. */
  <T extends Call> T callAlone(Request request, T call) {
    synchronized (this) {
      admit();
      askAlone(request, call);
    }
    return call;
  }

  /**
   * Begins a call, which is answered at once from what is held, or waits in turn.
   *
   * @return the call; the caller awaits it
   */
  IdsCall call(int count, long deadline) {
    IdsCall call = new IdsCall(count, deadline);
    IdRange owned;
    while (call.missing() > 0 && (owned = takeOwned(call.missing())) != null) {
      call.give(owned);
    }
    if (call.missing() > 0) {
      enqueue(call);
    }
    return call;
  }

  private synchronized void enqueue(IdsCall call) {
    if (closed) {
      throw MintleafException.closed();
    }
    dropEnded();
    if (waiting.isEmpty()) {
      fill(call);
    }
    if (call.isOver()) {
      leaseAheadIfDue();
      return;
    }
    admit();
    if (shape == Shape.SINGLE) {
      call.forget();
      askAlone(call);
    } else {
      waiting.add(call);
      askIfNeeded();
    }
  }

  /** Lets a call wait, unless too many do. */
  private void admit() {
    if (closed) {
      throw MintleafException.closed();
    }
    if (waiting.size() + alone.size() >= WAITING_MAX) {
      waiting.removeIf(Call::isOver);
    }
    if (waiting.size() + alone.size() >= WAITING_MAX) {
      throw new MintleafException("overloaded", 0, WAITING_MAX + " calls wait for these ids already");
    }
    control.stats.waited();
  }

  /** Returns one id, and puts a part of the lease where {@link #next} finds it. */
  @Override
  long refill(Thread thread) {
    IdsCall call;
    synchronized (this) {
      long id = closed || !waiting.isEmpty() ? 0 : takeFirst(thread);
      if (id != 0) {
        leaseAheadIfDue();
        return id;
      }
      call = new IdsCall(1, control.deadline());
      enqueue(call);
    }
    call.await(control.ticker);
    return call.numbers()[0];
  }

  private long takeFirst(Thread thread) {
    if (freshNanos > 0) {
      dropOld();
    }
    IdRange shared = takeShared(1);
    if (shared != null) {
      return shared.first;
    }
    IdRange part = reclaim();
    if (part == null) {
      part = cut(Math.max(1, Math.min(BLOCK_MAX, buffer.currentSize() / PARTS)));
    }
    if (part == null) {
      return 0;
    }
    IdRange rest = part.after(1);
    boolean owned = rest != null && freshNanos == 0 && buffer.currentSize() >= OWNED_FROM && own(thread, rest);
    if (!owned) {
      share(rest, buffer.expires());
    }
    return part.first;
  }

  private IdRange cut(long max) {
    IdRange part = buffer.cut(max);
    if (part != null) {
      size.used(part.size);
    }
    return part;
  }

  private void dropOld() {
    long now = control.ticker.nanos();
    buffer.dropOlderThan(now);
    dropSharedOlderThan(now);
  }

  /** Gives the call what is held, as far as it goes. */
  private void fill(IdsCall call) {
    if (freshNanos > 0) {
      dropOld();
    }
    while (!call.isOver()) {
      int missing = call.missing();
      IdRange part = takeShared(missing);
      part = part != null ? part : cut(missing);
      part = part != null ? part : reclaimUpTo(missing);
      if (part == null) {
        return;
      }
      call.give(part);
    }
  }

  private IdRange reclaimUpTo(int count) {
    IdRange left = reclaim();
    if (left == null) {
      return null;
    }
    share(left.after(count), buffer.expires());
    return new IdRange(left.first, Math.min(count, left.size));
  }

  /** Gives the calls that wait what is held, in turn. */
  private void serve() {
    while (dropEnded()) {
      fill(waiting.peek());
      if (!waiting.peek().isOver()) {
        return;
      }
    }
  }

  /** Returns whether a call waits. */
  private boolean dropEnded() {
    while (!waiting.isEmpty() && waiting.peek().isOver()) {
      waiting.poll();
    }
    return !waiting.isEmpty();
  }

  private void askIfNeeded() {
    if (inFlight || !dropEnded()) {
      return;
    }
    IdsCall first = waiting.peek();
    if (shape == Shape.UNKNOWN) {
      askForShape(first);
    } else {
      askForLease(first.deadline);
    }
  }

  private void leaseAheadIfDue() {
    // Who wants an id now and then is better off with one request for each.
    boolean worthIt = buffer.currentSize() >= AHEAD_FROM;
    if (shape == Shape.LEASED && !inFlight && worthIt && buffer.wantsMore()) {
      askForLease(control.ticker.nanos() + FlightControl.AHEAD_NANOS);
    }
  }

  private void askForLease(long deadline) {
    long wanted = 0;
    for (IdsCall call : waiting) {
      wanted += call.isOver() ? 0 : call.missing();
    }
    int count = size.next(wanted, control.ticker.nanos());
    Request request = Request.get(path + "?count=" + count + "&format=ranges");
    control.begin(request, deadline, new LeaseGoal(this, count));
    inFlight = true;
  }

  private void askForShape(IdsCall call) {
    control.begin(requestOf(path, call.missing()), call.deadline, new ShapeGoal(this, call));
    inFlight = true;
  }

  private void askAlone(IdsCall call) {
    askAlone(requestOf(path, call.wanted), call);
  }

  private void askAlone(Request request, Call call) {
    control.begin(request, call.deadline, new AloneGoal(this, call));
    alone.add(call);
  }

  /** Takes a lease, or learns from it that the line has none. */
  synchronized void leaseCame(Ids ids, int count) {
    if (closed) {
      return;
    }
    if (ids.lease) {
      control.stats.lease(count);
      buffer.install(ids.ranges, control.ticker.nanos() + freshNanos);
    } else {
      becomeSingle();
    }
    landed();
    leaseAheadIfDue();
  }

  /** Takes the first answer about the line, which is for one call and tells the shape to all. */
  synchronized void shapeCame(Ids ids, IdsCall call) {
    if (closed) {
      return;
    }
    if (ids.lease) {
      shape = Shape.LEASED;
      size.used(ids.texts.length);
      waiting.remove(call);
      call.giveLast(ids.texts);
    } else {
      if (ids.texts.length == call.wanted) {
        waiting.remove(call);
        call.give(ids.texts);
      }
      becomeSingle();
    }
    landed();
  }

  /** Ends a flight for a lease or for the shape with a refusal, which calls that wait are told. */
  synchronized void refused(MintleafException why) {
    forgetShapeAfter(why);
    waiting.forEach(call -> call.fail(why));
    buffer.aheadFailed();
    landed();
  }

  /** Ends a flight for a lease of more ids than one request may have, and asks for as many as it may. */
  synchronized void askedForTooMany(int countMax) {
    if (closed) {
      return;
    }
    size.atMost(countMax);
    landed();
    leaseAheadIfDue();
  }

  /** Ends a flight for a lease or for the shape at its deadline. */
  synchronized void gaveUp() {
    long now = control.ticker.nanos();
    waiting.forEach(call -> call.endIfLate(now));
    buffer.aheadFailed();
    landed();
  }

  /** Notes a failed attempt, of which calls are told if they end before a better one. */
  synchronized void attemptFailed(MintleafException why) {
    if (why.code().equals("rate_limited")) {
      size.halve();
    }
    waiting.forEach(call -> call.attemptFailed(why));
  }

  /** Ends the flight of a call that asked for itself. */
  synchronized void aloneEnded(Call call, MintleafException why) {
    alone.remove(call);
    if (why != null) {
      forgetShapeAfter(why);
    }
  }

  private void forgetShapeAfter(MintleafException why) {
    if (tellsShape && (why.status() == 400 || why.status() == 404)) {
      shape = Shape.UNKNOWN;
    }
  }

  /** Begins what the calls that still wait need. */
  private void landed() {
    inFlight = false;
    if (!closed) {
      serve();
      askIfNeeded();
    }
  }

  private void becomeSingle() {
    shape = Shape.SINGLE;
    buffer.clear();
    discard();
    while (dropEnded()) {
      IdsCall call = waiting.poll();
      call.forget();
      askAlone(call);
    }
  }

  /** Ends all calls that wait, and drops what is held. */
  synchronized boolean isClosed() {
    return closed;
  }

  synchronized void close() {
    closed = true;
    buffer.clear();
    discard();
    waiting.forEach(call -> call.fail(MintleafException.closed()));
    alone.forEach(call -> call.fail(MintleafException.closed()));
    waiting.clear();
    alone.clear();
  }
}

package io.mintleaf.client;

import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.logging.Level;
import java.util.logging.Logger;

/** Chooses which node is asked next. */
final class Endpoints {
  private static final Logger LOG = Logger.getLogger(MintleafClient.class.getName());
  static final long REST_MAX_NANOS = TimeUnit.SECONDS.toNanos(5);
  private static final long REST_MIN_NANOS = TimeUnit.MILLISECONDS.toNanos(50);

  private final List<Endpoint> inOrder;
  private final String zone;
  private final Random random;
  /** Once these are all endpoints, no node answers: that and its end are logged, once each. Guarded by itself. */
  private final Set<Endpoint> failedSinceAnAnswer = new HashSet<>();
  /** Guarded by the set: when the last of these failed. */
  private long outageBegan;
  /** Guarded by the set. */
  private boolean closed;

  /**
   * Puts the endpoints in a random order, so that many clients spread over the nodes.
   *
   * @param zone the zone whose endpoints come first, or null
   */
  Endpoints(List<Endpoint> endpoints, String zone, Random random) {
    this.inOrder = new ArrayList<>(endpoints);
    this.zone = zone;
    this.random = random;
    Collections.shuffle(inOrder, random);
  }

  List<Endpoint> all() {
    return Collections.unmodifiableList(inOrder);
  }

  String zone() {
    return zone;
  }

  /** Returns the first endpoint that does not rest; if all do, the one whose rest ends first. */
  Endpoint pick(long now) {
    Endpoint best = null;
    Endpoint soonest = null;
    for (Endpoint endpoint : inOrder) {
      if (endpoint.restEnds(now) - now <= 0) {
        if (isNear(endpoint)) {
          return endpoint;
        }
        best = best == null ? endpoint : best;
      } else if (soonest == null || endpoint.restEnds(now) - soonest.restEnds(now) < 0) {
        soonest = endpoint;
      }
    }
    return best == null ? soonest : best;
  }

  /**
   * Notes an answer that is no failure.
   *
   * @param begun when the attempt began: one that began before no node answered says nothing of that outage's end
   */
  void answered(Endpoint endpoint, long begun) {
    endpoint.answered();
    boolean allHadFailed;
    synchronized (failedSinceAnAnswer) {
      allHadFailed = failedSinceAnAnswer.size() == inOrder.size();
      if (allHadFailed && begun - outageBegan < 0) {
        return;
      }
      failedSinceAnAnswer.clear();
    }
    if (allHadFailed) {
      LOG.log(Level.INFO, "a node answers again: {0}", endpoint);
    }
  }

  /** Notes a failed attempt, after which the endpoint rests. */
  void failed(Endpoint endpoint, long begun, long now, long atLeastNanos, MintleafException why) {
    endpoint.failed(begun, now, 0.5 + random.nextDouble() / 2, atLeastNanos);
    boolean isTheLast;
    synchronized (failedSinceAnAnswer) {
      isTheLast = !closed && failedSinceAnAnswer.add(endpoint) && failedSinceAnAnswer.size() == inOrder.size();
      if (isTheLast) {
        outageBegan = now;
      }
    }
    if (isTheLast) {
      LOG.log(Level.WARNING, "no node answers, and ids last as long as the leases that are held: {0}", why.getMessage());
    }
  }

  /** Ends the log: a request that the closed client gives up says nothing of its node. */
  void close() {
    synchronized (failedSinceAnAnswer) {
      closed = true;
    }
  }

  /** Returns the longest rest after so many failures in a row: 50 ms, doubling up to 5 s. */
  static long restNanos(int failuresInARow) {
    int doublings = Math.min(failuresInARow - 1, 7);
    return Math.min(REST_MAX_NANOS, REST_MIN_NANOS << doublings);
  }

  private boolean isNear(Endpoint endpoint) {
    return zone == null || zone.equals(endpoint.zone());
  }
}

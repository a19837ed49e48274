package io.mintleaf.client;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import java.util.concurrent.TimeUnit;

/** Chooses which node is asked next. */
final class Endpoints {
  static final long REST_MAX_NANOS = TimeUnit.SECONDS.toNanos(5);
  private static final long REST_MIN_NANOS = TimeUnit.MILLISECONDS.toNanos(50);

  private final List<Endpoint> inOrder;
  private final String zone;
  private final Random random;

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

  void failed(Endpoint endpoint, long begun, long now, long atLeastNanos) {
    endpoint.failed(begun, now, 0.5 + random.nextDouble() / 2, atLeastNanos);
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

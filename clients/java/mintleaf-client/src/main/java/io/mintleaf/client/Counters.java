package io.mintleaf.client;

import java.util.concurrent.atomic.LongAdder;

/** Counts what a client does. No count is taken for each id. */
final class Counters {
  private final LongAdder requests = new LongAdder();
  private final LongAdder failures = new LongAdder();
  private final LongAdder leases = new LongAdder();
  private final LongAdder leasedIds = new LongAdder();
  private final LongAdder waits = new LongAdder();

  void request() {
    requests.increment();
  }

  void failure() {
    failures.increment();
  }

  void lease(long ids) {
    leases.increment();
    leasedIds.add(ids);
  }

  void waited() {
    waits.increment();
  }

  ClientStats snapshot() {
    return new ClientStats(requests.sum(), failures.sum(), leases.sum(), leasedIds.sum(), waits.sum());
  }
}

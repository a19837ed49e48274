package io.mintleaf.client;

import java.util.ArrayList;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Set;

/** The leases of worker ids that a client holds. */
final class WorkerLeases {
  final FlightControl control;
  private final Line asking;
  /** Calls of the closing client, which last longer than all others. */
  private final Line giving;
  /** Guarded by this. */
  private final Set<WorkerLease> held = Collections.newSetFromMap(new IdentityHashMap<>());
  /** Guarded by this. */
  private boolean closed;

  /**
   * Makes a client's leases, of which there are none yet.
   *
   * @param asking where calls wait whose answers are for themselves
   */
  WorkerLeases(FlightControl control, Line asking) {
    this.control = control;
    this.asking = asking;
    this.giving = Line.withoutLease(control);
  }

  /** Returns a lease of a pool, once it is there. */
  WorkerLease lease(LeaseTerms terms) {
    ValueCall<WorkerLease> call = new ValueCall<>(control.deadline(), answer -> taken(terms, answer));
    asking.callAlone(terms.lease(), call).await(control.ticker);
    return call.value();
  }

  /** Takes the lease that an answer grants. It is renewed from now on; if the client is closed, it is given back. */
  WorkerLease taken(LeaseTerms terms, Answer answer) throws MalformedAnswer {
    WorkerLease lease = new WorkerLease(this, terms, Window.read(answer), control.ticker.nanos());
    boolean isLate;
    synchronized (this) {
      isLate = closed || !held.add(lease);
    }
    if (isLate) {
      lease.end();
    } else {
      lease.renewInTime();
    }
    return lease;
  }

  /** Begins to give a lease back, of which nothing later than {@code lastMs} was granted. */
  Call giveBack(LeaseTerms terms, String name, long lastMs) {
    Call call = new ValueCall<Void>(control.ticker.nanos() + control.attemptNanos, answer -> null);
    return giving.callAlone(terms.giveBack(name, lastMs), call);
  }

  synchronized void drop(WorkerLease lease) {
    held.remove(lease);
  }

  /** Waits until leases were given back, or until they run out by themselves. */
  void await(List<Call> calls) {
    for (Call call : calls) {
      try {
        call.await(control.ticker);
      } catch (MintleafException e) {
        // The pool gets the worker id back when the lease is over.
      }
    }
  }

  /** Begins to give all leases back, and returns the calls of that. */
  List<Call> end() {
    List<WorkerLease> all;
    synchronized (this) {
      closed = true;
      all = new ArrayList<>(held);
    }
    List<Call> calls = new ArrayList<>();
    all.forEach(lease -> calls.addAll(lease.end()));
    return calls;
  }

  void close() {
    giving.close();
  }
}

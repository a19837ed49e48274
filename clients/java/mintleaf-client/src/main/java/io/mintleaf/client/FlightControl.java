package io.mintleaf.client;

import java.util.concurrent.TimeUnit;

/** What the flights of a client share. */
final class FlightControl {
  /** How long a lease ahead may take, which no call waits for yet. */
  static final long AHEAD_NANOS = TimeUnit.SECONDS.toNanos(10);
  private static final long REFUSED_REST_NANOS = TimeUnit.SECONDS.toNanos(1);
  /** So far away that a flight's goal is over before. */
  private static final long UNTIL_OVER_NANOS = Long.MAX_VALUE / 2;

  final Ticker ticker;
  final Endpoints endpoints;
  final Transport transport;
  final RequestThreads threads;
  final Counters stats;
  final long attemptNanos;
  private final long callNanos;

  FlightControl(
      Ticker ticker,
      Endpoints endpoints,
      Transport transport,
      RequestThreads threads,
      Counters stats,
      long attemptNanos,
      long callNanos) {
    this.ticker = ticker;
    this.endpoints = endpoints;
    this.transport = transport;
    this.threads = threads;
    this.stats = stats;
    this.attemptNanos = attemptNanos;
    this.callNanos = callNanos;
  }

  /** Returns when a call that begins now ends at the latest. */
  long deadline() {
    return ticker.nanos() + callNanos;
  }

  /** Begins a flight that goes on until a node answers or its goal is over, and returns at once. */
  void beginUntilOver(Request request, Flight.Goal goal) {
    begin(request, ticker.nanos() + UNTIL_OVER_NANOS, goal);
  }

  /** Runs the task some time after a refusal that may not last. */
  void againAfterRefusal(Runnable task) {
    threads.executeAfter(task, REFUSED_REST_NANOS);
  }

  /** Begins a flight and returns at once. */
  void begin(Request request, long deadline, Flight.Goal goal) {
    threads.execute(new Flight(this, request, deadline, goal));
  }
}

package io.mintleaf.client;

import java.io.IOException;
import java.util.concurrent.TimeUnit;

/**
 * The attempts for one lease, one renewal or one call, one after the other, until one is answered or the deadline
 * comes. Between attempts it holds no thread.
 */
final class Flight implements Runnable {
  /** What a flight is for. Each flight ends with one call of {@code answered}, {@code refused} or {@code gaveUp}. */
  interface Goal {
    /** Returns whether nobody wants the answer any more. */
    boolean isOver();

    /** Uses the answer, whose status says that all was done. A {@link MalformedAnswer} makes it a failed attempt. */
    void answered(Answer answer) throws MalformedAnswer;

    /** Ends without ids, as all nodes would say the same. */
    void refused(MintleafException why);

    /** Notes a failed attempt, after which the flight goes on. */
    void attemptFailed(MintleafException why);

    /** Ends without ids at the deadline. */
    void gaveUp();
  }

  private final FlightControl control;
  private final Goal goal;
  private final Request request;
  private final long deadline;
  private boolean attempted;
  /** The endpoint that said to wait until {@link #stayUntil}, or null. */
  private Endpoint stay;
  private long stayUntil;

  Flight(FlightControl control, Request request, long deadline, Goal goal) {
    this.control = control;
    this.request = request;
    this.deadline = deadline;
    this.goal = goal;
  }

  @Override
  public void run() {
    try {
      fly();
    } catch (RuntimeException e) {
      goal.refused(MintleafException.unavailable("the client itself failed: " + e));
    }
  }

  private void fly() {
    while (true) {
      long now = control.ticker.nanos();
      if (goal.isOver() || deadline - now <= 0) {
        goal.gaveUp();
        return;
      }
      Endpoint endpoint = stay != null ? stay : control.endpoints.pick(now);
      long from = stay != null ? stayUntil : attempted ? endpoint.restEnds(now) : now;
      if (from - now > 0) {
        control.threads.executeAfter(this, Math.min(from - now, deadline - now));
        return;
      }
      stay = null;
      attempted = true;
      if (attempt(endpoint, now)) {
        return;
      }
    }
  }

  /** Returns whether the flight has ended. */
  private boolean attempt(Endpoint endpoint, long begun) {
    long until = Math.min(deadline - begun, control.attemptNanos);
    control.stats.request();
    try {
      return judge(endpoint, begun, control.transport.send(endpoint, request, begun + until));
    } catch (IOException e) {
      MintleafException why = MintleafException.unavailable(endpoint + ": " + e.getMessage());
      boolean cutShort = until < control.attemptNanos && deadline - control.ticker.nanos() <= 0;
      if (!cutShort) { // else it has met nothing, and the call ends with what an attempt before it met
        failed(endpoint, begun, 0, why);
      }
      return false;
    }
  }

  private boolean judge(Endpoint endpoint, long begun, Answer answer) throws IOException {
    if (request.isDoneBy(answer.status)) {
      goal.answered(answer);
      control.endpoints.answered(endpoint, begun);
      return true;
    }
    MintleafException problem = answer.problem();
    if (answer.status == 429 && problem.code().equals("rate_limited")) {
      control.endpoints.answered(endpoint, begun);
      stay = endpoint;
      stayUntil = control.ticker.nanos() + TimeUnit.SECONDS.toNanos(Math.max(1, answer.retryAfterSeconds));
      goal.attemptFailed(problem);
      return false;
    }
    boolean elsewhere = answer.status == 429 || answer.status == 408 || answer.status < 400 || answer.status >= 500;
    if (elsewhere || problem.code().isEmpty()) { // every refusal of a node has a code
      long rest = TimeUnit.SECONDS.toNanos(Math.max(0, answer.retryAfterSeconds));
      failed(endpoint, begun, rest, MintleafException.unavailable(endpoint + ": " + answer.told()));
      return false;
    }
    control.endpoints.answered(endpoint, begun);
    goal.refused(problem);
    return true;
  }

  private void failed(Endpoint endpoint, long begun, long restNanos, MintleafException why) {
    control.stats.failure();
    control.endpoints.failed(endpoint, begun, control.ticker.nanos(), restNanos, why);
    goal.attemptFailed(why);
  }
}

package io.mintleaf.client;

import java.util.Map;

/** An answer about a lease of a worker id, checked: which it is, and the milliseconds that belong to its holder. */
final class Window {
  private static final int WORKER_ID_MAX = 65_535;

  final int workerId;
  final String lease;
  final long fromMs;
  final long untilMs;

  private Window(int workerId, String lease, long fromMs, long untilMs) {
    this.workerId = workerId;
    this.lease = lease;
    this.fromMs = fromMs;
    this.untilMs = untilMs;
  }

  static Window read(Answer answer) throws MalformedAnswer {
    Map<String, Object> members = answer.json();
    Object number = members.get("worker_id");
    double workerId = number instanceof Double ? (Double) number : -1;
    if (workerId < 0 || workerId > WORKER_ID_MAX || workerId != Math.rint(workerId)) {
      throw new MalformedAnswer("no worker id from 0 to " + WORKER_ID_MAX);
    }
    String lease = Answer.text(members, "lease");
    long fromMs = IdText.parse(Answer.text(members, "from_ms"));
    long untilMs = IdText.parse(Answer.text(members, "until_ms"));
    if (lease.isEmpty() || fromMs < 0 || untilMs <= fromMs) {
      throw new MalformedAnswer("no lease of a millisecond or more");
    }
    return new Window((int) workerId, lease, fromMs, untilMs);
  }
}

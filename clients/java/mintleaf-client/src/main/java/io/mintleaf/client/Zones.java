package io.mintleaf.client;

import java.io.IOException;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.TimeUnit;

/** Learns which zone each endpoint is in, every minute, while ids are handed out as ever. */
final class Zones implements Runnable {
  private static final long EVERY_NANOS = TimeUnit.SECONDS.toNanos(60);

  private static final Request CLUSTER = Request.get("/v1/cluster");

  private final FlightControl control;
  private final Random random;

  Zones(FlightControl control, Random random) {
    this.control = control;
    this.random = random;
  }

  @Override
  public void run() {
    for (Endpoint endpoint : control.endpoints.all()) {
      try {
        Answer answer =
            control.transport.send(endpoint, CLUSTER, control.ticker.nanos() + control.attemptNanos);
        if (answer.status == 200) {
          endpoint.zone(zoneIn(answer.json()));
        }
      } catch (IOException e) {
        // The zone stays as it was known last; requests for ids find out whether the node is there.
      }
    }
    control.threads.executeAfter(this, (long) (EVERY_NANOS * (0.9 + random.nextDouble() / 5)));
  }

  /**
   * Returns the zone of the node that gave this answer to {@code /v1/cluster}, or null if it is in none.
   *
   * @throws MalformedAnswer if the answer is not about that node
   */
  static String zoneIn(Map<String, Object> cluster) throws MalformedAnswer {
    Object me = cluster.get("node_id");
    Object nodes = cluster.get("nodes");
    if (me == null || !(nodes instanceof List)) {
      throw new MalformedAnswer("no nodes");
    }
    for (Object element : (List<?>) nodes) {
      Map<String, Object> node = Answer.object(element);
      if (me.equals(node.get("id"))) {
        Object zone = node.get("zone");
        return zone instanceof String ? (String) zone : null;
      }
    }
    throw new MalformedAnswer("not about the node itself");
  }
}

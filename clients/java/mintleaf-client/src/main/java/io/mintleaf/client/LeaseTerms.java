package io.mintleaf.client;

import java.lang.management.ManagementFactory;

/** What a program asks of a pool of worker ids. Immutable. */
final class LeaseTerms {
  static final int SECONDS_DEFAULT = 60;
  private static final int SECONDS_MIN = 5;
  private static final int SECONDS_MAX = 3_600;
  private static final int HOLDER_CHARACTERS_MAX = 128;

  final String pool;
  final int seconds;
  private final String path;
  private final String holder;

  /**
   * Checks what is asked for.
   *
   * @throws IllegalArgumentException if it is out of bounds
   */
  LeaseTerms(String pool, int seconds, String holder) {
    Names.checkTag(pool);
    if (seconds < SECONDS_MIN || seconds > SECONDS_MAX) {
      throw new IllegalArgumentException("a lease lasts " + SECONDS_MIN + " to " + SECONDS_MAX + " seconds");
    }
    if (holder.codePointCount(0, holder.length()) > HOLDER_CHARACTERS_MAX) {
      throw new IllegalArgumentException("a holder's name has " + HOLDER_CHARACTERS_MAX + " characters at most");
    }
    this.pool = pool;
    this.seconds = seconds;
    this.holder = holder;
    this.path = "/v1/pools/" + Names.escape(pool) + "/leases";
  }

  /** Returns the name of this process: its host's name and its number. */
  static String thisProcess() {
    String[] numberAtHost = ManagementFactory.getRuntimeMXBean().getName().split("@", 2);
    String name = numberAtHost[numberAtHost.length - 1] + "-" + numberAtHost[0];
    return name.substring(Math.max(0, name.length() - HOLDER_CHARACTERS_MAX));
  }

  Request lease() {
    return Request.post(path, "{\"seconds\":" + seconds + ",\"holder\":" + Json.quoted(holder) + "}");
  }

  Request renew(String lease) {
    return Request.post(path + "/" + Names.escape(lease), "{\"seconds\":" + seconds + "}");
  }

  Request giveBack(String lease, long lastMs) {
    return Request.delete(path + "/" + Names.escape(lease), "{\"last_ms\":\"" + lastMs + "\"}");
  }
}

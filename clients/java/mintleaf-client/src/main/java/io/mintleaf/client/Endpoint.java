package io.mintleaf.client;

import java.net.URI;
import java.net.URISyntaxException;

/** The base address of a node, and how requests to it have gone lately. */
final class Endpoint {
  final boolean https;
  final String host;
  final int port;

  /** The zone that the node said it is in, or null while unknown. */
  private volatile String zone;

  private int failuresInARow;
  private long lastFailure;
  private long restEnds;
  private boolean resting;

  private Endpoint(boolean https, String host, int port) {
    this.https = https;
    this.host = host;
    this.port = port;
  }

  /**
   * Reads {@code http://HOST:PORT} or {@code https://HOST:PORT}.
   *
   * @throws IllegalArgumentException if it is neither
   */
  static Endpoint parse(String url) {
    URI uri;
    try {
      uri = new URI(url.trim());
    } catch (URISyntaxException e) {
      throw notAnEndpoint(url);
    }
    boolean https = "https".equalsIgnoreCase(uri.getScheme());
    String path = uri.getRawPath();
    boolean bare = (path == null || path.isEmpty() || path.equals("/"))
        && uri.getRawQuery() == null && uri.getRawFragment() == null && uri.getRawUserInfo() == null;
    if (uri.getHost() == null || !bare || !(https || "http".equalsIgnoreCase(uri.getScheme()))) {
      throw notAnEndpoint(url);
    }
    int port = uri.getPort() >= 0 ? uri.getPort() : https ? 443 : 80;
    if (port < 1 || port > 65535) {
      throw notAnEndpoint(url);
    }
    return new Endpoint(https, uri.getHost(), port);
  }

  String zone() {
    return zone;
  }

  void zone(String zone) {
    this.zone = zone;
  }

  /** Returns when the endpoint's rest ends; {@code now} if it does not rest. */
  synchronized long restEnds(long now) {
    if (resting && restEnds - now <= 0) {
      resting = false;
    }
    return resting ? restEnds : now;
  }

  /** Notes an answer that is no failure. */
  synchronized void answered() {
    failuresInARow = 0;
    resting = false;
  }

  /**
   * Notes a failed attempt, after which the endpoint rests.
   *
   * @param begun when the attempt began: attempts that were under way together fail once
   * @param factor from 0.5 to 1, drawn at random
   * @param atLeastNanos what the node itself asked for, or 0
   */
  synchronized void failed(long begun, long now, double factor, long atLeastNanos) {
    if (failuresInARow > 0 && begun - lastFailure < 0) {
      return;
    }
    failuresInARow++;
    lastFailure = now;
    long rest = (long) (Endpoints.restNanos(failuresInARow) * factor);
    restEnds = now + Math.max(rest, Math.min(atLeastNanos, Endpoints.REST_MAX_NANOS));
    resting = true;
  }

  /** Returns the value of the {@code Host} field. */
  String authority() {
    return host + ":" + port;
  }

  /** Returns the name that the node's certificate must hold: the host, an IPv6 address without brackets. */
  String tlsName() {
    return host.startsWith("[") ? host.substring(1, host.length() - 1) : host;
  }

  @Override
  public String toString() {
    return (https ? "https://" : "http://") + authority();
  }

  private static IllegalArgumentException notAnEndpoint(String url) {
    return new IllegalArgumentException(
        "an endpoint is http://HOST:PORT or https://HOST:PORT, without a path, and \"" + url + "\" is not");
  }
}

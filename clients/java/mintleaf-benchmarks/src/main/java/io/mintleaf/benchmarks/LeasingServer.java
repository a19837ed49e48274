package io.mintleaf.benchmarks;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.atomic.AtomicLong;

/** Answers requests for ids, and for a worker id, over HTTP in this process, as a node does that always has some. */
final class LeasingServer implements AutoCloseable {
  static {
    // Else head and body wait for each other, 40 ms for each answer.
    System.setProperty("sun.net.httpserver.nodelay", "true");
  }

  /** A lease of a worker id that no measurement outlasts. */
  private static final String LEASE = "{\"pool\":\"any\",\"worker_id\":17,\"lease\":\"17-1\","
      + "\"from_ms\":\"1800000000000\",\"until_ms\":\"1900000000000\"}";

  private final AtomicLong next = new AtomicLong(1);
  private final HttpServer server;

  LeasingServer() {
    try {
      server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    server.createContext("/", this::answer);
    server.start();
  }

  String url() {
    return "http://127.0.0.1:" + server.getAddress().getPort();
  }

  private void answer(HttpExchange exchange) throws IOException {
    String query = exchange.getRequestURI().getQuery();
    send(exchange, query == null ? LEASE : ids(query));
  }

  private String ids(String query) {
    int count = Integer.parseInt(query.replaceFirst("count=", "").replaceFirst("&.*", ""));
    long first = next.getAndAdd(count);
    String ids = query.contains("ranges")
        ? "\"ranges\":[{\"start\":\"" + first + "\",\"end\":\"" + (first + count) + "\"}]"
        : "\"ids\":[\"" + first + "\"]";
    return "{\"tag\":\"any\"," + ids + "}";
  }

  private static void send(HttpExchange exchange, String json) throws IOException {
    byte[] body = json.getBytes(StandardCharsets.US_ASCII);
    exchange.sendResponseHeaders(200, body.length);
    exchange.getResponseBody().write(body);
    exchange.close();
  }

  @Override
  public void close() {
    server.stop(0);
  }
}

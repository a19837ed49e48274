package io.mintleaf.client;

import java.io.Closeable;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.SSLSocket;
import javax.net.ssl.SSLSocketFactory;

/**
 * Sends requests over connections that it keeps for the next one.
 *
 * <p>A timer closes the socket of an attempt whose deadline has come, so that no node, however slowly it
 * sends, holds a thread for longer.
 */
final class HttpTransport implements Transport {
  private static final long REST_MAX_NANOS = TimeUnit.SECONDS.toNanos(60);

  private final Ticker ticker;
  private final ScheduledExecutorService timer;
  private final SSLSocketFactory tls;
  private final long connectNanos;
  private final String fields;
  /** Connections without a request, the last used ones first; guarded by this. */
  private final Map<Endpoint, ArrayDeque<HttpConnection>> resting = new HashMap<>();
  private final Set<Closeable> open = ConcurrentHashMap.newKeySet();
  private volatile boolean closed;

  /**
   * Makes a transport.
   *
   * @param token sent with each request, or null
   */
  HttpTransport(
      Ticker ticker, ScheduledExecutorService timer, SSLSocketFactory tls, String token, long connectNanos) {
    this.ticker = ticker;
    this.timer = timer;
    this.tls = tls;
    this.connectNanos = connectNanos;
    this.fields = "Accept: application/json\r\nCache-Control: no-store\r\nUser-Agent: mintleaf-java\r\n"
        + (token == null ? "" : "Authorization: Bearer " + token + "\r\n");
    timer.scheduleWithFixedDelay(this::closeRested, 10, 10, TimeUnit.SECONDS);
  }

  @Override
  public Answer send(Endpoint endpoint, Request asked, long deadline) throws IOException {
    byte[] request = HttpConnection.bytes(endpoint, asked, fields);
    HttpConnection kept = takeResting(endpoint);
    if (kept != null) {
      try {
        return exchange(endpoint, kept, request, deadline);
      } catch (IOException e) {
        if (kept.hasReadHead() || closed || deadline - ticker.nanos() <= 0) {
          throw e;
        }
        // The node closed the connection while it rested, and the others very likely too.
        closeResting(endpoint);
      }
    }
    return exchange(endpoint, connect(endpoint, deadline), request, deadline);
  }

  private Answer exchange(Endpoint endpoint, HttpConnection connection, byte[] request, long deadline)
      throws IOException {
    boolean kept = false;
    try (Deadline watched = new Deadline(connection, deadline)) {
      Answer answer = watched.orLate(() -> connection.exchange(request));
      kept = connection.isReusable() && !watched.isLate();
      return answer;
    } finally {
      if (kept) {
        rest(endpoint, connection);
      } else {
        forget(connection);
      }
    }
  }

  private HttpConnection connect(Endpoint endpoint, long deadline) throws IOException {
    long until = deadline - ticker.nanos() < connectNanos ? deadline : ticker.nanos() + connectNanos;
    IOException last = null;
    for (InetAddress address : InetAddress.getAllByName(endpoint.host)) {
      Socket socket = new Socket();
      track(socket);
      try (Deadline watched = new Deadline(socket, until)) {
        HttpConnection connection = watched.orLate(() -> handshake(endpoint, socket, address));
        track(connection);
        open.remove(socket);
        return connection;
      } catch (IOException e) {
        forget(socket);
        last = e;
      }
    }
    throw last;
  }

  private HttpConnection handshake(Endpoint endpoint, Socket socket, InetAddress address) throws IOException {
    socket.setTcpNoDelay(true);
    socket.connect(new InetSocketAddress(address, endpoint.port));
    if (!endpoint.https) {
      return new HttpConnection(socket, socket);
    }
    SSLSocket secured = (SSLSocket) tls.createSocket(socket, endpoint.tlsName(), endpoint.port, true);
    SSLParameters parameters = secured.getSSLParameters();
    parameters.setEndpointIdentificationAlgorithm("HTTPS");
    secured.setSSLParameters(parameters);
    secured.startHandshake();
    return new HttpConnection(secured, socket);
  }

  private void track(Closeable closeable) throws IOException {
    open.add(closeable);
    if (closed) {
      forget(closeable);
      throw new IOException("the client is closed");
    }
  }

  private void forget(Closeable closeable) {
    open.remove(closeable);
    closeQuietly(closeable);
  }

  private synchronized HttpConnection takeResting(Endpoint endpoint) {
    closeRested();
    ArrayDeque<HttpConnection> connections = resting.get(endpoint);
    return connections == null ? null : connections.pollFirst();
  }

  private synchronized void rest(Endpoint endpoint, HttpConnection connection) {
    connection.restsSince = ticker.nanos();
    if (closed) {
      forget(connection);
    } else {
      resting.computeIfAbsent(endpoint, any -> new ArrayDeque<>()).addFirst(connection);
    }
  }

  private synchronized void closeResting(Endpoint endpoint) {
    ArrayDeque<HttpConnection> connections = resting.remove(endpoint);
    if (connections != null) {
      connections.forEach(this::forget);
    }
  }

  private synchronized void closeRested() {
    long now = ticker.nanos();
    for (ArrayDeque<HttpConnection> connections : resting.values()) {
      while (!connections.isEmpty() && now - connections.peekLast().restsSince > REST_MAX_NANOS) {
        forget(connections.pollLast());
      }
    }
  }

  @Override
  public void close() {
    closed = true;
    List<Closeable> all = new ArrayList<>(open);
    all.forEach(this::forget);
    synchronized (this) {
      resting.clear();
    }
  }

  private static void closeQuietly(Closeable closeable) {
    try {
      closeable.close();
    } catch (IOException e) {
      // It is closed either way.
    }
  }

  private interface Work<T> {
    T run() throws IOException;
  }

  /** Closes what is worked with when its deadline comes, which ends the work. */
  private final class Deadline implements AutoCloseable {
    private final AtomicBoolean late = new AtomicBoolean();
    private final ScheduledFuture<?> end;

    Deadline(Closeable closeable, long deadline) throws IOException {
      try {
        end = timer.schedule(() -> endOf(closeable), deadline - ticker.nanos(), TimeUnit.NANOSECONDS);
      } catch (RejectedExecutionException e) {
        throw new IOException("the client is closed", e);
      }
    }

    private void endOf(Closeable closeable) {
      late.set(true);
      closeQuietly(closeable);
    }

    boolean isLate() {
      return late.get();
    }

    <T> T orLate(Work<T> work) throws IOException {
      try {
        return work.run();
      } catch (IOException e) {
        throw isLate() ? new IOException("no whole answer in time") : e;
      }
    }

    @Override
    public void close() {
      end.cancel(false);
    }
  }
}

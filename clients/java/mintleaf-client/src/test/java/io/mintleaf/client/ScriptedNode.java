package io.mintleaf.client;

import java.io.BufferedReader;
import java.io.Closeable;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** A server that answers HTTP as a test says, dies when it says, and lingers as long as it says. */
public final class ScriptedNode implements Closeable {
  /** Says what is answered to a request: the path of a {@code GET}, or else its method, path and body. */
  public interface Script {
    Reply reply(String request);
  }

  /** What is sent, and when. */
  public static final class Reply {
    private final String bytes;
    private final boolean end;
    private CountDownLatch after;

    private Reply(String bytes, boolean end) {
      this.bytes = bytes;
      this.end = end;
    }

    public static Reply ok(String json) {
      return status(200, json);
    }

    public static Reply status(int status, String body, String... fields) {
      StringBuilder head = new StringBuilder("HTTP/1.1 " + status + " Any\r\ncontent-length: "
          + body.getBytes(StandardCharsets.UTF_8).length + "\r\n");
      for (String field : fields) {
        head.append(field).append("\r\n");
      }
      return new Reply(head + "\r\n" + body, false);
    }

    public static Reply problem(int status, String code, String... fields) {
      return status(status, "{\"code\":\"" + code + "\",\"detail\":\"as scripted\"}", fields);
    }

    /** Sends exactly these bytes, and ends the connection. */
    public static Reply bytesThenEnd(String bytes) {
      return new Reply(bytes, true);
    }

    /** Ends the connection without a byte. */
    public static Reply hangUp() {
      return new Reply("", true);
    }

    /** Sends the whole answer, and ends the connection without having said that it would. */
    public Reply thenEnd() {
      return new Reply(bytes, true);
    }

    /** Sends the first part of the answer, and ends the connection. */
    public Reply cutBehind(String lastPart) {
      return new Reply(bytes.substring(0, bytes.indexOf(lastPart) + lastPart.length()), true);
    }

    /** Sends nothing before the latch opens. */
    public Reply after(CountDownLatch latch) {
      after = latch;
      return this;
    }
  }

  private static final Pattern LENGTH = Pattern.compile("(?i)\ncontent-length: ([0-9]+)");

  private final List<String> requests = Collections.synchronizedList(new ArrayList<>());
  private final List<String> heads = Collections.synchronizedList(new ArrayList<>());
  private final Set<Socket> connections = ConcurrentHashMap.newKeySet();
  private final AtomicInteger accepted = new AtomicInteger();
  private final int port;
  private volatile Script script;
  private volatile ServerSocket listener;

  public ScriptedNode(Script script) throws IOException {
    this.script = script;
    this.listener = listen(0);
    this.port = listener.getLocalPort();
  }

  public String url() {
    return "http://127.0.0.1:" + port;
  }

  public void script(Script next) {
    script = next;
  }

  /** Returns the requests so far, as a script sees them; without {@code /v1/cluster}. */
  public List<String> requests() {
    synchronized (requests) {
      return new ArrayList<>(requests);
    }
  }

  /** Returns the heads of all requests so far. */
  public List<String> heads() {
    synchronized (heads) {
      return new ArrayList<>(heads);
    }
  }

  public int connectionsAccepted() {
    return accepted.get();
  }

  /** Ends all connections, as a node does with those that rest for too long. */
  public void endConnections() throws IOException {
    for (Socket connection : connections) {
      connection.close();
    }
  }

  /** Dies: connections end, and new ones are refused. */
  public void die() throws IOException {
    listener.close();
    endConnections();
  }

  /** Lives again, at the same port. */
  public void live() throws IOException {
    listener = listen(port);
  }

  @Override
  public void close() throws IOException {
    die();
  }

  private ServerSocket listen(int port) throws IOException {
    ServerSocket socket = new ServerSocket();
    socket.setReuseAddress(true);
    socket.bind(new InetSocketAddress(InetAddress.getByName("127.0.0.1"), port));
    start(() -> {
      while (true) {
        Socket connection = socket.accept();
        accepted.incrementAndGet();
        connections.add(connection);
        if (socket.isClosed()) {
          connection.close(); // it was accepted while the node died
        }
        start(() -> serve(connection));
      }
    });
    return socket;
  }

  private interface Work {
    void run() throws Exception;
  }

  private static void start(Work work) {
    Thread thread = new Thread(() -> {
      try {
        work.run();
      } catch (Exception e) {
        // A connection or the listener was closed, by the test or by the client under test.
      }
    }, "scripted-node");
    thread.setDaemon(true);
    thread.start();
  }

  private static String request(String head, BufferedReader in) throws IOException {
    String[] methodAndPath = head.split(" ", 3);
    if (methodAndPath[0].equals("GET")) {
      return methodAndPath[1];
    }
    Matcher length = LENGTH.matcher(head);
    char[] body = new char[length.find() ? Integer.parseInt(length.group(1)) : 0];
    for (int read = 0; read < body.length; read++) {
      body[read] = (char) in.read();
    }
    byte[] bytes = new String(body).getBytes(StandardCharsets.ISO_8859_1);
    String request = methodAndPath[0] + " " + methodAndPath[1] + " " + new String(bytes, StandardCharsets.UTF_8);
    return request.trim();
  }

  private void serve(Socket connection) throws Exception {
    connection.setTcpNoDelay(true);
    BufferedReader in =
        new BufferedReader(new InputStreamReader(connection.getInputStream(), StandardCharsets.ISO_8859_1));
    try {
      while (true) {
        StringBuilder head = new StringBuilder();
        for (String line = in.readLine(); !line.isEmpty(); line = in.readLine()) {
          head.append(line).append('\n');
        }
        String request = request(head.toString(), in);
        Reply reply = script.reply(request);
        heads.add(head.toString());
        if (!request.equals("/v1/cluster")) {
          requests.add(request);
        }
        if (reply.after != null) {
          reply.after.await();
        }
        OutputStream out = connection.getOutputStream();
        out.write(reply.bytes.getBytes(StandardCharsets.UTF_8));
        out.flush();
        if (reply.end) {
          return;
        }
      }
    } finally {
      connections.remove(connection);
      connection.close();
    }
  }
}

package io.mintleaf.client;

import java.io.File;
import java.io.IOException;
import java.net.HttpURLConnection;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.URL;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Scanner;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.opentest4j.TestAbortedException;

/** Three nodes of the real binary, named by the system property {@code mintleaf.binary}. */
public final class RealNodes implements AutoCloseable {
  private static final long READY_SECONDS = 60;

  private final Path directory;
  private final List<Integer> http = new ArrayList<>();
  private final List<Integer> raft = new ArrayList<>();
  private final Process[] nodes;
  private final List<String> more;

  private RealNodes(int count, List<String> more) throws IOException {
    this.directory = Files.createTempDirectory("mintleaf-java-");
    this.nodes = new Process[count];
    this.more = more;
    List<ServerSocket> held = new ArrayList<>();
    for (int i = 0; i < 2 * count; i++) {
      ServerSocket socket = new ServerSocket(0, 1, InetAddress.getByName("127.0.0.1"));
      held.add(socket);
      (i % 2 == 0 ? http : raft).add(socket.getLocalPort());
    }
    for (ServerSocket socket : held) {
      socket.close();
    }
  }

  /** Returns whether {@code mintleaf serve} knows the flag. */
  public static boolean know(String flag) throws Exception {
    Process help = new ProcessBuilder(binary(), "serve", "--help").redirectErrorStream(true).start();
    try (Scanner output = new Scanner(help.getInputStream(), "UTF-8").useDelimiter("\\A")) {
      return output.next().contains(flag + " ");
    } finally {
      help.waitFor();
    }
  }

  /**
   * Starts three nodes, and waits until all are ready. They create tags on first use.
   *
   * @param more arguments, in which {@code {node}} stands for a node's number
   */
  public static RealNodes three(String... more) throws Exception {
    return of(3, more);
  }

  /** Starts nodes, and waits until all are ready. They create tags on first use. */
  public static RealNodes of(int count, String... more) throws Exception {
    RealNodes cluster = new RealNodes(count, Arrays.asList(more));
    try {
      Files.write(cluster.directory.resolve("secret"), "0123456789012345678901234567890123456789\n".getBytes("UTF-8"));
      for (int node = 0; node < count; node++) {
        cluster.start(node);
      }
      for (int node = 0; node < count; node++) {
        cluster.awaitReady(node);
      }
      return cluster;
    } catch (Exception e) {
      cluster.close();
      throw e;
    }
  }

  public int count() {
    return nodes.length;
  }

  public Path directory() {
    return directory;
  }

  public List<String> urls() {
    List<String> urls = new ArrayList<>();
    http.forEach(port -> urls.add("http://127.0.0.1:" + port));
    return urls;
  }

  /** Starts a node, on its data if it has any. */
  public void start(int node) throws IOException {
    List<String> peers = new ArrayList<>();
    for (int i = 0; i < nodes.length; i++) {
      peers.add((i + 1) + "=127.0.0.1:" + raft.get(i));
    }
    List<String> command = new ArrayList<>(Arrays.asList(
        binary(), "serve", "--node-id", "" + (node + 1),
        "--http", "127.0.0.1:" + http.get(node), "--raft", "127.0.0.1:" + raft.get(node),
        "--data", directory.resolve("data-" + node).toString(), "--peers", String.join(",", peers),
        "--cluster-secret-file", directory.resolve("secret").toString(), "--auto-create-tags"));
    more.forEach(argument -> command.add(argument.replace("{node}", "" + (node + 1))));
    ProcessBuilder builder = new ProcessBuilder(command);
    File log = directory.resolve("log-" + node).toFile();
    builder.redirectErrorStream(true).redirectOutput(ProcessBuilder.Redirect.appendTo(log));
    nodes[node] = builder.start();
  }

  /** Ends a node as {@code kill -9} does. */
  public void kill(int node) throws InterruptedException {
    nodes[node].destroyForcibly().waitFor();
  }

  /** Stops a node for longer than an attempt lasts, and lets it go on. */
  void hang(int node) throws Exception {
    signal(node, "STOP");
    Thread.sleep(3_500);
    signal(node, "CONT");
  }

  void signal(int node, String name) throws Exception {
    Object pid = Process.class.getMethod("pid").invoke(nodes[node]); // of Java 9 and later
    int status = new ProcessBuilder("kill", "-" + name, pid.toString()).start().waitFor();
    if (status != 0) {
      throw new AssertionError("kill -" + name + " ends with " + status);
    }
  }

  /** Stops a node by SIGTERM, and waits until it has drained. */
  public void stop(int node) throws InterruptedException {
    nodes[node].destroy();
    if (!nodes[node].waitFor(READY_SECONDS, TimeUnit.SECONDS)) {
      throw new AssertionError("node " + (node + 1) + " does not stop");
    }
  }

  /** Sends a request to the first node and returns its answer, whose status is 200 to 299. */
  public String send(String method, String path, String json) throws IOException {
    HttpURLConnection connection = (HttpURLConnection) new URL(urls().get(0) + path).openConnection();
    connection.setRequestMethod(method);
    if (json != null) {
      connection.setRequestProperty("Content-Type", "application/json");
      connection.setDoOutput(true);
      connection.getOutputStream().write(json.getBytes("UTF-8"));
    }
    try (Scanner answer = new Scanner(connection.getInputStream(), "UTF-8").useDelimiter("\\A")) {
      return answer.hasNext() ? answer.next() : "";
    }
  }

  public void awaitReady(int node) throws Exception {
    long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(READY_SECONDS);
    while (!isReady(node)) {
      if (System.nanoTime() - end > 0 || !nodes[node].isAlive()) {
        byte[] log = Files.readAllBytes(directory.resolve("log-" + node));
        throw new AssertionError("node " + (node + 1) + " does not become ready:\n" + new String(log, "UTF-8"));
      }
      Thread.sleep(20);
    }
  }

  private boolean isReady(int node) {
    boolean https = more.contains("--tls-cert");
    if (https) {
      try (java.net.Socket socket = new java.net.Socket("127.0.0.1", http.get(node))) {
        return socket.isConnected();
      } catch (IOException e) {
        return false;
      }
    }
    try {
      HttpURLConnection connection =
          (HttpURLConnection) new URL(urls().get(node) + "/readyz").openConnection();
      connection.setReadTimeout(2_000);
      return connection.getResponseCode() == 200;
    } catch (IOException e) {
      return false;
    }
  }

  private static String binary() {
    String binary = System.getProperty("mintleaf.binary");
    if (binary == null || !new File(binary).canExecute()) {
      String skipped = "SKIPPED: no node to test with at \"" + binary
          + "\": build it with cargo build, or name another with -Dmintleaf.binary=PATH";
      System.err.println(skipped);
      throw new TestAbortedException(skipped);
    }
    return binary;
  }

  @Override
  public void close() throws IOException {
    for (Process node : nodes) {
      if (node != null) {
        node.destroyForcibly();
      }
    }
    for (Process node : nodes) {
      try {
        if (node != null) {
          node.waitFor();
        }
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
      }
    }
    try (Stream<Path> files = Files.walk(directory)) {
      files.sorted(Comparator.reverseOrder()).map(Path::toFile).forEach(File::delete);
    }
  }
}

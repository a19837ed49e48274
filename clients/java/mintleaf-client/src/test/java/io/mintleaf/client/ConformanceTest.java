package io.mintleaf.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assertions.fail;

import java.io.File;
import java.net.HttpURLConnection;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Scanner;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.Timeout;
import org.opentest4j.TestAbortedException;

/** Plays every case of clients/conformance against its server. */
@Timeout(300)
class ConformanceTest {
  private static final File CASES = new File("../../conformance/cases.json");
  private static final long STEP_SECONDS_MAX = 30;
  private static final Set<String> SETTINGS =
      new HashSet<>(Arrays.asList("attempt_ms", "connect_ms", "call_ms", "lease_max", "zone", "token"));

  private static Process server;
  private static String control;

  @BeforeAll
  static void startServer() throws Exception {
    String binary = System.getProperty("mintleaf.conformance");
    if (binary == null || !new File(binary).canExecute() || !CASES.exists()) {
      String skipped = "SKIPPED: no cases, or no server that plays them at \"" + binary
          + "\": build it with cargo build -p mintleaf-conformance, or name another with -Dmintleaf.conformance=PATH";
      System.err.println(skipped);
      throw new TestAbortedException(skipped);
    }
    server = new ProcessBuilder(binary).redirectError(ProcessBuilder.Redirect.INHERIT).start();
    Scanner output = new Scanner(server.getInputStream(), "UTF-8");
    control = (String) Answer.object(Json.parse(output.nextLine())).get("control");
  }

  @AfterAll
  static void endServer() throws Exception {
    if (server != null) {
      server.getOutputStream().close();
      assertTrue(server.waitFor(10, TimeUnit.SECONDS), "the server goes on after the end of its input");
    }
  }

  @TestFactory
  Stream<DynamicTest> everyCase() throws Exception {
    String text = new String(Files.readAllBytes(CASES.toPath()), StandardCharsets.UTF_8);
    List<Fields> cases = new Fields(Answer.object(Json.parse(text))).list("cases");
    assertFalse(cases.isEmpty());
    return cases.stream().map(each -> DynamicTest.dynamicTest(each.text("name"), () -> play(each)));
  }

  private static void play(Fields described) throws Exception {
    String name = described.text("name");
    List<String> endpoints = new ArrayList<>();
    for (Object each : (List<?>) ask("POST", "/cases/" + name).get("endpoints")) {
      endpoints.add((String) each);
    }
    try (Player player = new Player(client(endpoints, described.fields("client")), endpoints.get(0))) {
      for (Fields step : described.list("steps")) {
        player.play(step);
      }
      Map<String, Object> verdict = ask("GET", "/verdict");
      assertEquals(true, verdict.get("ok"), () -> verdict.get("faults") + "\n" + verdict.get("requests"));
    }
  }

  private static MintleafClient client(List<String> endpoints, Fields settings) {
    assertTrue(SETTINGS.containsAll(settings.names()), "a setting that is not known: " + settings.names());
    return MintleafClient.builder()
        .endpoints(endpoints)
        .attemptTimeout(Duration.ofMillis(settings.number("attempt_ms", 2_500)))
        .connectTimeout(Duration.ofMillis(settings.number("connect_ms", 1_000)))
        .callTimeout(Duration.ofMillis(settings.number("call_ms", 10_000)))
        .leaseMax((int) settings.number("lease_max", 1_000_000))
        .zone(settings.text("zone"))
        .token(settings.text("token"))
        .build();
  }

  private static Map<String, Object> ask(String method, String path) throws Exception {
    HttpURLConnection connection = (HttpURLConnection) new URL(control + path).openConnection();
    connection.setRequestMethod(method);
    connection.setRequestProperty("Connection", "close");
    if (method.equals("POST")) {
      connection.setDoOutput(true);
      connection.getOutputStream().close();
    }
    try (Scanner answer = new Scanner(connection.getInputStream(), "UTF-8").useDelimiter("\\A")) {
      return Answer.object(Json.parse(answer.next()));
    }
  }

  /** Does the steps of one case, with one client. */
  private static final class Player implements AutoCloseable {
    private static final Set<String> FIELDS = new HashSet<>(Arrays.asList(
        "do", "tag", "key", "count", "pool", "seconds", "as", "of", "ms", "to", "call", "gives", "fails", "times",
        "beside", "after_ms", "within_ms"));

    private final MintleafClient client;
    /** {@code HOST:PORT} of the first endpoint. */
    private final String first;
    private final ExecutorService threads = Executors.newCachedThreadPool();
    private final Map<String, Set<Object>> given = new ConcurrentHashMap<>();
    private final Map<String, WorkerLease> leases = new HashMap<>();
    private final Map<String, Long> generated = new HashMap<>();
    private final Map<String, Future<?>> started = new HashMap<>();

    Player(MintleafClient client, String first) {
      this.client = client;
      this.first = first.replace("http://", "");
    }

    void play(Fields step) throws Exception {
      assertTrue(FIELDS.containsAll(step.names()), "a field that is not known: " + step);
      long begun = System.nanoTime();
      if (step.has("fails")) {
        checkFailure(step, assertThrows(RuntimeException.class, () -> result(step), step::toString));
      } else {
        checkResult(step, result(step));
      }
      long took = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - begun);
      assertTrue(took >= step.number("after_ms", 0), () -> "after " + took + " ms: " + step);
      assertTrue(took <= step.number("within_ms", Long.MAX_VALUE), () -> "after " + took + " ms: " + step);
    }

    private Object result(Fields step) throws Exception {
      if (step.has("beside")) {
        List<Future<Object>> calls = new ArrayList<>();
        for (int i = 0; i < step.number("beside", 0); i++) {
          calls.add(threads.submit(() -> once(step)));
        }
        for (Future<Object> call : calls) {
          resultOf(call);
        }
        return null;
      }
      Object last = null;
      for (int i = 0; i < (step.text("do").equals("generate") ? 1 : step.number("times", 1)); i++) {
        last = once(step);
      }
      return last;
    }

    private static Object resultOf(Future<?> call) throws Exception {
      try {
        return call.get(STEP_SECONDS_MAX, TimeUnit.SECONDS);
      } catch (ExecutionException e) {
        throw e.getCause() instanceof Exception ? (Exception) e.getCause() : e;
      }
    }

    private Object once(Fields step) throws Exception {
      String tag = step.text("tag");
      String key = step.text("key");
      switch (step.text("do")) {
        case "next_id":
          return unlike(tag, Long.toString(client.nextId(tag)));
        case "next_text":
          return unlike(tag, client.nextText(tag));
        case "next_ids":
          return Arrays.stream(client.nextIds(tag, (int) step.number("count", -1)))
              .mapToObj(id -> unlike(tag, Long.toString(id))).collect(Collectors.toList());
        case "next_snowflake":
          return unlike("\0snowflakes", Long.toString(client.nextSnowflake()));
        case "next_number":
          return unlike(tag + "\0" + key, Long.toString(client.nextId(tag, key)));
        case "register":
          return fieldsOf(client.register(tag, key));
        case "lease_worker":
          return fieldsOf(leased(step));
        case "may_stamp":
          return lease(step).mayStamp(Long.parseLong(step.text("ms")));
        case "is_lost":
          return lease(step).isLost();
        case "close_lease":
          lease(step).close();
          return null;
        case "generate":
          generate(step);
          return null;
        case "close":
          client.close();
          return null;
        case "sleep":
          Thread.sleep(step.number("ms", -1));
          return null;
        case "phase":
          ask("POST", "/phases/" + step.text("to"));
          return null;
        case "start":
          started.put(step.text("as"), threads.submit((Callable<Object>) () -> result(step.fields("call"))));
          return null;
        case "await":
          return resultOf(started.get(step.text("as")));
        default:
          return fail("a step that is not known: " + step);
      }
    }

    private Object unlike(String name, String id) {
      assertTrue(given.computeIfAbsent(name, any -> ConcurrentHashMap.newKeySet()).add(id), "twice: " + id);
      return id;
    }

    private WorkerLease leased(Fields step) {
      String pool = step.text("pool");
      WorkerLease lease = step.has("seconds")
          ? client.leaseWorker(pool, (int) step.number("seconds", -1), "conformance") : client.leaseWorker(pool);
      assertEquals(pool, lease.pool());
      leases.put(step.text("as"), lease);
      return lease;
    }

    private WorkerLease lease(Fields step) {
      return leases.get(step.text("of"));
    }

    private void generate(Fields step) {
      WorkerSnowflakes ids = lease(step).generator();
      Fields bounds = step.fields("gives");
      for (int i = 0; i < step.number("times", 1); i++) {
        long id = ids.nextId();
        assertTrue(id > generated.getOrDefault(step.text("of"), 0L), () -> id + " does not rise");
        generated.put(step.text("of"), id);
        unlike("\0generated", Long.toString(id));
        if (step.has("gives")) {
          long ms = (id >> 22) + 1288834974657L;
          assertEquals(bounds.number("worker_id", -1), id >> 12 & 1023);
          assertTrue(ms >= Long.parseLong(bounds.text("from_ms")) && ms < Long.parseLong(bounds.text("until_ms")),
              () -> ms + " is not as in " + step);
        }
      }
    }

    private static Map<String, Object> fieldsOf(Registration registration) {
      Map<String, Object> fields = new HashMap<>();
      fields.put("id", Long.toString(registration.id()));
      fields.put("text", registration.text());
      fields.put("period", registration.period());
      fields.put("new", registration.isNew());
      return fields;
    }

    private static Map<String, Object> fieldsOf(WorkerLease lease) {
      Map<String, Object> fields = new HashMap<>();
      fields.put("worker_id", (double) lease.workerId());
      fields.put("from_ms", Long.toString(lease.fromMs()));
      fields.put("until_ms", Long.toString(lease.untilMs()));
      return fields;
    }

    private static void checkResult(Fields step, Object result) {
      if (!step.has("gives") || step.text("do").equals("generate")) {
        return;
      }
      if (result instanceof Map) {
        Fields wanted = step.fields("gives");
        for (String name : wanted.names()) {
          assertTrue(((Map<?, ?>) result).containsKey(name), () -> "a field that is not known: " + step);
          assertEquals(wanted.value(name), ((Map<?, ?>) result).get(name), () -> name + " of " + step);
        }
      } else {
        assertEquals(step.value("gives"), result, step::toString);
      }
    }

    private void checkFailure(Fields step, RuntimeException thrown) {
      Fields wanted = step.fields("fails");
      Map<String, Function<RuntimeException, Object>> known = new HashMap<>();
      known.put("code", each ->
          each instanceof IllegalArgumentException ? "invalid_argument" : ((MintleafException) each).code());
      known.put("status", each -> (double) ((MintleafException) each).status());
      known.put("detail", each ->
          each.getMessage().contains(wanted.text("detail").replace("{endpoint}", first)) ? wanted.text("detail") : each.getMessage());
      for (String name : wanted.names()) {
        assertTrue(known.containsKey(name), () -> "a field that is not known: " + step);
        assertEquals(wanted.value(name), known.get(name).apply(thrown), () -> name + " of " + step + ": " + thrown);
      }
    }

    @Override
    public void close() {
      client.close();
      threads.shutdownNow();
    }
  }

  /** A JSON object, read by the kinds of values that its fields have. */
  private static final class Fields {
    private final Map<String, Object> members;

    Fields(Map<String, Object> members) {
      this.members = members;
    }

    boolean has(String name) {
      return members.containsKey(name);
    }

    Set<String> names() {
      return members.keySet();
    }

    Object value(String name) {
      return members.get(name);
    }

    String text(String name) {
      return (String) members.get(name);
    }

    long number(String name, long otherwise) {
      return has(name) ? ((Double) members.get(name)).longValue() : otherwise;
    }

    Fields fields(String name) {
      return new Fields(has(name) ? object(members.get(name)) : new HashMap<>());
    }

    List<Fields> list(String name) {
      return ((List<?>) members.get(name)).stream().map(each -> new Fields(object(each))).collect(Collectors.toList());
    }

    private static Map<String, Object> object(Object value) {
      try {
        return Answer.object(value);
      } catch (MalformedAnswer e) {
        throw new AssertionError(e);
      }
    }

    @Override
    public String toString() {
      return members.toString();
    }
  }
}

package io.mintleaf.client;

import static java.util.concurrent.TimeUnit.MILLISECONDS;
import static java.util.concurrent.TimeUnit.SECONDS;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.mintleaf.client.ScriptedNode.Reply;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.Collectors;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The cases of clients/conformance, each under its name there. Those of real nodes are in {@link RealNodesTest}. */
@Timeout(60)
class LeasingCasesTest {
  private final List<AutoCloseable> opened = new ArrayList<>();
  private final ExecutorService callers = Executors.newCachedThreadPool();

  @AfterEach
  void closeAll() throws Exception {
    callers.shutdownNow();
    Collections.reverse(opened);
    for (AutoCloseable each : opened) {
      each.close();
    }
  }

  @Test
  void nodeDiesBeforeTheAnswer() throws Exception {
    CountingScript ids = new CountingScript();
    ScriptedNode refuses = node(ids);
    refuses.die();
    ScriptedNode hangsUp = node(path -> Reply.hangUp());
    ScriptedNode answers = node(ids);

    MintleafClient client = client(refuses, hangsUp, answers);

    assertEquals(1, client.nextId("orders"));
    assertEquals(1, answers.requests().size());
    assertEquals(1, hangsUp.requests().size(), "the node that failed rests");
  }

  @Test
  void nodeDiesDuringTheAnswer() throws Exception {
    List<String> lastParts = Arrays.asList("\"end\":\"10", "\"end\":\"1002\"}", "\"end\":\"1002\"}]", "content-len");
    for (String lastPart : lastParts) {
      Reply whole = Reply.ok(ranges("901", "1002"));
      CountingScript ids = new CountingScript();
      ScriptedNode dies = node(path -> path.contains("ranges") ? whole.cutBehind(lastPart) : ids.reply(path));
      ScriptedNode answers = node(ids);
      MintleafClient client = client(dies, answers);

      for (int i = 0; i < 50; i++) {
        assertTrue(client.nextId("orders") < 901, "an id of the answer that was cut behind " + lastPart);
      }
      // Without a whole head it may be the kept connection that ended, so a new one is tried.
      int expected = lastPart.equals("content-len") ? 3 : 2;
      assertEquals(expected, dies.requests().size());
      assertTrue(answers.requests().size() >= 1);
    }
  }

  @Test
  void nodeDiesAfterTheAnswer() throws Exception {
    ScriptedNode node = node(new CountingScript());
    MintleafClient client = client(builder().callTimeout(Duration.ofMillis(300)), node);
    assertEquals(1, client.nextId("orders"));
    assertEquals(2, client.nextId("orders"));

    node.die();

    for (long id = 3; id <= 102; id++) {
      assertEquals(id, client.nextId("orders"));
    }
    assertEquals("unavailable", failure(() -> client.nextId("orders")).code());
  }

  @Test
  void answerIsSlow() throws Exception {
    CountingScript ids = new CountingScript();
    CountDownLatch late = new CountDownLatch(1);
    AtomicLong lateFrom = new AtomicLong();
    ScriptedNode slow = node(path -> {
      lateFrom.compareAndSet(0, ids.next());
      return ids.reply(path).after(late);
    });
    ScriptedNode quick = node(ids);
    MintleafClient client = client(builder().attemptTimeout(Duration.ofMillis(200)), slow, quick);

    Set<Long> taken = new HashSet<>();
    taken.add(client.nextId("orders"));
    assertEquals(1, slow.requests().size());
    late.countDown();
    for (int i = 0; i < 500; i++) {
      taken.add(client.nextId("orders"));
    }

    assertFalse(taken.contains(lateFrom.get()), "an id of the late answer");
  }

  @Test
  void slowPrefetchDisturbsNobody() throws Exception {
    CountingScript ids = new CountingScript();
    CountDownLatch slow = new CountDownLatch(1);
    AtomicInteger leases = new AtomicInteger();
    ScriptedNode node = node(path -> {
      boolean ahead = path.contains("ranges") && leases.incrementAndGet() > 1;
      return ahead ? ids.reply(path).after(slow) : ids.reply(path);
    });
    MintleafClient client = client(node);

    for (long id = 1; id <= 102; id++) {
      assertEquals(id, client.nextId("orders")); // would fail by its deadline, if it waited
    }
    eventually(() -> leases.get() == 2);
    Future<Long> waits = callers.submit(() -> client.nextId("orders"));
    assertThrows(java.util.concurrent.TimeoutException.class, () -> waits.get(100, MILLISECONDS));
    slow.countDown();
    assertEquals(103, waits.get());
  }

  @Test
  void allNodesAreAway() throws Exception {
    CountingScript ids = new CountingScript();
    ScriptedNode a = node(ids);
    ScriptedNode b = node(ids);
    MintleafClient client = client(builder().callTimeout(Duration.ofMillis(700)), a, b);
    client.nextIds("orders", 2);
    client.nextId("orders");
    a.die();
    b.die();
    for (int i = 0; i < 100; i++) {
      client.nextId("orders");
    }

    long begun = System.nanoTime();
    MintleafException failure = failure(() -> client.nextId("orders"));
    long millis = (System.nanoTime() - begun) / 1_000_000;

    assertEquals("unavailable", failure.code());
    assertTrue(failure.getMessage().contains("127.0.0.1"), failure.getMessage());
    assertTrue(millis >= 690 && millis < 5_000, "ended after " + millis + " ms");
    b.live();
    eventually(() -> succeeds(() -> client.nextId("orders")));
  }

  @Test
  void attemptThatTheCallCutsShortIsNoFailureOfItsEndpoint() throws Exception {
    CountingScript ids = new CountingScript();
    CountDownLatch never = new CountDownLatch(1);
    ScriptedNode first = node(path -> ids.reply(path).after(never));
    ScriptedNode second = node(ids);
    MintleafClient client = client(builder().callTimeout(Duration.ofMillis(200)), first, second);

    assertEquals("unavailable", failure(() -> client.nextId("orders")).code());
    eventually(() -> client.control().threads.active() == 0);
    assertEquals(0, client.stats().failedRequests());
    first.script(ids);
    client.nextId("orders");
    assertEquals(0, second.requests().size(), "the first endpoint does not rest");
    never.countDown();
  }

  @Test
  void malformedAnswer() throws Exception {
    List<String> malformed = Arrays.asList(
        ranges("901", "951", "950", "1001"), ranges("951", "1002", "901", "951"), ranges("901", "901", "901", "1002"),
        ranges("901", "1003"), ranges("901", "1001"), ranges("0", "101"), ranges("9223372036854775707", "9223372036854775809"), ranges("9223372036854775800", "9223372036854775901"),
        ranges("+901", "1002"), ranges("0901", "1002"), ranges(" 901", "1002"), ranges("901", "1002") + "x", "", "[]", "{",
        "{\"ranges\":[{\"start\":901,\"end\":1002}]}", "{\"ranges\":{}}", "{\"ids\":[\"901\"]}",
        "{\"ranges\":[{\"start\":\"901\",\"end\":\"1002\"}],\"lease\":\"no\"}",
        new String(new char[1_100_000]).replace('\0', ' ') + ranges("901", "1002"));
    AtomicInteger asked = new AtomicInteger();
    for (String answer : malformed) {
      CountingScript ids = new CountingScript();
      AtomicInteger first = new AtomicInteger();
      ScriptedNode wrong = node(path -> {
        boolean lease = path.contains("ranges");
        asked.addAndGet(lease ? 1 - first.getAndSet(1) : 0);
        return lease ? Reply.ok(answer) : ids.reply(path);
      });
      ScriptedNode right = node(ids);
      MintleafClient client = client(wrong, right);

      for (int i = 0; i < 30; i++) {
        assertTrue(client.nextId("orders") < 900, "an id of " + answer.trim());
      }
    }
    assertEquals(malformed.size(), asked.get(), "each was asked for and thrown away");
    ScriptedNode twice = node(path -> Reply.ok("{\"ids\":[\"901\",\"901\"]}"));
    assertEquals(1, client(twice, node(new CountingScript())).nextIds("orders", 2)[0]);
  }

  @Test
  void lastIdsOfAllAreLeased() throws Exception {
    ScriptedNode node = node(path -> path.contains("ranges")
        ? Reply.ok(ranges("9223372036854775707", "9223372036854775808"))
        : Reply.ok("{\"ids\":[\"9\"]}"));
    MintleafClient client = client(node);
    client.nextId("orders");
    long last = 0;
    for (int i = 0; i < 101; i++) {
      last = client.nextId("orders");
    }
    assertEquals(Long.MAX_VALUE, last);
  }

  @Test
  void leaseFalseIsNeverKept() throws Exception {
    CountingScript ids = CountingScript.withoutLease();
    ScriptedNode node = node(ids);
    MintleafClient client = client(node);

    for (long id = 1; id <= 20; id++) {
      assertEquals(id, client.nextId("strict"));
    }
    assertEquals(Arrays.asList(21L, 22L, 23L), list(client.nextIds("strict", 3)));

    List<String> expected = new ArrayList<>(Collections.nCopies(20, "/v1/segment/strict?count=1"));
    expected.add("/v1/segment/strict?count=3");
    assertEquals(expected, node.requests());

    CountDownLatch late = new CountDownLatch(1);
    node.script(path -> ids.reply(path).after(late));
    MintleafClient hasty = client(builder().callTimeout(Duration.ofMillis(200)), node);
    assertEquals("unavailable", failure(() -> hasty.nextId("strict")).code());
    node.script(ids);
    late.countDown();
    long next = ids.next();
    assertTrue(client.nextId("strict") >= next, "an id whose call had ended");
  }

  @Test
  void leaseFalseInALease() throws Exception {
    CountingScript ids = new CountingScript();
    ScriptedNode node = node(path -> path.contains("ranges")
        ? Reply.ok("{\"ranges\":[{\"start\":\"9001\",\"end\":\"9102\"}],\"lease\":false}")
        : ids.reply(path));
    MintleafClient client = client(node);

    for (long id = 1; id <= 5; id++) {
      assertEquals(id, client.nextId("moved"));
    }
    assertEquals(1, node.requests().stream().filter(path -> path.contains("ranges")).count());
  }

  @Test
  void firstRequestAsksForWhatTheCallWants() throws Exception {
    ScriptedNode node = node(new CountingScript());
    MintleafClient client = client(builder().token("s3cret"), node);

    client.nextIds("caf\u00e9/..", 3);
    assertEquals(Arrays.asList("/v1/segment/caf%C3%A9%2F%2E%2E?count=3"), node.requests());
    client.nextId("caf\u00e9/..");
    assertEquals("/v1/segment/caf%C3%A9%2F%2E%2E?count=101&format=ranges", node.requests().get(1));
    String head = node.heads().get(0);
    assertTrue(head.contains("Authorization: Bearer s3cret\n"), head);
    assertTrue(head.contains("Accept: application/json\n") && head.contains("Cache-Control: no-store\n"), head);
  }

  @Test
  void textOfAFormattedTag() throws Exception {
    ScriptedNode node = node(path -> Reply.ok("{\"ids\":[\"INV-20261121-000042\"],\"lease\":false}"));
    MintleafClient client = client(node);

    assertEquals("INV-20261121-000042", client.nextText("invoices"));
    MintleafException failure = failure(() -> client.nextId("invoices"));
    assertEquals("not_a_number", failure.code());
    assertTrue(failure.getMessage().contains("nextText"), failure.getMessage());
    assertEquals("1", client(node(new CountingScript())).nextText("plain"));
  }

  @Test
  void sequenceIsAskedForEachCall() throws Exception {
    ScriptedNode node = node(CountingScript.withoutLease());
    MintleafClient client = client(node);

    assertEquals(1, client.nextId("chat", "room/17"));
    assertEquals(2, client.nextId("chat", "room/17"));

    String path = "/v1/sequence/chat/room%2F17?count=1";
    assertEquals(Arrays.asList(path, path), node.requests());
  }

  @Test
  void lostAnswerIsWasted() throws Exception {
    CountingScript ids = new CountingScript();
    AtomicInteger leases = new AtomicInteger();
    ScriptedNode node = node(path -> {
      Reply counted = ids.reply(path);
      return path.contains("ranges") && leases.incrementAndGet() == 1 ? Reply.hangUp() : counted;
    });
    MintleafClient client = client(node);

    assertEquals(1, client.nextId("orders"));
    assertTrue(client.nextId("orders") > 102, "an id of the answer that was lost");
  }

  @Test
  void rangeTooSmall() throws Exception {
    ScriptedNode node = node(new CountingScript());
    MintleafClient client = client(builder().leaseMax(7), node);
    client.nextId("orders");

    assertEquals(100, new HashSet<>(list(client.nextIds("orders", 100))).size());
    List<Future<Long>> calls = new ArrayList<>();
    for (int i = 0; i < 100; i++) {
      calls.add(callers.submit(() -> client.nextId("orders")));
    }
    Set<Long> taken = new HashSet<>();
    for (Future<Long> call : calls) {
      assertTrue(taken.add(call.get()));
    }
  }

  @Test
  void callsForMoreAreNotPassedByOthers() throws Exception {
    CountingScript ids = new CountingScript();
    CountDownLatch held = new CountDownLatch(1);
    ScriptedNode node = node(ids);
    MintleafClient client = client(builder().leaseMax(10), node);
    client.nextId("orders");
    node.script(path -> ids.reply(path).after(held));

    Future<long[]> many = callers.submit(() -> client.nextIds("orders", 25));
    eventually(() -> client.stats().waits() == 2);
    Future<Long> one = callers.submit(() -> client.nextId("orders"));
    eventually(() -> client.stats().waits() == 3);
    held.countDown();

    assertTrue(one.get() > Collections.max(list(many.get())));
  }

  @Test
  void sizesFollowUse() {
    long second = 1_000_000_000L;
    LeaseSize size = LeaseSize.ofTag(1_000_000, 0);
    assertEquals(100, size.next(0, 0));
    size.used(100);
    assertEquals(400, size.next(0, second), "1,000 wanted, 4 x the last at most");
    size.used(100);
    assertEquals(1_000, size.next(0, 2 * second));
    size.used(1);
    assertEquals(250, size.next(0, 102 * second), "0.1 wanted, a quarter of the last at least");
    assertEquals(62 + 5_000, size.next(5_000, 200 * second), "what calls wait for comes on top");
    for (int i = 0; i < 5; i++) {
      size.next(0, (300 + i) * second);
    }
    assertEquals(10, size.next(0, 400 * second));
    size.used(1_000_000_000);
    assertEquals(40, size.next(0, 400 * second), "a burst within a millisecond");
    size.halve();
    size.used(20);
    assertEquals(80, size.next(0, 401 * second), "4 x the half");

    LeaseSize snowflakes = LeaseSize.ofSnowflakes(1_000_000, 0);
    assertEquals(1, snowflakes.next(0, 0));
    for (int i = 1; i < 20; i++) {
      snowflakes.used(1_000_000);
      assertEquals(Math.min(100_000, 1 << (2 * Math.min(i, 9))), snowflakes.next(0, i * second));
    }
  }

  @Test
  void oneFlightALine() throws Exception {
    CountingScript ids = new CountingScript();
    CountDownLatch held = new CountDownLatch(1);
    ScriptedNode node = node(path -> path.contains("ranges") ? ids.reply(path).after(held) : ids.reply(path));
    MintleafClient client = client(node);
    client.nextId("orders");

    List<Future<Long>> calls = new ArrayList<>();
    calls.add(callers.submit(() -> client.nextId("orders")));
    eventually(() -> node.requests().size() == 2);
    for (int i = 0; i < 150; i++) {
      calls.add(callers.submit(() -> client.nextId("orders")));
    }
    eventually(() -> client.stats().waits() == 152);
    held.countDown();
    for (Future<Long> call : calls) {
      call.get();
    }

    List<String> leases = node.requests().subList(1, node.requests().size());
    assertEquals(101, CountingScript.count(leases.get(0)));
    assertTrue(leases.size() <= 3, "one for the first call, one for all others, one ahead: " + leases);
  }

  @Test
  void threadsShareALease() throws Exception {
    CountingScript ids = new CountingScript();
    MintleafClient client = client(builder().leaseMax(20_000), node(ids));
    Set<Long> all = ConcurrentHashMap.newKeySet();
    List<Future<?>> threads = new ArrayList<>();
    for (int thread = 0; thread < 8; thread++) {
      boolean blocks = thread % 4 == 3;
      threads.add(callers.submit(() -> {
        for (int i = 0; i < 50_000; i++) {
          for (long id : blocks && i % 10 == 0 ? client.nextIds("orders", 10) : new long[] {client.nextId("orders")}) {
            assertTrue(all.add(id), "twice: " + id);
          }
        }
      }));
    }
    for (Future<?> thread : threads) {
      thread.get();
    }
    callers.shutdown();
    assertTrue(callers.awaitTermination(5, SECONDS));

    // What threads that have ended held in blocks is handed out by others, so that nothing is left out.
    long end = ids.next();
    List<Long> missing = new ArrayList<>();
    for (long id = 1; id < end; id++) {
      if (!all.contains(id)) {
        missing.add(id);
      }
    }
    for (long ignored : missing) {
      all.add(client.nextId("orders"));
    }
    missing.removeAll(all);
    assertEquals(Collections.emptyList(), missing);
  }

  @Test
  void closeWhileLeasing() throws Exception {
    CountDownLatch never = new CountDownLatch(1);
    CountingScript ids = new CountingScript();
    ScriptedNode node = node(path -> ids.reply(path).after(never));
    MintleafClient client = client(node);
    List<Future<Long>> calls = new ArrayList<>();
    for (String tag : Arrays.asList("a", "a", "b", "c")) {
      calls.add(callers.submit(() -> client.nextId(tag)));
    }
    calls.add(callers.submit(client::nextSnowflake));
    calls.add(callers.submit(() -> client.nextId("chat", "room")));
    eventually(() -> node.requests().size() == 5);

    long begun = System.nanoTime();
    client.close();

    assertTrue(System.nanoTime() - begun < 2_000_000_000L, "close waits for the network");
    for (Future<Long> call : calls) {
      MintleafException failure = (MintleafException)
          assertThrows(java.util.concurrent.ExecutionException.class, () -> call.get(2, SECONDS)).getCause();
      assertEquals("closed", failure.code());
    }
    eventually(() -> Thread.getAllStackTraces().keySet().stream()
        .noneMatch(thread -> thread.getName().startsWith(client.control().threads.name() + "-")));
    never.countDown();
  }

  @Test
  void nothingAfterClose() throws Exception {
    ScriptedNode node = node(new CountingScript());
    MintleafClient client = client(node);
    client.nextId("orders");
    client.nextId("orders");
    client.close();
    client.close();

    int before = node.requests().size();
    List<Callable<?>> all = Arrays.asList(
        () -> client.nextId("orders"), () -> client.nextIds("orders", 2), () -> client.nextText("orders"),
        () -> client.nextId("another"), client::nextSnowflake, () -> client.nextId("chat", "room"));
    for (Callable<?> call : all) {
      assertEquals("closed", failure(call).code());
    }
    assertEquals(before, node.requests().size());
  }

  @Test
  void refusalsAreNotRetried() throws Exception {
    for (int status : new int[] {400, 401, 403, 404, 409, 422, 423}) {
      ScriptedNode a = node(path -> Reply.problem(status, "code_" + status));
      ScriptedNode b = node(path -> Reply.problem(status, "code_" + status));
      MintleafException failure = failure(() -> client(a, b).nextId("orders"));

      assertEquals("code_" + status, failure.code());
      assertEquals(status, failure.status());
      assertTrue(failure.getMessage().contains("as scripted"), failure.getMessage());
      assertEquals(1, a.requests().size() + b.requests().size());
    }
  }

  @Test
  void whatIsNoNodeIsToldWithItsStatusAndAShortFirstLine() {
    char[] many = new char[100_000];
    Arrays.fill(many, 'x');
    String[][] told = {
        {"404", "\r\n\u0007one\ttwo\r\nthree", "answered 404: one two"},
        {"403", new String(many), "answered 403: " + new String(many, 0, 200)},
        {"422", "{\"count_max\":1}", "answered 422"},
        {"409", "{\"code\":\"\",\"detail\":\"why\"}", "answered 409: why"},
        {"500", "", "answered 500"},
    };
    for (String[] each : told) {
      Answer answer = new Answer(Integer.parseInt(each[0]), -1, each[1].getBytes(StandardCharsets.UTF_8));
      assertEquals(each[2], answer.told());
      assertEquals("", answer.problem().code());
    }
  }

  @Test
  void overloadedGoesToTheNext() throws Exception {
    CountingScript ids = new CountingScript();
    List<Reply> busy = Arrays.asList(
        Reply.problem(429, "overloaded", "retry-after: 3"), Reply.problem(503, "unavailable", "retry-after: 3"));
    for (Reply reply : busy) {
      ScriptedNode overloaded = node(path -> reply);
      ScriptedNode other = node(ids);
      MintleafClient client = client(overloaded, other);
      for (int i = 0; i < 300; i++) {
        client.nextId("orders");
      }
      assertEquals(1, overloaded.requests().size(), "asked again before its time");
    }
  }

  @Test
  void rateLimitedWaits() throws Exception {
    CountingScript ids = new CountingScript();
    AtomicInteger asked = new AtomicInteger();
    ScriptedNode.Script limited = path ->
        asked.incrementAndGet() == 1 ? Reply.problem(429, "rate_limited", "retry-after: 2") : ids.reply(path);
    ScriptedNode a = node(limited);
    ScriptedNode b = node(limited);
    long begun = System.nanoTime();

    assertEquals(1, client(a, b).nextId("orders"));

    assertTrue(System.nanoTime() - begun >= 1_990_000_000L);
    assertEquals(2, a.requests().size(), "the same endpoint");
    assertEquals(0, b.requests().size());

    asked.set(0);
    MintleafClient hasty = client(builder().callTimeout(Duration.ofMillis(300)), a);
    MintleafException failure = failure(() -> hasty.nextId("orders"));
    assertEquals("rate_limited", failure.code());
    assertEquals(429, failure.status());
  }

  @Test
  void leaseOverTheRateLimitShrinks() throws Exception {
    CountingScript ids = new CountingScript();
    String over = "{\"code\":\"count_over_rate_limit\",\"detail\":\"as scripted\"%s}";
    ScriptedNode node = node(path -> CountingScript.count(path) > 50
        ? Reply.status(422, String.format(over, ",\"count_max\":50")) : ids.reply(path));
    MintleafClient client = client(node);
    for (long id = 1; id <= 300; id++) {
      assertEquals(id, client.nextId("orders"));
    }
    assertEquals(130, client.nextIds("orders", 130).length);
    assertTrue(node.requests().get(1).contains("count=101&format=ranges"), node.requests().get(1));
    assertTrue(node.requests().get(2).contains("count=50&format=ranges"), node.requests().get(2));

    for (String noLess : new String[] {"", ",\"count_max\":0", ",\"count_max\":101"}) {
      ScriptedNode refusing = node(path -> CountingScript.count(path) > 50
          ? Reply.status(422, String.format(over, noLess)) : ids.reply(path));
      MintleafClient refused = client(refusing);
      refused.nextId("orders");
      assertEquals("count_over_rate_limit", failure(() -> refused.nextId("orders")).code());
      assertEquals(2, refusing.requests().size(), "no second try");
    }
  }

  @Test
  void frozenRunsOut() throws Exception {
    CountingScript ids = new CountingScript();
    ScriptedNode node = node(ids);
    MintleafClient client = client(node);
    client.nextId("orders");
    client.nextId("orders");

    node.script(path -> Reply.problem(423, "frozen"));
    for (long id = 3; id <= 102; id++) {
      assertEquals(id, client.nextId("orders"));
    }
    assertEquals("frozen", failure(() -> client.nextId("orders")).code());
    assertTrue(node.requests().size() < 15, "no hammering: " + node.requests().size());

    node.script(ids);
    assertEquals(103, client.nextId("orders"));
  }

  @Test
  void tagMadeAgain() throws Exception {
    CountingScript ids = new CountingScript();
    ScriptedNode node = node(ids);
    MintleafClient client = client(node);
    client.nextId("orders");
    client.nextId("orders");

    node.script(path -> Reply.problem(404, "unknown_tag"));
    for (long id = 3; id <= 102; id++) {
      assertEquals(id, client.nextId("orders"));
    }
    assertEquals("unknown_tag", failure(() -> client.nextId("orders")).code());

    node.script(ids);
    int before = node.requests().size();
    assertEquals(103, client.nextId("orders"));
    assertEquals("/v1/segment/orders?count=1", node.requests().get(before));
  }

  @Test
  void restsGrowAndEnd() {
    Endpoint endpoint = Endpoint.parse("http://127.0.0.1:1");
    Endpoints endpoints = new Endpoints(Collections.singletonList(endpoint), null, new Random(1));
    long now = 0;
    for (long millis : new long[] {50, 100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000}) {
      endpoints.failed(endpoint, now, now, 0, MintleafException.closed());
      long rest = (endpoint.restEnds(now) - now) / 1_000_000;
      assertTrue(rest >= millis / 2 - 1 && rest <= millis, rest + " of " + millis);
      now = endpoint.restEnds(now) + 1;
    }
    endpoint.answered();
    endpoints.failed(endpoint, now, now, 0, MintleafException.closed());
    assertTrue(endpoint.restEnds(now) - now <= 50_000_000);
  }

  @Test
  void ownZoneFirst() throws Exception {
    CountingScript ids = new CountingScript();
    ScriptedNode near = node(zoned("z1", ids));
    ScriptedNode far = node(zoned("z2", ids));
    ScriptedNode silent = node(path -> path.equals("/v1/cluster") ? Reply.problem(403, "forbidden") : ids.reply(path));
    MintleafClient client = client(builder().zone("z1").leaseMax(10), far, silent, near);
    eventually(() -> client.control().endpoints.all().stream().filter(each -> each.zone() != null).count() == 2);

    int before = far.requests().size() + silent.requests().size();
    for (int i = 0; i < 200; i++) {
      client.nextId("orders");
    }
    assertEquals(before, far.requests().size() + silent.requests().size());
    near.die();
    for (int i = 0; i < 200; i++) {
      client.nextId("orders");
    }
    assertTrue(far.requests().size() + silent.requests().size() > before);
    near.live();
    int away = near.requests().size();
    eventually(() -> client.nextId("orders") > 0 && near.requests().size() > away);
  }

  @Test
  void zoneStaysAsLastKnown() throws Exception {
    AtomicReference<Reply> cluster = new AtomicReference<>();
    CountingScript ids = new CountingScript();
    ScriptedNode node = node(path -> path.equals("/v1/cluster") ? cluster.get() : ids.reply(path));
    cluster.set(Reply.problem(503, "unavailable"));
    MintleafClient client = client(builder().zone("b"), node);
    Zones zones = new Zones(client.control(), new Random(1));
    Endpoint endpoint = client.control().endpoints.all().get(0);

    for (String[] each : new String[][] {
        {"{\"node_id\":2,\"nodes\":[{\"id\":1,\"zone\":\"a\"},{\"id\":2,\"zone\":\"b\"}]}", "b"},
        {"<html>", "b"},
        {"{}", "b"},
        {"{\"node_id\":3,\"nodes\":[{\"id\":2,\"zone\":\"a\"}]}", "b"},
        {"{\"node_id\":2,\"nodes\":[{\"id\":2}]}", null},
    }) {
      cluster.set(Reply.ok(each[0]));
      zones.run();
      assertEquals(each[1], endpoint.zone(), each[0]);
    }
  }

  @Test
  void clockJumps() throws Exception {
    for (Class<?> each : Arrays.asList(
        MintleafClient.class, MintleafClientBuilder.class, Line.class, Flight.class, Endpoints.class, Endpoint.class,
        Call.class, LeaseSize.class, LeaseBuffer.class, RequestThreads.class, HttpTransport.class, HttpConnection.class,
        Zones.class, WorkerLease.class, WorkerLeases.class, WorkerSnowflakes.class, Dispenser.class)) {
      java.io.InputStream in = each.getResourceAsStream(each.getSimpleName() + ".class");
      byte[] bytes = new byte[100_000];
      String constants = new String(bytes, 0, in.read(bytes), java.nio.charset.StandardCharsets.ISO_8859_1);
      for (String clock : Arrays.asList("currentTimeMillis", "java/util/Date", "java/time/Instant", "java/time/Clock")) {
        assertFalse(constants.contains(clock), each + " reads the time of day");
      }
    }
  }

  @Test
  void oldSnowflakesAreThrownAway() throws Exception {
    CountingScript ids = new CountingScript();
    ScriptedNode node = node(ids);
    AtomicLong ahead = new AtomicLong();
    MintleafClient client = builder().endpoints(node.url()).build(() -> System.nanoTime() + ahead.get());
    opened.add(client);
    while (node.requests().stream().noneMatch(path -> CountingScript.count(path) > 20)) {
      client.nextSnowflake();
    }
    eventually(() -> client.control().threads.active() == 0);

    long heldBelow = ids.next();
    ahead.addAndGet(1_000_000_001L);

    assertTrue(client.nextSnowflake() >= heldBelow, "a snowflake of more than a second ago");
  }

  @Test
  void keptConnectionWasClosed() throws Exception {
    ScriptedNode node = node(CountingScript.withoutLease());
    ScriptedNode other = node(path -> Reply.problem(500, "not_this_one"));
    MintleafClient client = client(node);
    client.nextId("strict");
    for (int i = 0; i < 5; i++) {
      node.endConnections();
      client.nextId("strict");
    }
    assertEquals(0, client.stats().failedRequests(), "the endpoint does not rest");
    assertEquals(6, node.connectionsAccepted());
    assertEquals(0, other.requests().size());
  }

  private ScriptedNode node(ScriptedNode.Script script) throws Exception {
    ScriptedNode node = new ScriptedNode(script);
    opened.add(node);
    return node;
  }

  private static MintleafClientBuilder builder() {
    return MintleafClient.builder().callTimeout(Duration.ofSeconds(8)).random(new InOrder());
  }

  /** Shuffles nothing, so that the endpoints are asked in the order in which a test names them. */
  private static final class InOrder extends Random {
    private static final long serialVersionUID = 1L;

    @Override
    public int nextInt(int bound) {
      return bound - 1;
    }
  }

  private MintleafClient client(ScriptedNode... nodes) {
    return client(builder(), nodes);
  }

  private MintleafClient client(MintleafClientBuilder builder, ScriptedNode... nodes) {
    MintleafClient client =
        builder.endpoints(Arrays.stream(nodes).map(ScriptedNode::url).collect(Collectors.toList())).build();
    opened.add(client);
    return client;
  }

  private static ScriptedNode.Script zoned(String zone, ScriptedNode.Script script) {
    return path -> path.equals("/v1/cluster")
        ? Reply.ok("{\"node_id\":2,\"nodes\":[{\"id\":1,\"zone\":\"elsewhere\"},{\"id\":2,\"zone\":\"" + zone + "\"}]}")
        : script.reply(path);
  }

  private static String ranges(String... ends) {
    StringBuilder ranges = new StringBuilder();
    for (int i = 0; i < ends.length; i += 2) {
      ranges.append(i == 0 ? "" : ",");
      ranges.append("{\"start\":\"").append(ends[i]).append("\",\"end\":\"").append(ends[i + 1]).append("\"}");
    }
    return "{\"tag\":\"any\",\"ranges\":[" + ranges + "]}";
  }

  private static MintleafException failure(Callable<?> call) {
    return assertThrows(MintleafException.class, call::call);
  }

  private static boolean succeeds(Callable<?> call) throws Exception {
    try {
      call.call();
      return true;
    } catch (MintleafException e) {
      return false;
    }
  }

  private static void eventually(Callable<Boolean> holds) throws Exception {
    long end = System.nanoTime() + SECONDS.toNanos(20);
    while (!holds.call()) {
      assertTrue(System.nanoTime() < end, "not within 20 s");
      Thread.sleep(5);
    }
  }

  private static List<Long> list(long[] ids) {
    return Arrays.stream(ids).boxed().collect(Collectors.toList());
  }
}

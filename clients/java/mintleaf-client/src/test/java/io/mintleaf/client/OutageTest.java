package io.mintleaf.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import java.util.stream.Collectors;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** What a program can learn while no node answers. */
@Timeout(60)
class OutageTest {
  private final Logger logger = Logger.getLogger("io.mintleaf.client.MintleafClient");
  private final List<LogRecord> records = Collections.synchronizedList(new ArrayList<>());
  private final Handler handler = new Handler() {
    @Override
    public void publish(LogRecord record) {
      records.add(record);
    }

    @Override
    public void flush() {}

    @Override
    public void close() {}
  };

  @BeforeEach
  void listen() {
    logger.addHandler(handler);
    logger.setUseParentHandlers(false);
  }

  @AfterEach
  void stopListening() {
    logger.removeHandler(handler);
    logger.setUseParentHandlers(true);
  }

  @Test
  void anOutageAndItsEndAreLoggedOnceEach() throws Exception {
    CountingScript ids = new CountingScript();
    try (ScriptedNode a = new ScriptedNode(ids); ScriptedNode b = new ScriptedNode(ids);
        MintleafClient client = client(a, b)) {
      client.nextIds("orders", 2);
      a.die();
      client.nextIds("orders", 400);
      assertEquals(0, records.size(), "one node of two answers");
      b.die();
      for (int i = 0; i < 3; i++) {
        assertThrows(MintleafException.class, () -> client.nextIds("orders", 10_000));
      }
      assertEquals(Collections.singletonList(Level.WARNING), levels());
      assertTrue(records.get(0).getParameters()[0].toString().contains("127.0.0.1"), "no reason");

      b.live();
      eventually(() -> succeeds(client));
      assertTrue(succeeds(client));
      List<Level> both = Arrays.asList(Level.WARNING, Level.INFO);
      assertEquals(both, levels());
      assertEquals(b.url(), records.get(1).getParameters()[0].toString());
    }
  }

  @Test
  void anAnswerToARequestOfBeforeAnOutageIsNotItsEnd() {
    Endpoint node = Endpoint.parse("http://127.0.0.1:1");
    Endpoints endpoints = new Endpoints(Collections.singletonList(node), null, new Random(1));
    endpoints.failed(node, 10, 20, 0, MintleafException.unavailable("as scripted"));
    endpoints.answered(node, 19);
    endpoints.failed(node, 21, 22, 0, MintleafException.unavailable("as scripted"));
    assertEquals(Collections.singletonList(Level.WARNING), levels());
    endpoints.answered(node, 23);
    assertEquals(Arrays.asList(Level.WARNING, Level.INFO), levels());
  }

  @Test
  void itHoldsIdsUntilOneOfItsLeasesIsUsedUp() throws Exception {
    try (ScriptedNode node = new ScriptedNode(new CountingScript()); MintleafClient client = client(node)) {
      assertFalse(client.isHolding(), "nothing was asked for");
      client.nextIds("orders", 2);
      assertFalse(client.isHolding(), "the first answer is no lease");
      client.nextId("orders");
      assertTrue(client.isHolding());
      node.die();
      for (int i = 0; i < 100; i++) {
        assertTrue(client.isHolding(), i + " ids were handed out");
        client.nextId("orders");
      }
      assertFalse(client.isHolding());
      assertEquals(Collections.singleton(node.url()), client.readiness().keySet());
      assertFalse(client.isReady());
    }
  }

  @Test
  void closingIsNoOutage() throws Exception {
    CountDownLatch never = new CountDownLatch(1);
    CountingScript ids = new CountingScript();
    try (ScriptedNode node = new ScriptedNode(path -> ids.reply(path).after(never))) {
      MintleafClient client = client(node);
      Thread caller = new Thread(() -> assertThrows(MintleafException.class, () -> client.nextId("orders")));
      caller.start();
      eventually(() -> node.requests().size() == 1);
      client.close();
      caller.join();
      assertEquals(0, records.size());
    }
  }

  private static MintleafClient client(ScriptedNode... nodes) {
    return MintleafClient.builder()
        .endpoints(Arrays.stream(nodes).map(ScriptedNode::url).collect(Collectors.toList()))
        .callTimeout(Duration.ofMillis(300))
        .build();
  }

  private List<Level> levels() {
    return new ArrayList<>(records).stream().map(LogRecord::getLevel).collect(Collectors.toList());
  }

  private static boolean succeeds(MintleafClient client) {
    try {
      client.nextIds("orders", 10_000);
      return true;
    } catch (MintleafException e) {
      return false;
    }
  }

  private interface Condition {
    boolean holds();
  }

  private static void eventually(Condition condition) throws Exception {
    while (!condition.holds()) {
      Thread.sleep(10);
    }
  }
}

package io.mintleaf.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.opentest4j.TestAbortedException;

/** Registers of real nodes, which are killed under them. */
@Timeout(180)
class RealRegistersTest {
  private static final int KEYS = 300;
  private static RealNodes nodes;

  @BeforeAll
  static void startNodes() throws Exception {
    nodes = RealNodes.three();
    try {
      nodes.send("POST", "/v1/tags", "{\"tag\":\"receipts\",\"kind\":\"register\"}");
    } catch (IOException e) {
      String skipped = "SKIPPED: nodes of this binary have no registers: " + e.getMessage();
      System.err.println(skipped);
      throw new TestAbortedException(skipped);
    }
    nodes.send("POST", "/v1/tags", "{\"tag\":\"invoices\",\"kind\":\"register\",\"format\":\"INV-{id:06}\"}");
  }

  @AfterAll
  static void endNodes() throws Exception {
    if (nodes != null) {
      nodes.close();
    }
  }

  private static MintleafClient client() {
    return MintleafClient.builder().endpoints(nodes.urls()).build();
  }

  @Test
  void aKeyKeepsItsNumberForEver() {
    try (MintleafClient client = client(); MintleafClient another = client()) {
      Registration first = client.register("invoices", "order/1 \u4e2d");
      Registration second = client.register("invoices", "order/2");
      Registration again = another.register("invoices", "order/1 \u4e2d");

      assertEquals(1, first.id());
      assertEquals("INV-000001", first.text());
      assertNull(first.period());
      assertTrue(first.isNew());
      assertEquals("INV-000002", second.text());
      assertEquals(1, again.id());
      assertEquals("INV-000001", again.text());
      assertFalse(again.isNew());
    }
  }

  @Test
  void aNumberOfAPeriodNamesIt() throws Exception {
    String shape = "{\"tag\":\"daily\",\"kind\":\"register\",\"period\":\"day\",\"format\":\"R-{period}-{id:04}\"}";
    nodes.send("POST", "/v1/tags", shape);
    try (MintleafClient client = client()) {
      Registration first = client.register("daily", "a");
      assertTrue(first.period().matches("20[0-9]{6}"), first.period());
      assertEquals("R-" + first.period() + "-0001", first.text());
      assertEquals(first.period(), client.register("daily", "a").period());
    }
  }

  @Test
  void noNumberIsLeftOutOrGivenTwiceWhileNodesAreKilled() throws Exception {
    Map<String, Long> numbers = new ConcurrentHashMap<>();
    ExecutorService threads = Executors.newFixedThreadPool(4);
    try (MintleafClient client = client()) {
      List<Future<?>> running = new ArrayList<>();
      for (int i = 0; i < 4; i++) {
        running.add(threads.submit(() -> {
          // Each key is asked for by all threads, and has one number.
          for (int key = 0; key < KEYS; key++) {
            long number = client.register("receipts", "order-" + key).id();
            Long before = numbers.putIfAbsent("order-" + key, number);
            assertTrue(before == null || before == number, "two numbers of one key");
            Thread.sleep(10);
          }
          return null;
        }));
      }
      for (int node = 0; node < nodes.count(); node++) {
        Thread.sleep(300);
        nodes.kill(node);
        Thread.sleep(300);
        nodes.start(node);
        nodes.awaitReady(node);
      }
      for (Future<?> each : running) {
        each.get();
      }
      TreeSet<Long> all = new TreeSet<>(numbers.values());
      assertEquals(KEYS, all.size(), "a number of two keys");
      assertEquals(1, all.first());
      assertEquals(KEYS, all.last(), "a gap");
    } finally {
      threads.shutdownNow();
    }
  }
}

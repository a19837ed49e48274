package io.mintleaf.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.sql.Connection;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/** Eight threads that insert 10,000 rows through a framework, with keys of a client. */
public final class EightWriters {
  public static final int ROWS = 10_000;
  private static final int WRITERS = 8;
  private static final int ROWS_OF_A_REQUEST = 1_000;

  private EightWriters() {}

  /** Inserts rows, as many as it is asked for. */
  public interface Writer {
    void insert(int rows) throws Exception;
  }

  /** Has all rows inserted, and holds the client to one request for a thousand of them. */
  public static void insert(MintleafClient client, Writer writer) throws Exception {
    long before = client.stats().requests();
    ExecutorService threads = Executors.newFixedThreadPool(WRITERS);
    try {
      List<Future<?>> writing = new ArrayList<>();
      for (int i = 0; i < WRITERS; i++) {
        writing.add(threads.submit(() -> {
          writer.insert(ROWS / WRITERS);
          return null;
        }));
      }
      for (Future<?> each : writing) {
        each.get();
      }
    } finally {
      threads.shutdownNow();
    }
    long requests = client.stats().requests() - before;
    assertTrue(requests <= ROWS / ROWS_OF_A_REQUEST, requests + " requests for " + ROWS + " rows");
  }

  /** Checks that a column holds all keys, none of them twice. */
  public static void checkKeys(Connection connection, String column, String table) throws SQLException {
    Set<Long> keys = new HashSet<>();
    try (Statement statement = connection.createStatement();
        ResultSet rows = statement.executeQuery("SELECT " + column + " FROM " + table)) {
      while (rows.next()) {
        assertTrue(rows.getLong(1) > 0 && keys.add(rows.getLong(1)), "twice, or no key: " + rows.getLong(1));
      }
    }
    assertEquals(ROWS, keys.size());
  }
}

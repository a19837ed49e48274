package io.mintleaf.shardingsphere;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.mintleaf.client.EightWriters;
import io.mintleaf.client.Example;
import io.mintleaf.client.MintleafClient;
import io.mintleaf.client.RealNodes;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Collections;
import java.util.Properties;
import javax.sql.DataSource;
import org.apache.shardingsphere.driver.api.yaml.YamlShardingSphereDataSourceFactory;
import org.apache.shardingsphere.infra.algorithm.core.context.AlgorithmSQLContext;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import shop.ShardingShop;

/** ShardingSphere inserts rows into two databases, with keys that come from real nodes. */
@Timeout(180)
class MintleafKeyGenerateAlgorithmTest {
  private static final AlgorithmSQLContext PARCELS = new AlgorithmSQLContext("shop", "public", "parcels", "id");

  private static RealNodes nodes;

  @BeforeAll
  static void start() throws Exception {
    nodes = RealNodes.three();
  }

  @AfterAll
  static void end() throws Exception {
    if (nodes != null) {
      algorithm(null).client().close();
      nodes.close();
    }
  }

  @Test
  void keysComeFromTheTagOfTheTable() throws Exception {
    DataSource source = YamlShardingSphereDataSourceFactory.createDataSource(
        configuration().getBytes(StandardCharsets.UTF_8));
    try (Connection connection = source.getConnection()) {
      connection.createStatement().execute("CREATE TABLE orders (id BIGINT PRIMARY KEY, article VARCHAR(20))");
    }
    MintleafClient client = algorithm(null).client();

    EightWriters.insert(client, rows -> insert(source, rows));

    try (Connection connection = source.getConnection()) {
      EightWriters.checkKeys(connection, "id", "orders");
    }
    int all = 0;
    for (String database : new String[] {"ds_0", "ds_1"}) {
      int rows = rows(database);
      assertTrue(rows > EightWriters.ROWS / 3, rows + " rows in " + database);
      all += rows;
    }
    assertEquals(EightWriters.ROWS, all);
    assertTrue(client.nextId("orders") > EightWriters.ROWS, "the tag gave the keys");
    ((AutoCloseable) source).close();
  }

  @Test
  void aStatementOfManyRowsGetsAKeyForEach() {
    Object[] keys = algorithm("bulk").generateKeys(PARCELS, 12_345).toArray();
    assertEquals(12_345, keys.length);
    for (int i = 0; i < keys.length; i++) {
      assertEquals(1L + i, keys[i]);
    }
  }

  @Test
  void withoutATagItIsTheTables() {
    long key = algorithm(null).generateKeys(PARCELS, 1).iterator().next();
    long next = algorithm("parcels").generateKeys(PARCELS, 1).iterator().next();
    assertEquals(key + 1, next);
  }

  @Test
  void algorithmsOfTheSameEndpointsShareAClient() {
    Properties another = new Properties();
    another.setProperty("endpoints", String.join(" , ", nodes.urls()));
    another.setProperty("token", "mlt_another");
    MintleafKeyGenerateAlgorithm withToken = new MintleafKeyGenerateAlgorithm();
    withToken.init(another);
    assertSame(algorithm("a").client(), algorithm("b").client());
    assertNotSame(algorithm("a").client(), withToken.client());
    withToken.client().close();
  }

  @Test
  void withoutEndpointsThePropertyIsNamed() {
    MintleafKeyGenerateAlgorithm algorithm = new MintleafKeyGenerateAlgorithm();
    String message =
        assertThrows(IllegalArgumentException.class, () -> algorithm.init(new Properties())).getMessage();
    assertTrue(message.contains("endpoints"), message);
  }

  @Test
  void programOfThePageRuns() throws Exception {
    Example.isShown("src/test/resources/shop.yaml");
    String nodesOfThePage = "http://localhost:8081,http://localhost:8082,http://localhost:8083";
    String yaml = Example.read("src/test/resources/shop.yaml").replace(nodesOfThePage, String.join(",", nodes.urls()));
    Path file = nodes.directory().resolve("shop.yaml");
    Files.write(file, yaml.getBytes(StandardCharsets.UTF_8));
    String order = Example.print(ShardingShop::main, file.toString());
    assertTrue(order.matches("(?s).*order [0-9]+\\R"), order);
  }

  private static MintleafKeyGenerateAlgorithm algorithm(String tag) {
    Properties properties = new Properties();
    properties.setProperty("endpoints", String.join(",", nodes.urls()));
    if (tag != null) {
      properties.setProperty("tag", tag);
    }
    MintleafKeyGenerateAlgorithm algorithm = new MintleafKeyGenerateAlgorithm();
    algorithm.init(properties);
    return algorithm;
  }

  private static String configuration() {
    StringBuilder yaml = new StringBuilder("dataSources:\n");
    for (String database : new String[] {"ds_0", "ds_1"}) {
      yaml.append("  ").append(database).append(":\n")
          .append("    dataSourceClassName: com.zaxxer.hikari.HikariDataSource\n")
          .append("    driverClassName: org.h2.Driver\n")
          .append("    jdbcUrl: ").append(url(database)).append('\n')
          .append("    username: sa\n")
          .append("    password:\n");
    }
    return yaml + String.join("\n",
        "rules:",
        "- !SHARDING",
        "  tables:",
        "    orders:",
        "      actualDataNodes: ds_${0..1}.orders",
        "      databaseStrategy:",
        "        standard:",
        "          shardingColumn: id",
        "          shardingAlgorithmName: by_id",
        "      keyGenerateStrategy:",
        "        column: id",
        "        keyGeneratorName: mintleaf",
        "  shardingAlgorithms:",
        "    by_id:",
        "      type: INLINE",
        "      props:",
        "        algorithm-expression: ds_${id % 2}",
        "  keyGenerators:",
        "    mintleaf:",
        "      type: MINTLEAF",
        "      props:",
        "        endpoints: " + String.join(",", nodes.urls()),
        "");
  }

  private static String url(String database) {
    return "jdbc:h2:mem:" + database + ";DB_CLOSE_DELAY=-1;DATABASE_TO_UPPER=false;MODE=MySQL";
  }

  private static void insert(DataSource source, int rows) throws SQLException {
    String ten = "INSERT INTO orders (article) VALUES " + String.join(", ", Collections.nCopies(10, "('tea')"));
    try (Connection connection = source.getConnection();
        PreparedStatement insert = connection.prepareStatement(ten, Statement.RETURN_GENERATED_KEYS)) {
      for (int i = 0; i < rows / 10; i++) {
        assertEquals(10, insert.executeUpdate());
        try (ResultSet keys = insert.getGeneratedKeys()) {
          for (int key = 0; key < 10; key++) {
            assertTrue(keys.next() && keys.getLong(1) > 0, "the program gets its keys");
          }
        }
      }
    }
  }

  private static int rows(String database) throws SQLException {
    try (Connection connection = DriverManager.getConnection(url(database), "sa", "");
        ResultSet row = connection.createStatement().executeQuery("SELECT COUNT(*) FROM orders")) {
      row.next();
      return row.getInt(1);
    }
  }
}

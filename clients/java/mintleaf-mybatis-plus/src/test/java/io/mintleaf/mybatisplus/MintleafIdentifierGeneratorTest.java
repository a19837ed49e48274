package io.mintleaf.mybatisplus;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.baomidou.mybatisplus.annotation.IdType;
import com.baomidou.mybatisplus.annotation.TableId;
import com.baomidou.mybatisplus.annotation.TableName;
import com.baomidou.mybatisplus.core.MybatisConfiguration;
import com.baomidou.mybatisplus.core.MybatisSqlSessionFactoryBuilder;
import com.baomidou.mybatisplus.core.incrementer.IdentifierGenerator;
import com.baomidou.mybatisplus.core.mapper.BaseMapper;
import com.baomidou.mybatisplus.core.toolkit.GlobalConfigUtils;
import io.mintleaf.client.EightWriters;
import io.mintleaf.client.Example;
import io.mintleaf.client.MintleafClient;
import io.mintleaf.client.RealNodes;
import io.mintleaf.client.WorkerLease;
import java.sql.Connection;
import org.apache.ibatis.datasource.pooled.PooledDataSource;
import org.apache.ibatis.mapping.Environment;
import org.apache.ibatis.session.ExecutorType;
import org.apache.ibatis.session.SqlSession;
import org.apache.ibatis.session.SqlSessionFactory;
import org.apache.ibatis.transaction.jdbc.JdbcTransactionFactory;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import shop.HutoolShop;
import shop.MybatisPlusShop;

/** MyBatis-Plus inserts rows whose keys come from real nodes. */
@Timeout(120)
class MintleafIdentifierGeneratorTest {
  private static RealNodes nodes;
  private static MintleafClient client;

  @BeforeAll
  static void start() throws Exception {
    nodes = RealNodes.three();
    client = MintleafClient.builder().endpoints(nodes.urls()).build();
    nodes.send("PUT", "/v1/pools/shops", "{\"workers\":\"0-1023\"}");
  }

  @AfterAll
  static void end() throws Exception {
    if (nodes != null) {
      client.close();
      nodes.close();
    }
  }

  /** A row whose key is a number. */
  @TableName("orders")
  public static class Order {
    /** The key. */
    @TableId(type = IdType.ASSIGN_ID)
    public Long id;
    /** What was ordered. */
    public String article;
  }

  /** A row whose key is a text. */
  @TableName("parcels")
  public static class Parcel {
    /** The key. */
    @TableId(type = IdType.ASSIGN_ID)
    public String id;
    /** What is in it. */
    public String article;
  }

  /** Inserts orders. */
  public interface Orders extends BaseMapper<Order> {}

  /** Inserts parcels. */
  public interface Parcels extends BaseMapper<Parcel> {}

  @Test
  void keysOfATableComeFromItsTag() throws Exception {
    SqlSessionFactory sessions = sessions("tags", MintleafIdentifierGenerator.ofTables(client));
    EightWriters.insert(client, rows -> insertOrders(sessions, rows));
    check(sessions);
    assertTrue(client.nextId("orders") > EightWriters.ROWS, "the tag gave the keys");
  }

  @Test
  void keysOfALeaseHoldItsWorkerId() throws Exception {
    try (WorkerLease lease = client.leaseWorker("shops")) {
      SqlSessionFactory sessions = sessions("lease", MintleafIdentifierGenerator.ofLease(lease));
      EightWriters.insert(client, rows -> insertOrders(sessions, rows));
      check(sessions);
      try (SqlSession session = sessions.openSession()) {
        for (Order order : session.getMapper(Orders.class).selectList(null)) {
          assertEquals(lease.workerId(), order.id >> 12 & 1023);
        }
      }
    }
  }

  @Test
  void aTextualKeyIsTheNumberInDecimal() throws Exception {
    SqlSessionFactory sessions = sessions("texts", MintleafIdentifierGenerator.ofTags(client, any -> "all"));
    try (SqlSession session = sessions.openSession()) {
      Parcel parcel = new Parcel();
      parcel.article = "tea";
      session.getMapper(Parcels.class).insert(parcel);
      assertEquals(client.nextId("all") - 1, Long.parseLong(parcel.id));
    }
  }

  @Test
  void aClassThatIsNoEntityIsNamed() {
    IdentifierGenerator ids = MintleafIdentifierGenerator.ofTables(client);
    String message = assertThrows(IllegalArgumentException.class, () -> ids.nextId("no entity")).getMessage();
    assertTrue(message.contains("java.lang.String"), message);
  }

  @Test
  void programsOfThePageRun() throws Exception {
    Example.isShown("src/test/java/shop/MybatisPlusShop.java");
    Example.isShown("src/test/java/shop/HutoolShop.java");
    String[] urls = nodes.urls().toArray(new String[0]);
    String order = Example.print(MybatisPlusShop::main, urls);
    assertTrue(order.matches("(?s).*order [0-9]+\\R"), order);
    String byLease = Example.print(HutoolShop::main, urls);
    assertTrue(byLease.matches("worker id [0-9]+, order [0-9]{15,}\\R"), byLease);
  }

  private static SqlSessionFactory sessions(String database, IdentifierGenerator ids) throws Exception {
    PooledDataSource source =
        new PooledDataSource("org.h2.Driver", "jdbc:h2:mem:" + database + ";DB_CLOSE_DELAY=-1", "sa", "");
    try (Connection connection = source.getConnection()) {
      connection.createStatement().execute("CREATE TABLE orders (id BIGINT PRIMARY KEY, article VARCHAR(20))");
      connection.createStatement().execute("CREATE TABLE parcels (id VARCHAR(20) PRIMARY KEY, article VARCHAR(20))");
    }
    MybatisConfiguration configuration =
        new MybatisConfiguration(new Environment("test", new JdbcTransactionFactory(), source));
    GlobalConfigUtils.getGlobalConfig(configuration).setIdentifierGenerator(ids).setBanner(false);
    configuration.addMapper(Orders.class);
    configuration.addMapper(Parcels.class);
    return new MybatisSqlSessionFactoryBuilder().build(configuration);
  }

  private static void insertOrders(SqlSessionFactory sessions, int rows) {
    try (SqlSession session = sessions.openSession(ExecutorType.BATCH)) {
      Orders orders = session.getMapper(Orders.class);
      for (int i = 0; i < rows; i++) {
        Order order = new Order();
        order.article = "tea";
        orders.insert(order);
      }
      session.commit();
    }
  }

  private static void check(SqlSessionFactory sessions) throws Exception {
    try (SqlSession session = sessions.openSession()) {
      EightWriters.checkKeys(session.getConnection(), "id", "orders");
    }
  }
}

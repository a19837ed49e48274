package io.mintleaf.hibernate;

import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.mintleaf.client.EightWriters;
import io.mintleaf.client.MintleafClient;
import io.mintleaf.client.RealNodes;
import io.mintleaf.hibernate.Entities.Letter;
import io.mintleaf.hibernate.Entities.Order;
import io.mintleaf.hibernate.Entities.Parcel;
import java.util.logging.Level;
import java.util.logging.Logger;
import org.hibernate.Session;
import org.hibernate.SessionFactory;
import org.hibernate.cfg.Configuration;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Each Hibernate inserts rows whose keys come from real nodes. */
@Timeout(120)
class MintleafIdTest {
  private static final Logger LOG = Logger.getLogger("org.hibernate");

  private static RealNodes nodes;
  private static MintleafClient client;

  @BeforeAll
  static void start() throws Exception {
    LOG.setLevel(Level.SEVERE);
    nodes = RealNodes.three();
    client = MintleafClient.builder().endpoints(nodes.urls()).build();
  }

  @AfterAll
  static void end() throws Exception {
    if (nodes != null) {
      client.close();
      nodes.close();
    }
  }

  @Test
  void keysComeFromTheTag() throws Exception {
    try (SessionFactory factory = factory("orders", client)) {
      EightWriters.insert(client, rows -> insertOrders(factory, rows));
      try (Session session = factory.openSession()) {
        session.doWork(connection -> EightWriters.checkKeys(connection, "id", "orders"));
      }
      assertTrue(client.nextId("orders") > EightWriters.ROWS, "the tag gave the keys");
    }
  }

  @Test
  @SuppressWarnings("cast") // Hibernate 5.6 returns an Object.
  void keysOfEveryTypeAndPlaceAreGenerated() {
    try (SessionFactory factory = factory("others", client); Session session = factory.openSession()) {
      session.beginTransaction();
      Parcel first = new Parcel();
      Parcel second = new Parcel();
      session.persist(first);
      session.persist(second);
      Letter letter = new Letter();
      session.persist(letter);
      session.getTransaction().commit();
      assertTrue(first.getId() >= 1);
      assertTrue(second.getId() > first.getId());
      assertTrue(Long.parseLong(letter.id) >= 1);
      Parcel merged = (Parcel) session.merge(new Parcel());
      assertTrue(merged.getId() > second.getId(), "an entity without a key is new");
    }
  }

  @Test
  void aFactoryWithoutAClientNamesTheProperty() {
    try (SessionFactory factory = factory("none", "http://localhost:8080"); Session session = factory.openSession()) {
      RuntimeException failure = assertThrows(RuntimeException.class, () -> session.persist(new Order()));
      assertTrue(failure.toString().contains(MintleafIdGenerator.CLIENT), failure.toString());
    }
  }

  private static void insertOrders(SessionFactory factory, int rows) {
    try (Session session = factory.openSession()) {
      session.beginTransaction();
      for (int i = 0; i < rows; i++) {
        Order order = new Order();
        order.article = "tea";
        session.persist(order);
      }
      session.getTransaction().commit();
    }
  }

  private static SessionFactory factory(String database, Object client) {
    Configuration configuration = new Configuration()
        .addAnnotatedClass(Order.class).addAnnotatedClass(Parcel.class).addAnnotatedClass(Letter.class)
        .setProperty("hibernate.connection.url", "jdbc:h2:mem:" + database + ";DB_CLOSE_DELAY=-1")
        .setProperty("hibernate.connection.pool_size", "8")
        .setProperty("hibernate.hbm2ddl.auto", "create")
        .setProperty("hibernate.jdbc.batch_size", "100");
    configuration.getProperties().put(MintleafIdGenerator.CLIENT, client);
    return configuration.buildSessionFactory();
  }
}

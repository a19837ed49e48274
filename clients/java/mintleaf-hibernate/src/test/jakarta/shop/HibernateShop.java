package shop;

import io.mintleaf.client.MintleafClient;
import io.mintleaf.hibernate.MintleafId;
import io.mintleaf.hibernate.MintleafIdGenerator;
import jakarta.persistence.Entity;
import jakarta.persistence.Id;
import jakarta.persistence.Table;
import org.hibernate.Session;
import org.hibernate.SessionFactory;
import org.hibernate.cfg.Configuration;

public class HibernateShop {
  @Entity
  @Table(name = "orders")
  public static class Order {
    @Id
    @MintleafId("orders") // the tag; without @GeneratedValue
    public Long id;
    public String article;
  }

  /** Takes the addresses of the nodes: http://localhost:8081 http://localhost:8082 http://localhost:8083. */
  public static void main(String[] nodes) {
    try (MintleafClient client = MintleafClient.builder().endpoints(nodes).build()) {
      Configuration configuration = new Configuration()
          .addAnnotatedClass(Order.class)
          .setProperty("hibernate.connection.url", "jdbc:h2:mem:shop")
          .setProperty("hibernate.hbm2ddl.auto", "create");
      configuration.getProperties().put(MintleafIdGenerator.CLIENT, client);

      try (SessionFactory factory = configuration.buildSessionFactory(); Session session = factory.openSession()) {
        session.beginTransaction();
        Order order = new Order();
        order.article = "tea";
        session.persist(order);
        session.getTransaction().commit();
        System.out.println("order " + order.id);
      }
    }
  }
}

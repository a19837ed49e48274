package jpashop;

import io.mintleaf.client.MintleafClient;
import io.mintleaf.hibernate.MintleafId;
import io.mintleaf.hibernate.MintleafIdGenerator;
import jakarta.persistence.Entity;
import jakarta.persistence.Id;
import jakarta.persistence.Table;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.boot.autoconfigure.orm.jpa.HibernatePropertiesCustomizer;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.data.jpa.repository.JpaRepository;
import org.springframework.data.jpa.repository.config.EnableJpaRepositories;

@SpringBootApplication
@EnableJpaRepositories(considerNestedRepositories = true)
public class SpringDataJpaShop {
  @Entity
  @Table(name = "orders")
  public static class Order {
    @Id
    @MintleafId("orders") // the tag; without @GeneratedValue
    public Long id;
    public String article;
  }

  public interface Orders extends JpaRepository<Order, Long> {}

  @Bean
  HibernatePropertiesCustomizer mintleaf(MintleafClient client) {
    return properties -> properties.put(MintleafIdGenerator.CLIENT, client);
  }

  static ConfigurableApplicationContext run(String... nodes) {
    return SpringApplication.run(SpringDataJpaShop.class,
        "--mintleaf.endpoints=" + String.join(",", nodes),
        "--spring.datasource.url=jdbc:h2:mem:jpashop",
        "--spring.jpa.hibernate.ddl-auto=create",
        "--spring.jpa.properties.hibernate.jdbc.batch_size=250"); // keys are there before the insert, so it is a batch
  }

  /** Takes the addresses of the nodes: http://localhost:8081 http://localhost:8082 http://localhost:8083. */
  public static void main(String[] nodes) {
    try (ConfigurableApplicationContext shop = run(nodes)) {
      Order order = new Order();
      order.article = "tea";
      shop.getBean(Orders.class).save(order);
      System.out.println("order " + order.id);
    }
  }
}

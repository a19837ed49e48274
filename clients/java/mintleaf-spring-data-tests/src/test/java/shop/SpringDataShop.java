package shop;

import io.mintleaf.client.MintleafClient;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.data.annotation.Id;
import org.springframework.data.jdbc.repository.config.EnableJdbcRepositories;
import org.springframework.data.relational.core.mapping.Table;
import org.springframework.data.relational.core.mapping.event.BeforeConvertCallback;
import org.springframework.data.repository.CrudRepository;
import org.springframework.jdbc.core.JdbcTemplate;

@SpringBootApplication
@EnableJdbcRepositories(considerNestedRepositories = true)
public class SpringDataShop {
  @Table("orders")
  public static class Order {
    @Id
    public Long id;
    public String article;
  }

  public interface Orders extends CrudRepository<Order, Long> {}

  /** Gives a new row its key. Spring Data has seen by then that the row is new, so it inserts it. */
  @Bean
  BeforeConvertCallback<Order> orderIds(MintleafClient client) {
    return order -> {
      if (order.id == null) {
        order.id = client.nextId("orders");
      }
      return order;
    };
  }

  static ConfigurableApplicationContext run(String... nodes) {
    ConfigurableApplicationContext shop = SpringApplication.run(SpringDataShop.class,
        "--mintleaf.endpoints=" + String.join(",", nodes),
        "--spring.datasource.url=jdbc:h2:mem:shop;CASE_INSENSITIVE_IDENTIFIERS=TRUE");
    shop.getBean(JdbcTemplate.class).execute("CREATE TABLE orders (id BIGINT PRIMARY KEY, article VARCHAR(20))");
    return shop;
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

package shop;

import io.mintleaf.client.EightWriters;
import io.mintleaf.client.Example;
import io.mintleaf.client.MintleafClient;
import io.mintleaf.client.RealNodes;
import java.sql.Connection;
import java.util.ArrayList;
import java.util.List;
import javax.sql.DataSource;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.springframework.context.ConfigurableApplicationContext;
import shop.SpringDataShop.Order;
import shop.SpringDataShop.Orders;

/** The program of docs/adapters.md. */
@Timeout(180)
class SpringDataShopTest {
  @Test
  void programOfThePageRuns() throws Exception {
    Example.makesTheFirstOrder("../mintleaf-spring-data-tests/src/test/java/shop/SpringDataShop.java", SpringDataShop::main);
  }

  @Test
  void eightWritersGetDistinctKeysWithFewRequests() throws Exception {
    try (RealNodes nodes = RealNodes.of(1);
        ConfigurableApplicationContext shop = SpringDataShop.run(nodes.urls().toArray(new String[0]))) {
      EightWriters.insert(shop.getBean(MintleafClient.class), rows -> {
        List<Order> orders = new ArrayList<>();
        for (int i = 0; i < rows; i++) {
          orders.add(new Order());
        }
        shop.getBean(Orders.class).saveAll(orders);
      });
      try (Connection connection = shop.getBean(DataSource.class).getConnection()) {
        EightWriters.checkKeys(connection, "id", "orders");
      }
    }
  }
}

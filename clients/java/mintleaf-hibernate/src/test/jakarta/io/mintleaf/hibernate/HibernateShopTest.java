package io.mintleaf.hibernate;

import static org.junit.jupiter.api.Assertions.assertTrue;

import io.mintleaf.client.Example;
import io.mintleaf.client.RealNodes;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import shop.HibernateShop;

/** The program of docs/adapters.md. */
@Timeout(60)
class HibernateShopTest {
  @Test
  void programOfThePageRuns() throws Exception {
    Example.isShown("../mintleaf-hibernate/src/test/jakarta/shop/HibernateShop.java");
    try (RealNodes nodes = RealNodes.of(1)) {
      String order = Example.print(HibernateShop::main, nodes.urls().toArray(new String[0]));
      assertTrue(order.endsWith("order 1\n"), order);
    }
  }
}

package io.mintleaf.hibernate;

import io.mintleaf.client.Example;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import shop.HibernateShop;

/** The program of docs/adapters.md. */
@Timeout(60)
class HibernateShopTest {
  @Test
  void programOfThePageRuns() throws Exception {
    Example.makesTheFirstOrder("../mintleaf-hibernate/src/test/jakarta/shop/HibernateShop.java", HibernateShop::main);
  }
}

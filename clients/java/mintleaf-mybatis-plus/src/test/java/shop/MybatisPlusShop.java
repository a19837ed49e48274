package shop;

import com.baomidou.mybatisplus.annotation.IdType;
import com.baomidou.mybatisplus.annotation.TableId;
import com.baomidou.mybatisplus.annotation.TableName;
import com.baomidou.mybatisplus.core.MybatisConfiguration;
import com.baomidou.mybatisplus.core.MybatisSqlSessionFactoryBuilder;
import com.baomidou.mybatisplus.core.mapper.BaseMapper;
import com.baomidou.mybatisplus.core.toolkit.GlobalConfigUtils;
import io.mintleaf.client.MintleafClient;
import io.mintleaf.mybatisplus.MintleafIdentifierGenerator;
import org.apache.ibatis.datasource.pooled.PooledDataSource;
import org.apache.ibatis.mapping.Environment;
import org.apache.ibatis.session.SqlSession;
import org.apache.ibatis.transaction.jdbc.JdbcTransactionFactory;

public class MybatisPlusShop {
  @TableName("orders")
  public static class Order {
    @TableId(type = IdType.ASSIGN_ID)
    public Long id;
    public String article;
  }

  public interface Orders extends BaseMapper<Order> {}

  /** Takes the addresses of the nodes: http://localhost:8081 http://localhost:8082 http://localhost:8083. */
  public static void main(String[] nodes) throws Exception {
    try (MintleafClient client = MintleafClient.builder().endpoints(nodes).build()) {
      PooledDataSource database = new PooledDataSource("org.h2.Driver", "jdbc:h2:mem:shop;DB_CLOSE_DELAY=-1", "sa", "");
      MybatisConfiguration configuration =
          new MybatisConfiguration(new Environment("shop", new JdbcTransactionFactory(), database));
      GlobalConfigUtils.getGlobalConfig(configuration)
          .setIdentifierGenerator(MintleafIdentifierGenerator.ofTables(client)); // each table has its tag
      configuration.addMapper(Orders.class);

      try (SqlSession session = new MybatisSqlSessionFactoryBuilder().build(configuration).openSession(true)) {
        session.getConnection().createStatement()
            .execute("CREATE TABLE orders (id BIGINT PRIMARY KEY, article VARCHAR(20))");
        Order order = new Order();
        order.article = "tea";
        session.getMapper(Orders.class).insert(order);
        System.out.println("order " + order.id);
      }
    }
  }
}

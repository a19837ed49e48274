package shop;

import java.io.File;
import java.sql.Connection;
import java.sql.ResultSet;
import java.sql.Statement;
import javax.sql.DataSource;
import org.apache.shardingsphere.driver.api.yaml.YamlShardingSphereDataSourceFactory;

public class ShardingShop {
  /** Takes the path of shop.yaml. */
  public static void main(String[] file) throws Exception {
    DataSource database = YamlShardingSphereDataSourceFactory.createDataSource(new File(file[0]));
    try (Connection connection = database.getConnection(); Statement statement = connection.createStatement()) {
      statement.execute("CREATE TABLE orders (id BIGINT PRIMARY KEY, article VARCHAR(20))");
      statement.executeUpdate("INSERT INTO orders (article) VALUES ('tea')", Statement.RETURN_GENERATED_KEYS);
      try (ResultSet keys = statement.getGeneratedKeys()) {
        keys.next();
        System.out.println("order " + keys.getLong(1));
      }
    }
  }
}

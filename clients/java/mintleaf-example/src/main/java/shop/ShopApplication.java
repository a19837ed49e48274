package shop;

import io.mintleaf.client.MintleafClient;
import java.util.LinkedHashMap;
import java.util.Map;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.RequestParam;
import org.springframework.web.bind.annotation.RestController;

@SpringBootApplication
@RestController
public class ShopApplication {
  private final MintleafClient ids;

  public ShopApplication(MintleafClient ids) {
    this.ids = ids;
  }

  @PostMapping("/orders")
  Map<String, String> order(@RequestParam("article") String article) {
    Map<String, String> order = new LinkedHashMap<>();
    // As text, because JavaScript cannot hold 63 bits.
    order.put("id", Long.toString(ids.nextId("orders")));
    order.put("article", article);
    return order;
  }

  public static void main(String[] args) {
    SpringApplication.run(ShopApplication.class, args);
  }
}

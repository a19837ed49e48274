package shop;

import io.mintleaf.client.MintleafClient;
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

  record Order(String id, String article) {}

  @PostMapping("/orders")
  Order order(@RequestParam("article") String article) {
    // As text, because JavaScript cannot hold 63 bits.
    return new Order(Long.toString(ids.nextId("orders")), article);
  }

  public static void main(String[] args) {
    SpringApplication.run(ShopApplication.class, args);
  }
}

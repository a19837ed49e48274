package shop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.mintleaf.client.RealNodes;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.springframework.boot.SpringApplication;
import org.springframework.context.ConfigurableApplicationContext;

/** The README's example, run on Spring Boot 3. */
class ShopApplicationTest {
  private final HttpClient http = HttpClient.newHttpClient();

  @Test
  void exampleOfTheReadmeRuns() throws Exception {
    try (RealNodes nodes = RealNodes.of(1);
        ConfigurableApplicationContext context = SpringApplication.run(ShopApplication.class,
            "--server.port=0", "--mintleaf.endpoints=" + String.join(",", nodes.urls()))) {
      String base = "http://localhost:" + context.getEnvironment().getProperty("local.server.port");

      assertEquals("{\"id\":\"1\",\"article\":\"tea\"}", post(base + "/orders?article=tea"));
      assertEquals("{\"id\":\"2\",\"article\":\"mint\"}", post(base + "/orders?article=mint"));
      String health = get(base + "/actuator/health");
      assertTrue(health.contains("\"mintleaf\":{\"status\":\"UP\""), health);
      String metric = get(base + "/actuator/metrics/mintleaf.client.requests");
      assertTrue(metric.contains("\"value\":2.0"), metric);
    }
  }

  @Test
  void readmeShowsTheExampleToTheLetter() throws Exception {
    String readme = Files.readString(Path.of("../README.md"));
    for (String file : new String[] {"java/shop/ShopApplication.java", "resources/application.properties"}) {
      String text = Files.readString(Path.of("src/main").resolve(file));
      assertTrue(readme.contains("\n" + text + "```\n"), "README.md does not show " + file + " as it is");
    }
  }

  private String get(String url) throws Exception {
    return http.send(HttpRequest.newBuilder(URI.create(url)).build(), BodyHandlers.ofString()).body();
  }

  private String post(String url) throws Exception {
    HttpRequest request =
        HttpRequest.newBuilder(URI.create(url)).POST(HttpRequest.BodyPublishers.noBody()).build();
    return http.send(request, BodyHandlers.ofString()).body();
  }
}

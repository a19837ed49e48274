package shop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.mintleaf.client.RealNodes;
import java.io.InputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.jar.JarFile;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import org.springframework.boot.SpringApplication;
import org.springframework.context.ConfigurableApplicationContext;

/** The README's example, run on Spring Boot 3 in this process, and as the jar that its own pom.xml makes. */
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
  void exampleOfTheReadmeIsAJarForJava8OnBoot2() throws Exception {
    Path jar = Path.of("../mintleaf-example/target/shop-1.0.jar");
    try (JarFile file = new JarFile(jar.toFile());
        InputStream main = file.getInputStream(file.getEntry("BOOT-INF/classes/shop/ShopApplication.class"))) {
      assertEquals(52, main.readNBytes(8)[7], "the version of class files of Java 8");
    }
    try (RealNodes nodes = RealNodes.of(1)) {
      Path log = nodes.directory().resolve("shop.log");
      Process shop = new ProcessBuilder(ProcessHandle.current().info().command().orElseThrow(), "-jar", jar.toString(),
          "--server.port=0", "--mintleaf.endpoints=" + String.join(",", nodes.urls()))
          .redirectErrorStream(true).redirectOutput(log.toFile()).start();
      try {
        String base = "http://localhost:" + portIn(log, shop);
        assertEquals("{\"id\":\"1\",\"article\":\"tea\"}", post(base + "/orders?article=tea"));
        assertTrue(get(base + "/actuator/health").contains("\"mintleaf\":{\"status\":\"UP\""));
      } finally {
        shop.destroyForcibly().waitFor();
      }
    }
  }

  /** Returns the port that Boot says it listens on. */
  private static String portIn(Path log, Process shop) throws Exception {
    Pattern says = Pattern.compile("Tomcat started on port\\(s\\): (\\d+)");
    long end = System.nanoTime() + 120_000_000_000L;
    while (true) {
      Matcher found = says.matcher(Files.readString(log));
      if (found.find()) {
        return found.group(1);
      }
      assertTrue(shop.isAlive() && System.nanoTime() < end, Files.readString(log));
      Thread.sleep(50);
    }
  }

  @Test
  void readmeShowsTheExampleToTheLetter() throws Exception {
    String readme = Files.readString(Path.of("../README.md"));
    List<String> files =
        List.of("pom.xml", "src/main/java/shop/ShopApplication.java", "src/main/resources/application.properties");
    for (String file : files) {
      String text = Files.readString(Path.of("../mintleaf-example").resolve(file));
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

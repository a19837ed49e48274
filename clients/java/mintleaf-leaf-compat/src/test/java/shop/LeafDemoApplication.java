package shop;

import com.sankuai.inf.leaf.plugin.annotation.EnableLeafServer;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;

/** A program as the README of Leaf's starter describes it: annotated, and with both services injected. */
@SpringBootApplication
@EnableLeafServer
public class LeafDemoApplication {
  public static void main(String[] args) {
    SpringApplication.run(LeafDemoApplication.class, args);
  }
}

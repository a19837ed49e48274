package shop;

import com.sankuai.inf.leaf.plugin.annotation.EnableLeafServer;
import org.springframework.boot.SpringBootConfiguration;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;

/** A program that has Leaf on board and takes no id. */
@SpringBootConfiguration
@EnableAutoConfiguration
@EnableLeafServer
class NoOrders {}

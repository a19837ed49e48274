package shop;

import com.sankuai.inf.leaf.service.SegmentService;
import com.sankuai.inf.leaf.service.SnowflakeService;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.stereotype.Component;

/** A user of Leaf's services. */
@Component
public class Orders {
  @Autowired SegmentService segmentService;
  @Autowired SnowflakeService snowflakeService;
}

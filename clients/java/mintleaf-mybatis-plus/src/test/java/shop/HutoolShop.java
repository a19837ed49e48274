package shop;

import cn.hutool.core.lang.Snowflake;
import io.mintleaf.client.MintleafClient;
import io.mintleaf.client.WorkerLease;

public class HutoolShop {
  private final WorkerLease lease;
  private final Snowflake snowflake;

  public HutoolShop(WorkerLease lease) {
    this.lease = lease;
    this.snowflake = new Snowflake(lease.workerId() & 31, lease.workerId() >> 5); // 5 bits each
  }

  public long nextId() {
    long id = snowflake.nextId();
    if (!lease.mayStamp(snowflake.getGenerateDateTime(id))) {
      throw new IllegalStateException("the clock is wrong, or no node has renewed the lease");
    }
    return id;
  }

  /** Takes the addresses of the nodes: http://localhost:8081 http://localhost:8082 http://localhost:8083. */
  public static void main(String[] nodes) {
    try (MintleafClient client = MintleafClient.builder().endpoints(nodes).build();
        WorkerLease lease = client.leaseWorker("shops")) {
      HutoolShop ids = new HutoolShop(lease);
      System.out.println("worker id " + lease.workerId() + ", order " + ids.nextId());
    }
  }
}

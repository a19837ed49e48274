package io.mintleaf.shardingsphere;

import io.mintleaf.client.MintleafClient;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Collectors;
import org.apache.shardingsphere.infra.algorithm.core.context.AlgorithmSQLContext;
import org.apache.shardingsphere.infra.algorithm.keygen.core.KeyGenerateAlgorithm;

/**
 * The key generate algorithm {@code MINTLEAF}, whose keys are ids of a tag.
 *
 * <p>Its properties are {@code endpoints}, all nodes with commas between them; {@code tag}, without which it is named as
 * the logical table is; and {@code token} and {@code zone}, as for {@link io.mintleaf.client.MintleafClientBuilder}.
 */
public final class MintleafKeyGenerateAlgorithm implements KeyGenerateAlgorithm {
  /** Ids that a client gives at once, at most. */
  private static final int COUNT_MAX = 10_000;
  /** The clients of this process, which lives as long as they do: algorithms are not closed. */
  private static final ConcurrentHashMap<List<String>, MintleafClient> CLIENTS = new ConcurrentHashMap<>();

  private MintleafClient client;
  private String tag;

  /** Makes an algorithm that is to be initialised, as ShardingSphere does. */
  public MintleafKeyGenerateAlgorithm() {}

  @Override
  public void init(Properties properties) {
    String endpoints = properties.getProperty("endpoints");
    if (endpoints == null) {
      throw new IllegalArgumentException("the algorithm MINTLEAF has the property endpoints: http://HOST:PORT,…");
    }
    String token = properties.getProperty("token");
    String zone = properties.getProperty("zone");
    client = CLIENTS.computeIfAbsent(Arrays.asList(endpoints, token, zone), any -> MintleafClient.builder()
        .endpoints(Arrays.stream(endpoints.split(",")).map(String::trim).collect(Collectors.toList()))
        .token(token)
        .zone(zone)
        .build());
    tag = properties.getProperty("tag");
  }

  @Override
  public Collection<Long> generateKeys(AlgorithmSQLContext context, int count) {
    String name = tag != null ? tag : context.getTableName();
    List<Long> keys = new ArrayList<>();
    while (keys.size() < count) {
      for (long id : client.nextIds(name, Math.min(COUNT_MAX, count - keys.size()))) {
        keys.add(id);
      }
    }
    return keys;
  }

  @Override
  public String getType() {
    return "MINTLEAF";
  }

  /** Returns the client that keys come from. */
  MintleafClient client() {
    return client;
  }
}

package io.mintleaf.mybatisplus;

import com.baomidou.mybatisplus.core.incrementer.IdentifierGenerator;
import com.baomidou.mybatisplus.core.metadata.TableInfo;
import com.baomidou.mybatisplus.core.metadata.TableInfoHelper;
import io.mintleaf.client.MintleafClient;
import io.mintleaf.client.WorkerLease;
import io.mintleaf.client.WorkerSnowflakes;
import java.util.function.Function;
import java.util.function.ToLongFunction;

/**
 * Gives entities whose id is of the type {@code ASSIGN_ID} an id of a Mintleaf cluster: of a tag, or a snowflake of a
 * worker id that no other process has.
 */
public final class MintleafIdentifierGenerator implements IdentifierGenerator {
  private final ToLongFunction<Object> ids;

  private MintleafIdentifierGenerator(ToLongFunction<Object> ids) {
    this.ids = ids;
  }

  /**
   * Takes the ids of each entity from the tag that is named as its table is.
   *
   * @param client where ids come from; the caller closes it
   * @return a generator for the global configuration
   */
  public static MintleafIdentifierGenerator ofTables(MintleafClient client) {
    return ofTags(client, MintleafIdentifierGenerator::tableOf);
  }

  /**
   * Takes the ids of each entity from a tag.
   *
   * @param client where ids come from; the caller closes it
   * @param tagOf returns the tag of a class of entities
   * @return a generator for the global configuration
   */
  public static MintleafIdentifierGenerator ofTags(MintleafClient client, Function<Class<?>, String> tagOf) {
    return new MintleafIdentifierGenerator(entity -> client.nextId(tagOf.apply(entity.getClass())));
  }

  /**
   * Makes snowflake ids in process, with the layout that MyBatis-Plus has by default.
   *
   * @param lease the worker id of this process; the caller closes it
   * @return a generator for the global configuration
   */
  public static MintleafIdentifierGenerator ofLease(WorkerLease lease) {
    WorkerSnowflakes snowflakes = lease.generator();
    return new MintleafIdentifierGenerator(entity -> snowflakes.nextId());
  }

  @Override
  public Number nextId(Object entity) {
    return ids.applyAsLong(entity);
  }

  private static String tableOf(Class<?> entity) {
    TableInfo table = TableInfoHelper.getTableInfo(entity);
    if (table == null) {
      throw new IllegalArgumentException(entity + " is no entity that MyBatis-Plus knows: name its tag by ofTags");
    }
    return table.getTableName();
  }
}

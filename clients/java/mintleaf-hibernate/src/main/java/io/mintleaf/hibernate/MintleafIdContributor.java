package io.mintleaf.hibernate;

import java.util.Arrays;
import java.util.Properties;
import org.hibernate.boot.spi.InFlightMetadataCollector;
import org.hibernate.boot.spi.MetadataContributor;
import org.hibernate.mapping.PersistentClass;
import org.hibernate.mapping.Property;
import org.hibernate.mapping.SimpleValue;
import org.jboss.jandex.IndexView;

/**
 * Gives the keys with a {@link MintleafId} their generator in Hibernate 5.6, which has no annotations for generators of
 * keys. Later ones find it at the annotation, and this does nothing there.
 */
public final class MintleafIdContributor implements MetadataContributor {
  private static final String FOR_GENERATORS = "org.hibernate.annotations.IdGeneratorType";

  /** Makes the contributor, as Hibernate does that finds it. */
  public MintleafIdContributor() {}

  @Override
  public void contribute(InFlightMetadataCollector entities, IndexView index) {
    // A runtime leaves out the annotations whose types it does not have.
    boolean isFoundByHibernate = Arrays.stream(MintleafId.class.getAnnotations())
        .anyMatch(each -> each.annotationType().getName().equals(FOR_GENERATORS));
    if (!isFoundByHibernate) {
      entities.getEntityBindingMap().values().forEach(MintleafIdContributor::generate);
    }
  }

  private static void generate(PersistentClass entity) {
    Property property = entity.isInherited() ? null : entity.getIdentifierProperty();
    MintleafId id = property == null ? null : Annotated.find(entity.getMappedClass(), property.getName());
    if (id != null) {
      Properties parameters = new Properties();
      parameters.setProperty(MintleafIdGenerator.TAG, id.value());
      SimpleValue key = (SimpleValue) entity.getIdentifier();
      key.setIdentifierGeneratorStrategy(MintleafIdGenerator.class.getName());
      key.setIdentifierGeneratorProperties(parameters);
      key.setNullValue(null); // as for every key that is generated: an entity without one is new
    }
  }
}

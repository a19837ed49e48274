package io.mintleaf.hibernate;

import java.util.Properties;
import org.hibernate.boot.Metadata;
import org.hibernate.boot.spi.BootstrapContext;
import org.hibernate.engine.spi.SessionFactoryImplementor;
import org.hibernate.integrator.spi.Integrator;
import org.hibernate.mapping.PersistentClass;
import org.hibernate.mapping.Property;
import org.hibernate.mapping.SimpleValue;
import org.hibernate.service.spi.SessionFactoryServiceRegistry;

/** Has Hibernate 5.6, which has no annotations for generators of keys, generate those with a {@link MintleafId}. */
public final class MintleafIntegrator implements Integrator {
  /** Makes the integrator, as Hibernate does that finds it. */
  public MintleafIntegrator() {}

  /**
   * Does nothing: Hibernate 6 finds the generator at the annotation.
   *
   * @param metadata not used
   * @param context not used
   * @param factory not used
   */
  @Override
  public void integrate(Metadata metadata, BootstrapContext context, SessionFactoryImplementor factory) {}

  /**
   * Gives keys their generator, in Hibernate 5.6.
   *
   * @param metadata the entities
   * @param factory not used
   * @param registry not used
   */
  // Without @Override, because Hibernate 7 does not have it.
  public void integrate(Metadata metadata, SessionFactoryImplementor factory, SessionFactoryServiceRegistry registry) {
    for (PersistentClass entity : metadata.getEntityBindings()) {
      MintleafId id = entity.isInherited() ? null : idOf(entity);
      if (id != null) {
        Properties parameters = new Properties();
        parameters.setProperty(MintleafIdGenerator.TAG, id.value());
        SimpleValue key = (SimpleValue) entity.getIdentifier();
        key.setIdentifierGeneratorStrategy(MintleafIdGenerator.class.getName());
        key.setIdentifierGeneratorProperties(parameters);
        key.setNullValue(null); // as of every key that is generated: an entity without one is new
      }
    }
  }

  private static MintleafId idOf(PersistentClass entity) {
    Property property = entity.getIdentifierProperty();
    return property == null ? null : Annotated.find(entity.getMappedClass(), property.getName());
  }

  @Override
  public void disintegrate(SessionFactoryImplementor factory, SessionFactoryServiceRegistry registry) {}
}

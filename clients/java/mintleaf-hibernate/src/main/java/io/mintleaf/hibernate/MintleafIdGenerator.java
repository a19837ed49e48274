package io.mintleaf.hibernate;

import io.mintleaf.client.MintleafClient;
import java.io.Serializable;
import java.util.Properties;
import org.hibernate.HibernateException;
import org.hibernate.engine.spi.SessionFactoryImplementor;
import org.hibernate.engine.spi.SharedSessionContractImplementor;
import org.hibernate.id.Configurable;
import org.hibernate.id.IdentifierGenerator;
import org.hibernate.service.ServiceRegistry;
import org.hibernate.type.Type;

/** The generator behind {@link MintleafId}. */
public class MintleafIdGenerator implements IdentifierGenerator, Configurable {
  /** The property of a session factory that holds its {@link MintleafClient}. */
  public static final String CLIENT = "mintleaf.client";

  static final String TAG = "mintleaf.tag";
  private static final long serialVersionUID = 1L;

  /** Names the tag; an annotation or {@link #configure} sets it. */
  String tag;
  private boolean isText;

  /** Makes a generator that is to be configured. */
  public MintleafIdGenerator() {}

  @Override
  public void configure(Type type, Properties parameters, ServiceRegistry services) {
    tag = parameters.getProperty(TAG, tag);
    isText = type.getReturnedClass() == String.class;
  }

  // Serializable is what Hibernate 5.6 wants to have returned; a method that returns Object, as Hibernate 6 wants it, is
  // made by the compiler.
  @Override
  public Serializable generate(SharedSessionContractImplementor session, Object entity) {
    long id = client(session.getFactory()).nextId(tag);
    if (isText) {
      return Long.toString(id);
    }
    return id;
  }

  private static MintleafClient client(SessionFactoryImplementor factory) {
    Object client = factory.getProperties().get(CLIENT);
    if (client instanceof MintleafClient) {
      return (MintleafClient) client;
    }
    throw new HibernateException("the property " + CLIENT + " of the session factory is no MintleafClient: " + client);
  }
}

package io.mintleaf.hibernate;

import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import org.hibernate.annotations.IdGeneratorType;

/**
 * Takes the keys of an entity from a tag of a Mintleaf cluster.
 *
 * <p>It stands beside {@code @Id}, without {@code @GeneratedValue}, on a field or a getter of the type {@code long},
 * {@code Long} or {@code String}. The session factory needs the property {@link MintleafIdGenerator#CLIENT}.
 */
@Target({ElementType.FIELD, ElementType.METHOD})
@Retention(RetentionPolicy.RUNTIME)
@IdGeneratorType(AnnotatedIdGenerator.class) // Hibernate 5.6 does not have it: there MintleafIdContributor does it.
public @interface MintleafId {
  /**
   * Names the tag.
   *
   * @return 1 to 128 characters, none of them a control character
   */
  String value();
}

package io.mintleaf.hibernate;

import java.lang.reflect.Member;
import org.hibernate.generator.AnnotationBasedGenerator;
import org.hibernate.generator.GeneratorCreationContext;

/**
 * The generator for Hibernate 6 and 7, which hand it the annotation of its key. They do so however it is made: a container
 * such as Spring's makes it without arguments. Hibernate 5.6 does not load this class.
 */
public final class AnnotatedIdGenerator extends MintleafIdGenerator implements AnnotationBasedGenerator<MintleafId> {
  private static final long serialVersionUID = 1L;

  /** Makes a generator that is to be initialized. */
  public AnnotatedIdGenerator() {}

  @Override
  public void initialize(MintleafId id, Member member, GeneratorCreationContext context) {
    tag = id.value();
  }
}

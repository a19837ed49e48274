package io.mintleaf.spring;

import java.util.Collections;
import java.util.List;
import org.springframework.boot.context.properties.bind.Bindable;
import org.springframework.boot.context.properties.bind.Binder;
import org.springframework.context.annotation.Condition;
import org.springframework.context.annotation.ConditionContext;
import org.springframework.core.type.AnnotatedTypeMetadata;

/** Holds where {@code mintleaf.endpoints} names a node, in any of the ways in which properties write a list. */
class OnEndpoints implements Condition {
  @Override
  public boolean matches(ConditionContext context, AnnotatedTypeMetadata metadata) {
    List<String> endpoints = Binder.get(context.getEnvironment())
        .bind("mintleaf.endpoints", Bindable.listOf(String.class))
        .orElse(Collections.emptyList());
    return !endpoints.isEmpty();
  }
}

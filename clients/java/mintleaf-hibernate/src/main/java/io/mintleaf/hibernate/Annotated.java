package io.mintleaf.hibernate;

import java.beans.Introspector;
import java.lang.reflect.AnnotatedElement;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.List;

/** Finds the annotation of a key in a class or those above it. */
final class Annotated {
  private Annotated() {}

  /** Returns the annotation at the field or the getter of a property, or null if there is none. */
  static MintleafId find(Class<?> entity, String property) {
    for (Class<?> each = entity; each != null; each = each.getSuperclass()) {
      for (AnnotatedElement member : membersOf(each, property)) {
        MintleafId id = member.getAnnotation(MintleafId.class);
        if (id != null) {
          return id;
        }
      }
    }
    return null;
  }

  private static List<AnnotatedElement> membersOf(Class<?> declaring, String property) {
    List<AnnotatedElement> members = new ArrayList<>();
    for (Field field : declaring.getDeclaredFields()) {
      if (field.getName().equals(property)) {
        members.add(field);
      }
    }
    for (Method method : declaring.getDeclaredMethods()) {
      boolean isGetter = method.getName().startsWith("get") && method.getParameterCount() == 0;
      if (isGetter && Introspector.decapitalize(method.getName().substring(3)).equals(property)) {
        members.add(method);
      }
    }
    return members;
  }
}

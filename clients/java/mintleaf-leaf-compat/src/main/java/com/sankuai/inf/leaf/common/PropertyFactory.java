package com.sankuai.inf.leaf.common;

/** Holds {@code leaf.name}, which Mintleaf does not need. */
public class PropertyFactory {
  /** The name, or null. */
  public static volatile String leafname;

  private PropertyFactory() {}

  /**
   * Sets the name.
   *
   * @param leafName any text
   */
  public static void setLeafName(String leafName) {
    leafname = leafName;
  }
}

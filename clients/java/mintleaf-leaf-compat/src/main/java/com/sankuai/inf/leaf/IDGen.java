package com.sankuai.inf.leaf;

import com.sankuai.inf.leaf.common.Result;

/** A source of ids. */
public interface IDGen {
  /**
   * Returns the next id.
   *
   * @param key the tag; for snowflakes anything
   * @return the id, or Leaf's number for a failure
   */
  Result get(String key);

  /**
   * Prepares the source.
   *
   * @return true
   */
  boolean init();
}

package com.sankuai.inf.leaf.common;

/** Says whether a {@link Result} holds an id. */
public enum Status {
  /** The result's number is an id. */
  SUCCESS,
  /** The result's number is -1, -2 or -3. */
  EXCEPTION
}

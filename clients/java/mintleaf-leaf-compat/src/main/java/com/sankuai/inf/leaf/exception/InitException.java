package com.sankuai.inf.leaf.exception;

/** Says that a service could not be made. */
public class InitException extends Exception {
  private static final long serialVersionUID = 1L;

  /**
   * Makes the exception.
   *
   * @param message what is wrong, and what helps
   */
  public InitException(String message) {
    super(message);
  }
}

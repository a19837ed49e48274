package io.mintleaf.client;

/**
 * Says why a call got no id.
 *
 * <p>{@link #code()} is stable. A node that refuses gives its own code: {@code unknown_tag}, {@code
 * frozen}, {@code rate_limited}, {@code forbidden}, {@code exhausted} and others, with {@link #status()}.
 * The client's own codes have the status 0:
 *
 * <ul>
 *   <li>{@code unavailable}: no node answered until the call's deadline; another call may succeed
 *   <li>{@code overloaded}: too many calls wait for ids of this tag already
 *   <li>{@code closed}: the client, or the worker lease, is closed
 *   <li>{@code interrupted}: the thread was interrupted while it waited; its interrupt status is set
 *   <li>{@code not_a_number}: the tag's ids are texts: {@link MintleafClient#nextText(String)} gives them
 * </ul>
 */
public final class MintleafException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  private final String code;
  private final int status;
  /** The largest count that the node would not have refused so, or 0. */
  final long countMax;

  MintleafException(String code, int status, String message) {
    this(code, status, message, 0);
  }

  MintleafException(String code, int status, String message, long countMax) {
    super(message);
    this.code = code;
    this.status = status;
    this.countMax = countMax;
  }

  static MintleafException closed() {
    return new MintleafException("closed", 0, "the client is closed");
  }

  static MintleafException leaseClosed() {
    return new MintleafException("closed", 0, "the worker lease is closed");
  }

  static MintleafException interrupted() {
    return new MintleafException("interrupted", 0, "interrupted while waiting for ids");
  }

  static MintleafException unavailable(String why) {
    return new MintleafException("unavailable", 0, "no id in time: " + why);
  }

  /**
   * Returns this exception as thrown by the calling thread, so that callers who share one outcome have
   * stack traces of their own.
   */
  MintleafException here() {
    MintleafException mine = new MintleafException(code, status, getMessage());
    mine.initCause(this);
    return mine;
  }

  /**
   * Returns the stable name of the reason.
   *
   * @return a node's {@code code}, or one of the client's own
   */
  public String code() {
    return code;
  }

  /**
   * Returns the HTTP status with which a node refused.
   *
   * @return 400 to 499, or 0 when no node refused
   */
  public int status() {
    return status;
  }
}

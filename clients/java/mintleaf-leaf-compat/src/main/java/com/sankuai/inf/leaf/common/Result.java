package com.sankuai.inf.leaf.common;

/** An id, or one of Leaf's numbers for a failure. */
public class Result {
  private long id;
  private Status status;

  /** Makes a result without a status. */
  public Result() {}

  /**
   * Makes a result.
   *
   * @param id the id, or -1, -2 or -3
   * @param status whether it is an id
   */
  public Result(long id, Status status) {
    this.id = id;
    this.status = status;
  }

  /**
   * Returns the id, or Leaf's number for a failure.
   *
   * @return an id; or -1 (not initialised), -2 (unknown key), -3 (no id in time)
   */
  public long getId() {
    return id;
  }

  /**
   * Sets the number.
   *
   * @param id the id, or -1, -2 or -3
   */
  public void setId(long id) {
    this.id = id;
  }

  /**
   * Returns whether the number is an id.
   *
   * @return the status
   */
  public Status getStatus() {
    return status;
  }

  /**
   * Sets whether the number is an id.
   *
   * @param status the status
   */
  public void setStatus(Status status) {
    this.status = status;
  }

  @Override
  public String toString() {
    return "Result{id=" + id + ", status=" + status + "}";
  }
}

package io.mintleaf.client;

/** What a client has done since it was built. Immutable. */
public final class ClientStats {
  private final long requests;
  private final long failedRequests;
  private final long leases;
  private final long leasedIds;
  private final long waits;

  ClientStats(long requests, long failedRequests, long leases, long leasedIds, long waits) {
    this.requests = requests;
    this.failedRequests = failedRequests;
    this.leases = leases;
    this.leasedIds = leasedIds;
    this.waits = waits;
  }

  /**
   * Returns how many requests for ids were sent.
   *
   * @return a count that only rises
   */
  public long requests() {
    return requests;
  }

  /**
   * Returns how many requests failed, so that another node was asked.
   *
   * @return a count that only rises
   */
  public long failedRequests() {
    return failedRequests;
  }

  /**
   * Returns how many leases came.
   *
   * @return a count that only rises
   */
  public long leases() {
    return leases;
  }

  /**
   * Returns how many ids those leases had.
   *
   * @return a count that only rises
   */
  public long leasedIds() {
    return leasedIds;
  }

  /**
   * Returns how many calls had to wait for an answer, instead of taking what was held.
   *
   * @return a count that only rises
   */
  public long waits() {
    return waits;
  }
}

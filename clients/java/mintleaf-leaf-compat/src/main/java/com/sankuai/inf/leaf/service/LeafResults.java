package com.sankuai.inf.leaf.service;

import com.sankuai.inf.leaf.common.Result;
import com.sankuai.inf.leaf.common.Status;
import io.mintleaf.client.MintleafException;
import java.util.function.LongSupplier;

/** Says in Leaf's numbers how a call went. */
final class LeafResults {
  private static final int NOT_INITIALISED = -1;
  private static final int UNKNOWN_KEY = -2;
  private static final int NOT_IN_TIME = -3;

  private LeafResults() {}

  static Result of(LongSupplier call) {
    try {
      return new Result(call.getAsLong(), Status.SUCCESS);
    } catch (MintleafException e) {
      return new Result(number(e), Status.EXCEPTION);
    } catch (IllegalArgumentException e) {
      return new Result(UNKNOWN_KEY, Status.EXCEPTION); // a key that no tag can have
    }
  }

  private static long number(MintleafException failure) {
    switch (failure.code()) {
      case "closed":
        return NOT_INITIALISED;
      case "unknown_tag":
      case "not_found":
      case "invalid_argument":
        return UNKNOWN_KEY;
      default:
        return NOT_IN_TIME;
    }
  }
}

package io.mintleaf.client;

/** Tells monotonic time, in nanoseconds from any origin. No part of the client reads the time of day. */
interface Ticker {
  long nanos();
}

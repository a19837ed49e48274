package io.mintleaf.client;

import java.io.IOException;

/** Says that an answer is not what a node of Mintleaf gives, so that nothing of it may be used. */
final class MalformedAnswer extends IOException {
  private static final long serialVersionUID = 1L;

  MalformedAnswer(String what) {
    super("malformed answer: " + what);
  }
}

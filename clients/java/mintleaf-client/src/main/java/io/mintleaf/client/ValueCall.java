package io.mintleaf.client;

/** A call that wants one answer, and the value that is read from it. */
final class ValueCall<T> extends Call {
  /** Reads an answer whose status is the one that was wanted. */
  interface Reader<T> {
    T read(Answer answer) throws MalformedAnswer;
  }

  private final Reader<T> reader;
  private T value;

  ValueCall(long deadline, Reader<T> reader) {
    super(deadline);
    this.reader = reader;
  }

  @Override
  synchronized void answered(Answer answer) throws MalformedAnswer {
    if (!isOver()) {
      value = reader.read(answer);
      end();
    }
  }

  /** Returns the value. The call has ended well. */
  synchronized T value() {
    return value;
  }
}

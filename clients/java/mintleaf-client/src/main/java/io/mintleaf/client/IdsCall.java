package io.mintleaf.client;

/** A call that wants ids, and those that it has been given. What it was given and does not return is wasted. */
final class IdsCall extends Call {
  final int wanted;

  private final long[] ids;
  private int given;
  private String[] texts;

  IdsCall(int wanted, long deadline) {
    super(deadline);
    this.wanted = wanted;
    this.ids = new long[wanted];
  }

  synchronized int missing() {
    return wanted - given;
  }

  /** Takes all of {@code range}, which is no more than what is missing; the last missing id ends the call. */
  synchronized void give(IdRange range) {
    if (isOver()) {
      return;
    }
    for (long i = 0; i < range.size; i++) {
      ids[given++] = range.first + i;
    }
    if (given == wanted) {
      end();
    }
  }

  /** Ends the call with the ids of an answer of its own, to the letter. */
  synchronized void give(String[] answered) {
    if (!isOver()) {
      texts = answered;
      end();
    }
  }

  /** Takes the last missing ids from an answer that shows the tag's shape. They are decimal numbers. */
  synchronized void giveLast(String[] answered) {
    for (String id : answered) {
      ids[given++] = IdText.parse(id);
    }
    end();
  }

  /** Drops what was given so far, which is wasted. */
  synchronized void forget() {
    given = 0;
  }

  @Override
  void answered(Answer answer) throws MalformedAnswer {
    give(Ids.oneByOne(answer.json(), wanted).texts);
  }

  /** Returns the ids as numbers. The call has ended well. */
  synchronized long[] numbers() {
    if (texts == null) {
      return ids;
    }
    for (int i = 0; i < wanted; i++) {
      long id = IdText.parse(texts[i]);
      if (id <= 0) {
        throw new MintleafException(
            "not_a_number", 0, "the ids are texts, as \"" + texts[i] + "\" is: take them with nextText");
      }
      ids[i] = id;
    }
    return ids;
  }

  /** Returns whether the ids came to the letter, in the order of the answer. */
  synchronized boolean isText() {
    return texts != null;
  }

  /** Returns the first id to the letter, or in decimal. The call has ended well. */
  synchronized String text() {
    return texts == null ? Long.toString(ids[0]) : texts[0];
  }
}

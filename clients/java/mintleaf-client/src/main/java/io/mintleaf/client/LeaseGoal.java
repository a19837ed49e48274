package io.mintleaf.client;

/** The next lease of a line. */
final class LeaseGoal extends LineGoal {
  private final int count;

  LeaseGoal(Line line, int count) {
    super(line);
    this.count = count;
  }

  @Override
  public void answered(Answer answer) throws MalformedAnswer {
    line.leaseCame(Ids.inRanges(answer.json(), count), count);
  }
}

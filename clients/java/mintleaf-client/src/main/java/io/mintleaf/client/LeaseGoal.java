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

  @Override
  public void refused(MintleafException why) {
    boolean tooMany = why.status() == 422 && why.code().equals("count_over_rate_limit");
    if (tooMany && why.countMax >= 1 && why.countMax < count) {
      line.askedForTooMany((int) why.countMax);
    } else {
      super.refused(why);
    }
  }
}

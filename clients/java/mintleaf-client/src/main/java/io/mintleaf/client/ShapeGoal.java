package io.mintleaf.client;

/** The first answer about a tag. Its ids are for one call, and it tells all calls whether the tag is leased. */
final class ShapeGoal extends LineGoal {
  private final Call call;
  private final int count;

  ShapeGoal(Line line, Call call) {
    super(line);
    this.call = call;
    this.count = call.missing();
  }

  @Override
  public void answered(Answer answer) throws MalformedAnswer {
    line.shapeCame(Ids.oneByOne(answer.json(), count), call);
  }
}

package io.mintleaf.client;

/** The first answer about a tag. Its ids are for one call, and it tells all calls whether the tag is leased. */
final class ShapeGoal extends LineGoal {
  private final IdsCall call;
  private final int count;

  ShapeGoal(Line line, IdsCall call) {
    super(line);
    this.call = call;
    this.count = call.missing();
  }

  @Override
  public void answered(Answer answer) throws MalformedAnswer {
    line.shapeCame(Ids.oneByOne(answer.json(), count), call);
  }
}

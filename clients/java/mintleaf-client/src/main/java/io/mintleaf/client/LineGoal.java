package io.mintleaf.client;

/** A flight whose outcome concerns all calls that wait on a line. */
abstract class LineGoal implements Flight.Goal {
  final Line line;

  LineGoal(Line line) {
    this.line = line;
  }

  @Override
  public boolean isOver() {
    return line.isClosed();
  }

  @Override
  public void refused(MintleafException why) {
    line.refused(why);
  }

  @Override
  public void attemptFailed(MintleafException why) {
    line.attemptFailed(why);
  }

  @Override
  public void gaveUp() {
    line.gaveUp();
  }
}

package io.mintleaf.client;

/** What one call asks for itself: nothing of the answer is kept. */
final class AloneGoal implements Flight.Goal {
  private final Line line;
  private final Call call;

  AloneGoal(Line line, Call call) {
    this.line = line;
    this.call = call;
  }

  @Override
  public boolean isOver() {
    return call.isOver();
  }

  @Override
  public void answered(Answer answer) throws MalformedAnswer {
    call.answered(answer);
    line.aloneEnded(call, null);
  }

  @Override
  public void refused(MintleafException why) {
    call.fail(why);
    line.aloneEnded(call, why);
  }

  @Override
  public void attemptFailed(MintleafException why) {
    call.attemptFailed(why);
  }

  @Override
  public void gaveUp() {
    call.endIfLate(call.deadline);
    line.aloneEnded(call, null);
  }
}

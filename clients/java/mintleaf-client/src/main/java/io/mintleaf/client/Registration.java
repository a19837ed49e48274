package io.mintleaf.client;

import java.util.Map;

/** The number that a register has given to a key, once and for all. Immutable. */
public final class Registration {
  private final long id;
  private final String text;
  private final String period;
  private final boolean isNew;

  private Registration(long id, String text, String period, boolean isNew) {
    this.id = id;
    this.text = text;
    this.period = period;
    this.isNew = isNew;
  }

  static Registration read(Answer answer) throws MalformedAnswer {
    Map<String, Object> members = answer.json();
    String decimal = Answer.text(members, "id");
    long id = IdText.parse(decimal);
    if (id < 0 || !(members.get("new") instanceof Boolean)) {
      throw new MalformedAnswer("no number of a key");
    }
    String text = members.get("text") == null ? decimal : Answer.text(members, "text");
    String period = members.get("period") == null ? null : Answer.text(members, "period");
    return new Registration(id, text, period, (Boolean) members.get("new"));
  }

  /**
   * Returns the number.
   *
   * @return 1 or more; within its period, for a register that has periods
   */
  public long id() {
    return id;
  }

  /**
   * Returns the number as the register's {@code format} writes it.
   *
   * @return the text, or the decimal number of a register without a format
   */
  public String text() {
    return text;
  }

  /**
   * Returns the period that the number belongs to.
   *
   * @return the period, or null for a register without periods
   */
  public String period() {
    return period;
  }

  /**
   * Returns whether the key had no number before.
   *
   * @return false if it had; after an answer that was lost, also if this very call gave it one
   */
  public boolean isNew() {
    return isNew;
  }
}

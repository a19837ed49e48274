package io.mintleaf.client;

import io.mintleaf.client.ScriptedNode.Reply;
import java.util.concurrent.atomic.AtomicLong;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Answers as a cluster does that has one line of ids, which begins at 1. Nodes may share one. */
public final class CountingScript implements ScriptedNode.Script {
  private static final Pattern COUNT = Pattern.compile("count=([0-9]+)");

  private final AtomicLong next = new AtomicLong(1);
  private final String more;

  public CountingScript() {
    this("");
  }

  private CountingScript(String more) {
    this.more = more;
  }

  /** Makes a script whose answers say {@code "lease": false}. */
  public static CountingScript withoutLease() {
    return new CountingScript(",\"lease\":false");
  }

  /** Returns the first id that no answer has held yet. */
  public long next() {
    return next.get();
  }

  public static int count(String path) {
    Matcher matcher = COUNT.matcher(path);
    return matcher.find() ? Integer.parseInt(matcher.group(1)) : 1;
  }

  @Override
  public Reply reply(String path) {
    int count = count(path);
    long first = next.getAndAdd(count);
    if (path.contains("format=ranges")) {
      return Reply.ok("{\"tag\":\"any\",\"ranges\":[{\"start\":\"" + first + "\",\"end\":\"" + (first + count)
          + "\"}]" + more + "}");
    }
    StringBuilder ids = new StringBuilder();
    for (long id = first; id < first + count; id++) {
      ids.append(ids.length() == 0 ? "\"" : ",\"").append(id).append('"');
    }
    return Reply.ok("{\"tag\":\"any\",\"ids\":[" + ids + "]" + more + "}");
  }
}

package io.mintleaf.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;

import org.junit.jupiter.api.Test;

class LinesTest {
  private static final int LINES_MAX = 10_000;

  private final Lines lines = new Lines();

  @Test
  void tagsOfOneHashAreToldApart() throws Exception {
    assertEquals("Aa".hashCode(), "BB".hashCode());
    try (MintleafClient client = MintleafClient.builder().endpoints("http://127.0.0.1:1").build()) {
      Line first = make(client, "Aa");
      assertNull(lines.near("BB"));
      assertNull(lines.get("BB"));
      Line second = make(client, "BB");

      assertEquals("Aa", first.tag);
      assertEquals("BB", second.tag);
      assertSame(first, lines.near("Aa"));
      assertNull(lines.near("BB"), "the cell is the first tag's for good");
      assertSame(second, lines.get("BB"));
    }
  }

  @Test
  void tagIsFoundByItsNameWhicheverStringHoldsIt() throws Exception {
    try (MintleafClient client = MintleafClient.builder().endpoints("http://127.0.0.1:1").build()) {
      Line line = make(client, "orders");

      assertSame(line, lines.near(new String("orders".toCharArray())));
      assertSame(line, make(client, "orders"));
    }
  }

  @Test
  void linesAreBounded() throws Exception {
    try (MintleafClient client = MintleafClient.builder().endpoints("http://127.0.0.1:1").build()) {
      for (int i = 0; i < LINES_MAX; i++) {
        make(client, "tag-" + i);
      }

      assertNull(make(client, "one more"));
      assertNull(lines.get("one more"));
      for (int i = 0; i < LINES_MAX; i++) {
        assertEquals("tag-" + i, lines.get("tag-" + i).tag);
        assertSame(lines.get("tag-" + i), make(client, "tag-" + i));
      }
    }
  }

  private Line make(MintleafClient client, String tag) {
    return lines.getOrMake(tag, name -> Line.ofTag(client.control(), name, 1_000));
  }
}

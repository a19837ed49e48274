package io.mintleaf.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.Arrays;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** Holds docs/clients.md and the tests together. */
class CasesAreTestedTest {
  private static final Pattern CASE = Pattern.compile("^\\| `([a-z_]+)` \\|", Pattern.MULTILINE);

  @Test
  void everyCaseOfTheSpecificationHasATest() throws Exception {
    byte[] page = Files.readAllBytes(new File("../../../docs/clients.md").toPath());
    String text = new String(page, StandardCharsets.UTF_8);
    Matcher cases = CASE.matcher(text.substring(text.indexOf("## Cases")));
    Set<String> specified = new TreeSet<>();
    while (cases.find()) {
      specified.add(cases.group(1).replace("_", ""));
    }
    Set<String> tested = Stream.of(LeasingCasesTest.class, RealNodesTest.class)
        .flatMap(each -> Arrays.stream(each.getDeclaredMethods()))
        .filter(method -> method.isAnnotationPresent(Test.class))
        .map(method -> method.getName().toLowerCase())
        .collect(Collectors.toSet());

    assertTrue(specified.size() > 25, "the table of cases is there");
    specified.removeAll(tested);
    assertEquals(new TreeSet<String>(), specified, "cases without a test");
  }
}

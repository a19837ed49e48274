package io.mintleaf.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** Holds the cases of clients/conformance and the tests together. */
class CasesAreTestedTest {
  private static final Pattern CASE = Pattern.compile("^\\| `([a-z_]+)` (\\*\\*d\\*\\* )?\\|", Pattern.MULTILINE);

  @Test
  void everyCaseOfTheSpecificationHasATest() throws Exception {
    String page = read("../../conformance/README.md");
    Matcher cases = CASE.matcher(page.substring(page.indexOf("## Cases")));
    Set<String> played = new TreeSet<>();
    Set<String> specified = new TreeSet<>();
    while (cases.find()) {
      (cases.group(2) != null ? played : specified).add(cases.group(1));
    }
    Set<String> tested = Stream.of(LeasingCasesTest.class, RealNodesTest.class, WorkerLeaseTest.class)
        .flatMap(each -> Arrays.stream(each.getDeclaredMethods()))
        .filter(method -> method.isAnnotationPresent(Test.class))
        .map(method -> method.getName().toLowerCase())
        .collect(Collectors.toSet());
    Set<String> data = new TreeSet<>();
    for (Object each : (List<?>) Answer.object(Json.parse(read("../../conformance/cases.json"))).get("cases")) {
      data.add((String) Answer.object(each).get("of"));
    }

    assertTrue(played.size() + specified.size() > 40, "the table of cases is there");
    specified.removeIf(name -> tested.contains(name.replace("_", "")));
    played.removeAll(data);
    assertEquals(new TreeSet<String>(), specified, "cases without a test");
    assertEquals(new TreeSet<String>(), played, "cases that are no data");
  }

  private static String read(String file) throws Exception {
    return new String(Files.readAllBytes(new File(file).toPath()), StandardCharsets.UTF_8);
  }
}

package io.mintleaf.client;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;

/** A program of docs/adapters.md. */
public final class Example {
  private Example() {}

  /** Checks that the page leads to a file of a module, and shows a part of it, however it is indented. */
  public static void isShown(String file) throws Exception {
    String page = read("../../../docs/adapters.md");
    String name = file.substring(file.lastIndexOf('/') + 1);
    assertTrue(page.contains("/" + name + ")"), "docs/adapters.md does not lead to " + name);
    String program = unindented(read(file));
    String[] parts = page.split("```");
    boolean shown = false;
    for (int at = 1; at < parts.length; at += 2) {
      String block = parts[at].substring(parts[at].indexOf('\n') + 1);
      shown |= program.contains(unindented(block));
    }
    assertTrue(shown, "docs/adapters.md shows no part of " + name);
  }

  private static String unindented(String text) {
    return text.replaceAll("(?m)^ +", "");
  }

  /** A main method. */
  public interface Main {
    void run(String... arguments) throws Exception;
  }

  /** Checks that the page shows a program, and that it makes an order with the first id of a node of its own. */
  public static void makesTheFirstOrder(String file, Main program) throws Exception {
    isShown(file);
    try (RealNodes nodes = RealNodes.of(1)) {
      String order = print(program, nodes.urls().toArray(new String[0]));
      assertTrue(order.endsWith("order 1\n"), order);
    }
  }

  /** Returns what a program prints. */
  public static synchronized String print(Main program, String... arguments) throws Exception {
    PrintStream before = System.out;
    ByteArrayOutputStream printed = new ByteArrayOutputStream();
    System.setOut(new PrintStream(printed, true, "UTF-8"));
    try {
      program.run(arguments);
    } finally {
      System.setOut(before);
    }
    return printed.toString("UTF-8");
  }

  public static String read(String file) throws Exception {
    return new String(Files.readAllBytes(new File(file).toPath()), StandardCharsets.UTF_8);
  }
}

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

  /** Checks that the page shows a file of a module to the letter. */
  public static void isShown(String file) throws Exception {
    String page = read("../../../docs/adapters.md");
    assertTrue(page.contains("\n" + read(file) + "```\n"), "docs/adapters.md does not show " + file + " as it is");
  }

  /** A main method. */
  public interface Main {
    void run(String... arguments) throws Exception;
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

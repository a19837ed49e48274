package io.mintleaf.client;

import java.io.BufferedInputStream;
import java.io.ByteArrayOutputStream;
import java.io.Closeable;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.Locale;

/** A connection over HTTP/1.1, with one request at a time. */
final class HttpConnection implements Closeable {
  private static final int HEAD_MAX = 16 * 1024;
  private static final int BODY_MAX = 1024 * 1024;

  private final Socket socket;
  /** The socket below TLS. Closing it waits for nobody, unlike the farewell of TLS. */
  private final Socket lowest;
  private final InputStream in;
  private boolean headRead;
  private boolean reusable;

  /** When the connection was last used, on the ticker. */
  long restsSince;

  HttpConnection(Socket socket, Socket lowest) throws IOException {
    this.socket = socket;
    this.lowest = lowest;
    this.in = new BufferedInputStream(socket.getInputStream(), 16 * 1024);
  }

  /** Returns whether the head of the answer to the last request has come. */
  boolean hasReadHead() {
    return headRead;
  }

  /** Returns whether another request may follow. */
  boolean isReusable() {
    return reusable;
  }

  /**
   * Sends a request and reads its answer to the end.
   *
   * @throws IOException if the answer is not whole
   */
  Answer exchange(byte[] request) throws IOException {
    headRead = false;
    reusable = false;
    socket.getOutputStream().write(request);
    socket.getOutputStream().flush();
    return answer();
  }

  private Answer answer() throws IOException {
    int[] budget = {HEAD_MAX};
    String[] status = line(budget).split(" ", 3);
    if (status.length < 2 || !status[0].startsWith("HTTP/1.") || !status[1].matches("[2-5][0-9][0-9]")) {
      throw new MalformedAnswer("no HTTP/1.1");
    }
    int code = Integer.parseInt(status[1]);
    long length = -1;
    long retryAfter = -1;
    boolean chunked = false;
    boolean close = !status[0].equals("HTTP/1.1");
    for (String field = line(budget); !field.isEmpty(); field = line(budget)) {
      int colon = field.indexOf(':');
      String name = field.substring(0, Math.max(0, colon)).toLowerCase(Locale.ROOT);
      String value = field.substring(colon + 1).trim();
      switch (name) {
        case "content-length":
          length = number(value, length);
          break;
        case "transfer-encoding":
          chunked = true;
          break;
        case "connection":
          close |= value.toLowerCase(Locale.ROOT).contains("close");
          break;
        case "retry-after":
          retryAfter = value.matches("[0-9]{1,9}") ? Long.parseLong(value) : -1;
          break;
        default:
      }
    }
    headRead = true;
    byte[] body = chunked ? chunks(budget) : code == 204 || code == 304 ? new byte[0] : body(code, length);
    reusable = !close && (chunked || length >= 0);
    return new Answer(code, retryAfter, body);
  }

  private byte[] body(int status, long length) throws IOException {
    if (length < 0 && status == 200) {
      throw new MalformedAnswer("no length");
    }
    ByteArrayOutputStream body = new ByteArrayOutputStream();
    copy(body, length < 0 ? BODY_MAX : length, length >= 0);
    return body.toByteArray();
  }

  private byte[] chunks(int[] budget) throws IOException {
    ByteArrayOutputStream body = new ByteArrayOutputStream();
    while (true) {
      String size = line(budget).split(";", 2)[0].trim();
      if (!size.matches("[0-9a-fA-F]{1,6}")) {
        throw new MalformedAnswer("no size of a chunk");
      }
      int bytes = Integer.parseInt(size, 16);
      copy(body, bytes, true);
      if (bytes == 0) {
        while (!line(budget).isEmpty()) {
          // A trailer says nothing that the client reads.
        }
        return body.toByteArray();
      }
      if (!line(budget).isEmpty()) {
        throw new MalformedAnswer("a chunk longer than its size");
      }
    }
  }

  private void copy(ByteArrayOutputStream body, long bytes, boolean exactly) throws IOException {
    if (bytes + body.size() > BODY_MAX) {
      throw new MalformedAnswer("more than " + BODY_MAX + " bytes");
    }
    byte[] buffer = new byte[8192];
    long left = bytes;
    while (left > 0) {
      int read = in.read(buffer, 0, (int) Math.min(left, buffer.length));
      if (read < 0) {
        if (exactly) {
          throw new EOFException("the connection ended within the answer");
        }
        return;
      }
      body.write(buffer, 0, read);
      left -= read;
    }
  }

  private String line(int[] budget) throws IOException {
    StringBuilder line = new StringBuilder();
    while (true) {
      int c = in.read();
      if (c < 0) {
        throw new EOFException("the connection ended without an answer");
      }
      if (--budget[0] < 0) {
        throw new MalformedAnswer("a head of more than " + HEAD_MAX + " bytes");
      }
      if (c == '\n') {
        int end = line.length();
        return end > 0 && line.charAt(end - 1) == '\r' ? line.substring(0, end - 1) : line.toString();
      }
      line.append((char) c);
    }
  }

  private static long number(String value, long before) throws MalformedAnswer {
    if (!value.matches("[0-9]{1,9}") || before >= 0) {
      throw new MalformedAnswer("no length, or two");
    }
    return Long.parseLong(value);
  }

  /** Returns the bytes of a request. */
  static byte[] bytes(Endpoint endpoint, Request request, String fields) {
    StringBuilder text = new StringBuilder(request.method + " " + request.path + " HTTP/1.1\r\nHost: ");
    text.append(endpoint.authority()).append("\r\n").append(fields);
    if (request.json != null) {
      text.append("Content-Type: application/json\r\n");
    }
    String body = request.json == null ? "" : request.json;
    if (!request.method.equals("GET")) {
      text.append("Content-Length: ").append(body.getBytes(StandardCharsets.UTF_8).length).append("\r\n");
    }
    return text.append("\r\n").append(body).toString().getBytes(StandardCharsets.UTF_8);
  }

  @Override
  public void close() {
    try {
      lowest.close();
    } catch (IOException e) {
      // It is closed either way.
    }
  }
}

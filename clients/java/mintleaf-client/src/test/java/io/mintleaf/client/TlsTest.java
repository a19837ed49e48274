package io.mintleaf.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.KeyStore;
import java.security.MessageDigest;
import java.time.Duration;
import java.util.Base64;
import java.util.Collections;
import java.util.List;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** A real node that speaks TLS and asks for tokens. */
@Timeout(120)
class TlsTest {
  private static final char[] PASSWORD = "changeit".toCharArray();
  private static final String TOKEN = "s3cret-of-the-shop";

  @TempDir Path directory;

  @Test
  void idsComeOverTlsToThoseWhoTrustAndAreKnown() throws Exception {
    makeKeys();
    Path store = trustStore();
    try (RealNodes nodes = RealNodes.of(1, "--tls-cert", pem(false).toString(),
        "--tls-key", pem(true).toString(), "--auth-file", authFile().toString())) {
      List<String> urls =
          nodes.urls().stream().map(url -> url.replace("http:", "https:")).collect(Collectors.toList());
      MintleafClientBuilder builder = MintleafClient.builder().endpoints(urls).callTimeout(Duration.ofSeconds(30));

      try (MintleafClient client = builder.trustStore(directory.resolve("cert.pem")).token(TOKEN).build()) {
        assertEquals(1, client.nextId("orders"));
        assertEquals(2, client.nextId("orders"));
        // A node is ready once it holds a worker id too, which may be later than its first id of a tag.
        assertTrue(client.nextSnowflake() > 0);
        assertEquals(Collections.singletonMap(urls.get(0), MintleafClient.READY), client.readiness());
        assertEquals("forbidden", assertThrows(MintleafException.class, () -> client.nextId("salaries")).code());
      }
      try (MintleafClient client = builder.trustStore(store, PASSWORD).token("guessed").build()) {
        MintleafException failure = assertThrows(MintleafException.class, () -> client.nextId("orders"));
        assertEquals("unauthenticated", failure.code());
        assertEquals(401, failure.status());
      }
      try (MintleafClient client = builder.token(TOKEN).callTimeout(Duration.ofSeconds(1)).build()) {
        MintleafException failure = assertThrows(MintleafException.class, () -> client.nextId("orders"));
        assertEquals("unavailable", failure.code());
      }
      List<String> named = Collections.singletonList(urls.get(0).replace("127.0.0.1", "localhost"));
      try (MintleafClient client = builder.trustStore(store, PASSWORD).token(TOKEN).endpoints(named)
          .callTimeout(Duration.ofSeconds(1)).build()) {
        assertEquals("unavailable", assertThrows(MintleafException.class, () -> client.nextId("orders")).code(),
            "the certificate is for another name");
      }
    }
  }

  private void makeKeys() throws Exception {
    Process keytool = new ProcessBuilder(
        System.getProperty("java.home") + "/bin/keytool", "-genkeypair", "-alias", "node", "-keyalg", "RSA", "-keysize", "2048",
        "-dname", "CN=node", "-ext", "san=ip:127.0.0.1", "-validity", "2", "-storetype", "PKCS12",
        "-keystore", directory.resolve("keys.p12").toString(), "-storepass", new String(PASSWORD))
        .redirectErrorStream(true).redirectOutput(new File(directory.toFile(), "keytool.log")).start();
    assertEquals(0, keytool.waitFor());
  }

  private Path trustStore() throws Exception {
    KeyStore trusted = KeyStore.getInstance("PKCS12");
    trusted.load(null, null);
    trusted.setCertificateEntry("node", load(directory.resolve("keys.p12")).getCertificate("node"));
    Path file = directory.resolve("trust.p12");
    try (OutputStream out = Files.newOutputStream(file)) {
      trusted.store(out, PASSWORD);
    }
    return file;
  }

  private Path pem(boolean key) throws Exception {
    KeyStore keys = load(directory.resolve("keys.p12"));
    byte[] der = key ? keys.getKey("node", PASSWORD).getEncoded() : keys.getCertificate("node").getEncoded();
    String label = key ? "PRIVATE KEY" : "CERTIFICATE";
    String text = "-----BEGIN " + label + "-----\n"
        + Base64.getMimeEncoder(64, new byte[] {'\n'}).encodeToString(der) + "\n-----END " + label + "-----\n";
    return secret(directory.resolve(key ? "key.pem" : "cert.pem"), text);
  }

  private Path authFile() throws Exception {
    StringBuilder hash = new StringBuilder();
    for (byte b : MessageDigest.getInstance("SHA-256").digest(TOKEN.getBytes(StandardCharsets.US_ASCII))) {
      hash.append(String.format("%02x", b));
    }
    return secret(directory.resolve("tokens.toml"),
        "[[token]]\nname = \"shop\"\nhash = \"sha256:" + hash + "\"\nrole = \"issue\"\ntags = [\"ord*\"]\n");
  }

  private static Path secret(Path file, String text) throws Exception {
    Files.write(file, text.getBytes(StandardCharsets.US_ASCII));
    Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("rw-------"));
    return file;
  }

  private static KeyStore load(Path file) throws Exception {
    KeyStore store = KeyStore.getInstance("PKCS12");
    try (InputStream in = Files.newInputStream(file)) {
      store.load(in, PASSWORD);
    }
    return store;
  }
}

package io.mintleaf.client;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.NoSuchAlgorithmException;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Random;
import java.util.stream.Collectors;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/** Settings of a client. Immutable: each method returns another builder. */
public final class MintleafClientBuilder {
  static final MintleafClientBuilder DEFAULTS = new MintleafClientBuilder();
  private static final int LEASE_MAX = 1_000_000;

  private List<String> endpoints = new ArrayList<>();
  private String token;
  private String zone;
  private SSLContext tls;
  private int leaseMax = LEASE_MAX;
  private Duration callTimeout = Duration.ofSeconds(10);
  private Duration attemptTimeout = Duration.ofMillis(2500);
  private Duration connectTimeout = Duration.ofSeconds(1);

  private Random random = new Random();

  private MintleafClientBuilder() {}

  private MintleafClientBuilder copy() {
    MintleafClientBuilder copy = new MintleafClientBuilder();
    copy.endpoints = endpoints;
    copy.token = token;
    copy.zone = zone;
    copy.tls = tls;
    copy.leaseMax = leaseMax;
    copy.callTimeout = callTimeout;
    copy.attemptTimeout = attemptTimeout;
    copy.connectTimeout = connectTimeout;
    copy.random = random;
    return copy;
  }

  /** Sets where the order of the endpoints and the lengths of rests come from. */
  MintleafClientBuilder random(Random random) {
    MintleafClientBuilder copy = copy();
    copy.random = random;
    return copy;
  }

  /**
   * Sets the nodes to ask. Give all of them: the client goes to the next when one fails.
   *
   * @param endpoints one or more of {@code http://HOST:PORT} or {@code https://HOST:PORT}
   * @return a builder with these endpoints
   */
  public MintleafClientBuilder endpoints(String... endpoints) {
    return endpoints(Arrays.asList(endpoints));
  }

  /**
   * Sets the nodes to ask. Give all of them: the client goes to the next when one fails.
   *
   * @param endpoints one or more of {@code http://HOST:PORT} or {@code https://HOST:PORT}
   * @return a builder with these endpoints
   */
  public MintleafClientBuilder endpoints(Collection<String> endpoints) {
    MintleafClientBuilder copy = copy();
    copy.endpoints = new ArrayList<>(endpoints);
    return copy;
  }

  /**
   * Sets the token that the client proves itself by, as {@code mintleaf token new} prints it.
   *
   * @param token visible ASCII characters; null for none
   * @return a builder with this token
   */
  public MintleafClientBuilder token(String token) {
    if (token != null && !token.chars().allMatch(c -> c > ' ' && c < 0x7f)) {
      throw new IllegalArgumentException("a token has visible ASCII characters only");
    }
    MintleafClientBuilder copy = copy();
    copy.token = token;
    return copy;
  }

  /**
   * Sets the zone whose nodes are asked first, as their {@code --zone} names it.
   *
   * @param zone the name; null for none
   * @return a builder with this zone
   */
  public MintleafClientBuilder zone(String zone) {
    MintleafClientBuilder copy = copy();
    copy.zone = zone;
    return copy;
  }

  /**
   * Trusts the certificates of a key store, and no others.
   *
   * @param trusted a store with the certificates of authorities
   * @return a builder with this trust
   */
  public MintleafClientBuilder trustStore(KeyStore trusted) {
    try {
      TrustManagerFactory factory = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
      factory.init(trusted);
      SSLContext context = SSLContext.getInstance("TLS");
      context.init(null, factory.getTrustManagers(), null);
      return tls(context);
    } catch (GeneralSecurityException e) {
      throw new IllegalArgumentException("the trust store cannot be used: " + e.getMessage(), e);
    }
  }

  /**
   * Trusts the certificates of a PKCS #12 or JKS file, and no others.
   *
   * @param file the store
   * @param password its password
   * @return a builder with this trust
   */
  public MintleafClientBuilder trustStore(Path file, char[] password) {
    GeneralSecurityException last = null;
    for (String type : new String[] {"PKCS12", "JKS"}) {
      try (InputStream in = Files.newInputStream(file)) {
        KeyStore store = KeyStore.getInstance(type);
        store.load(in, password);
        return trustStore(store);
      } catch (GeneralSecurityException e) {
        last = e;
      } catch (IOException e) {
        last = new GeneralSecurityException(e.getMessage(), e);
      }
    }
    throw new IllegalArgumentException("the trust store " + file + " cannot be read: " + last.getMessage(), last);
  }

  /**
   * Trusts the certificates of a PEM file, and no others.
   *
   * @param pem one or more certificates of authorities
   * @return a builder with this trust
   */
  public MintleafClientBuilder trustStore(Path pem) {
    try (InputStream in = Files.newInputStream(pem)) {
      KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
      store.load(null, null);
      int count = 0;
      for (Certificate certificate : CertificateFactory.getInstance("X.509").generateCertificates(in)) {
        store.setCertificateEntry("trusted-" + count++, certificate);
      }
      if (count == 0) {
        throw new IllegalArgumentException(pem + " holds no certificate in PEM");
      }
      return trustStore(store);
    } catch (GeneralSecurityException | IOException e) {
      throw new IllegalArgumentException("the certificates in " + pem + " cannot be read: " + e.getMessage(), e);
    }
  }

  /**
   * Sets all of TLS, for instance a certificate of the client's own.
   *
   * @param context where connections come from; the name in a node's certificate is checked in any case
   * @return a builder with this context
   */
  public MintleafClientBuilder tls(SSLContext context) {
    MintleafClientBuilder copy = copy();
    copy.tls = context;
    return copy;
  }

  /**
   * Sets how many ids a lease has at most. Twice as many may be wasted for each tag when a process ends.
   *
   * @param ids 1 to 1,000,000, which is the default
   * @return a builder with this bound
   */
  public MintleafClientBuilder leaseMax(int ids) {
    if (ids < 1 || ids > LEASE_MAX) {
      throw new IllegalArgumentException("a lease has 1 to " + LEASE_MAX + " ids");
    }
    MintleafClientBuilder copy = copy();
    copy.leaseMax = ids;
    return copy;
  }

  /**
   * Sets how long a call waits for its ids at most. 10 s by default.
   *
   * @param timeout a positive time, an hour at most
   * @return a builder with this timeout
   */
  public MintleafClientBuilder callTimeout(Duration timeout) {
    MintleafClientBuilder copy = copy();
    copy.callTimeout = bounded(timeout);
    return copy;
  }

  /**
   * Sets how long one node is given to answer before another is asked. 2.5 s by default: a node itself
   * waits for up to 2 s.
   *
   * @param timeout a positive time, an hour at most
   * @return a builder with this timeout
   */
  public MintleafClientBuilder attemptTimeout(Duration timeout) {
    MintleafClientBuilder copy = copy();
    copy.attemptTimeout = bounded(timeout);
    return copy;
  }

  /**
   * Sets how long connecting takes at most, TLS included. 1 s by default.
   *
   * @param timeout a positive time, an hour at most
   * @return a builder with this timeout
   */
  public MintleafClientBuilder connectTimeout(Duration timeout) {
    MintleafClientBuilder copy = copy();
    copy.connectTimeout = bounded(timeout);
    return copy;
  }

  /**
   * Makes a client. It sends nothing before the first id is wanted, unless a zone is set.
   *
   * @return a client, to be closed by the caller
   * @throws IllegalArgumentException if there is no endpoint, or one that is malformed
   */
  public MintleafClient build() {
    return build(System::nanoTime);
  }

  MintleafClient build(Ticker ticker) {
    List<Endpoint> parsed = endpoints.stream().map(Endpoint::parse).collect(Collectors.toList());
    if (parsed.isEmpty()) {
      throw new IllegalArgumentException("a client has one or more endpoints");
    }
    SSLContext context = tls != null ? tls : defaultTls();
    RequestThreads threads = new RequestThreads();
    Transport transport = new HttpTransport(
        ticker, threads.timer(), context.getSocketFactory(), token, connectTimeout.toNanos());
    FlightControl control = new FlightControl(ticker, new Endpoints(parsed, zone, random), transport, threads,
        new Counters(), attemptTimeout.toNanos(), callTimeout.toNanos());
    return new MintleafClient(control, leaseMax, random);
  }

  private static SSLContext defaultTls() {
    try {
      return SSLContext.getDefault();
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException("this Java runtime has no TLS", e);
    }
  }

  private static Duration bounded(Duration timeout) {
    if (timeout.isNegative() || timeout.isZero() || timeout.compareTo(Duration.ofHours(1)) > 0) {
      throw new IllegalArgumentException("a timeout is positive, and an hour at most");
    }
    return timeout;
  }
}

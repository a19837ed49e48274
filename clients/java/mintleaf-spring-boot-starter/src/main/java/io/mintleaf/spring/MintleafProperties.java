package io.mintleaf.spring;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.springframework.boot.context.properties.ConfigurationProperties;

/** The properties {@code mintleaf.*}. */
@ConfigurationProperties(prefix = "mintleaf")
public class MintleafProperties {
  /** Base addresses of all nodes, http://HOST:PORT or https://HOST:PORT. Without any there is no client. */
  private List<String> endpoints = new ArrayList<>();

  /** Token that the client proves itself by. */
  private String token;

  /** Zone whose nodes are asked first. */
  private String zone;

  /** File of trusted certificates for https: PEM, or PKCS #12 or JKS with a password. */
  private String trustStore;

  /** Password of the trust store; none for PEM. */
  private String trustStorePassword;

  /** How many ids a lease has at most, 1 to 1,000,000. */
  private Integer leaseMax;

  /** How long a call waits for its ids at most. */
  private Duration callTimeout;

  /** How long one node is given to answer before another is asked. */
  private Duration attemptTimeout;

  /** How long connecting takes at most, TLS included. */
  private Duration connectTimeout;

  /**
   * Returns: base addresses of all nodes, http://HOST:PORT or https://HOST:PORT. Without any there is no client.
   *
   * @return the value, or null where there is none
   */
  public List<String> getEndpoints() {
    return endpoints;
  }

  /**
   * Sets: base addresses of all nodes, http://HOST:PORT or https://HOST:PORT. Without any there is no client.
   *
   * @param endpoints the value
   */
  public void setEndpoints(List<String> endpoints) {
    this.endpoints = endpoints;
  }

  /**
   * Returns: token that the client proves itself by.
   *
   * @return the value, or null where there is none
   */
  public String getToken() {
    return token;
  }

  /**
   * Sets: token that the client proves itself by.
   *
   * @param token the value
   */
  public void setToken(String token) {
    this.token = token;
  }

  /**
   * Returns: zone whose nodes are asked first.
   *
   * @return the value, or null where there is none
   */
  public String getZone() {
    return zone;
  }

  /**
   * Sets: zone whose nodes are asked first.
   *
   * @param zone the value
   */
  public void setZone(String zone) {
    this.zone = zone;
  }

  /**
   * Returns: file of trusted certificates for https: PEM, or PKCS #12 or JKS with a password.
   *
   * @return the value, or null where there is none
   */
  public String getTrustStore() {
    return trustStore;
  }

  /**
   * Sets: file of trusted certificates for https: PEM, or PKCS #12 or JKS with a password.
   *
   * @param trustStore the value
   */
  public void setTrustStore(String trustStore) {
    this.trustStore = trustStore;
  }

  /**
   * Returns: password of the trust store; none for PEM.
   *
   * @return the value, or null where there is none
   */
  public String getTrustStorePassword() {
    return trustStorePassword;
  }

  /**
   * Sets: password of the trust store; none for PEM.
   *
   * @param trustStorePassword the value
   */
  public void setTrustStorePassword(String trustStorePassword) {
    this.trustStorePassword = trustStorePassword;
  }

  /**
   * Returns: how many ids a lease has at most, 1 to 1,000,000.
   *
   * @return the value, or null where there is none
   */
  public Integer getLeaseMax() {
    return leaseMax;
  }

  /**
   * Sets: how many ids a lease has at most, 1 to 1,000,000.
   *
   * @param leaseMax the value
   */
  public void setLeaseMax(Integer leaseMax) {
    this.leaseMax = leaseMax;
  }

  /**
   * Returns: how long a call waits for its ids at most.
   *
   * @return the value, or null where there is none
   */
  public Duration getCallTimeout() {
    return callTimeout;
  }

  /**
   * Sets: how long a call waits for its ids at most.
   *
   * @param callTimeout the value
   */
  public void setCallTimeout(Duration callTimeout) {
    this.callTimeout = callTimeout;
  }

  /**
   * Returns: how long one node is given to answer before another is asked.
   *
   * @return the value, or null where there is none
   */
  public Duration getAttemptTimeout() {
    return attemptTimeout;
  }

  /**
   * Sets: how long one node is given to answer before another is asked.
   *
   * @param attemptTimeout the value
   */
  public void setAttemptTimeout(Duration attemptTimeout) {
    this.attemptTimeout = attemptTimeout;
  }

  /**
   * Returns: how long connecting takes at most, TLS included.
   *
   * @return the value, or null where there is none
   */
  public Duration getConnectTimeout() {
    return connectTimeout;
  }

  /**
   * Sets: how long connecting takes at most, TLS included.
   *
   * @param connectTimeout the value
   */
  public void setConnectTimeout(Duration connectTimeout) {
    this.connectTimeout = connectTimeout;
  }
}

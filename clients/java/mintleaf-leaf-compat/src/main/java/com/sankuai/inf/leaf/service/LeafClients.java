package com.sankuai.inf.leaf.service;

import com.sankuai.inf.leaf.exception.InitException;
import io.mintleaf.client.MintleafClient;
import java.io.IOException;
import java.io.InputStream;
import java.util.Arrays;
import java.util.Properties;
import java.util.stream.Collectors;

/** Makes clients from {@code leaf.endpoints}, a list with commas. */
final class LeafClients {
  static final String ENDPOINTS = "leaf.endpoints";
  static final String TOKEN = "leaf.token";

  private LeafClients() {}

  /** Makes a client for a list of endpoints. */
  static MintleafClient of(String endpoints, String token) throws InitException {
    if (endpoints == null || endpoints.trim().isEmpty()) {
      throw new InitException(
          ENDPOINTS + " is not set: name the nodes, for instance http://a:8080,http://b:8080,http://c:8080");
    }
    try {
      return MintleafClient.builder()
          .endpoints(Arrays.stream(endpoints.split(",")).map(String::trim).collect(Collectors.toList()))
          .token(token)
          .build();
    } catch (IllegalArgumentException e) {
      throw new InitException(ENDPOINTS + ": " + e.getMessage());
    }
  }

  /** Makes a client for the endpoints in the system properties, else in {@code leaf.properties} on the class path. */
  static MintleafClient ofSettings() throws InitException {
    Properties settings = new Properties();
    try (InputStream in = Thread.currentThread().getContextClassLoader().getResourceAsStream("leaf.properties")) {
      if (in != null) {
        settings.load(in);
      }
    } catch (IOException e) {
      throw new InitException("leaf.properties cannot be read: " + e.getMessage());
    }
    return of(setting(settings, ENDPOINTS), setting(settings, TOKEN));
  }

  private static String setting(Properties settings, String name) {
    return System.getProperty(name, settings.getProperty(name));
  }
}

package io.mintleaf.leafcallers;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import feign.Feign;
import feign.FeignException;
import feign.Headers;
import feign.Param;
import feign.RequestLine;
import feign.jackson.JacksonDecoder;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.HttpURLConnection;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import okhttp3.OkHttpClient;
import okhttp3.Request;
import okhttp3.RequestBody;
import okhttp3.Response;
import org.junit.jupiter.api.Test;
import org.springframework.http.MediaType;
import org.springframework.http.ResponseEntity;
import org.springframework.web.client.HttpServerErrorException;
import org.springframework.web.client.RestTemplate;

/**
 * Calls as programs written for Leaf make them. They run against {@code -Dleaf.url}, where the tag {@code orders}
 * exists and {@code nobody} does not: a node, or a real Leaf.
 */
class LeafCallersTest {
    private static final String URL = System.getProperty("leaf.url", "http://127.0.0.1:8080");
    private static final String ORDERS = URL + "/api/segment/get/orders";
    private static final String NOBODY = URL + "/api/segment/get/nobody";
    private static final String SNOWFLAKE = URL + "/api/snowflake/get/any";

    interface Ids {
        @RequestLine("GET /api/segment/get/{key}")
        String text(@Param("key") String key);
    }

    interface NumberedIds {
        @RequestLine("GET /api/segment/get/{key}")
        @Headers("Accept: application/json")
        Long next(@Param("key") String key);

        @RequestLine("GET /decodeSnowflakeId?snowflakeId={id}")
        Map<String, String> decode(@Param("id") String id);
    }

    @Test
    void restTemplateReadsNumbersAndTexts() {
        RestTemplate rest = new RestTemplate();
        long first = rest.getForObject(ORDERS, Long.class);
        long second = Long.parseLong(rest.getForObject(ORDERS, String.class));
        long third = rest.postForObject(ORDERS, null, Long.class);
        assertTrue(first < second && second < third, first + " " + second + " " + third);
        ResponseEntity<Long> entity = rest.getForEntity(SNOWFLAKE, Long.class);
        assertTrue(entity.getBody() > 0);
        assertEquals(MediaType.APPLICATION_JSON_UTF8, entity.getHeaders().getContentType());
        Map<?, ?> parts = rest.getForObject(URL + "/decodeSnowflakeId?snowflakeId=" + entity.getBody(), Map.class);
        assertTrue(parts.containsKey("workerId") && parts.containsKey("sequenceId"), parts.toString());
    }

    @Test
    void restTemplateReadsWhatWentWrong() throws IOException {
        RestTemplate rest = new RestTemplate();
        HttpServerErrorException failed =
                assertThrows(HttpServerErrorException.class, () -> rest.getForObject(NOBODY, Long.class));
        assertEquals(500, failed.getRawStatusCode());
        JsonNode body = new ObjectMapper().readTree(failed.getResponseBodyAsString());
        assertEquals("Result{id=-2, status=EXCEPTION}", body.get("message").asText());
        assertEquals(
                "com.sankuai.inf.leaf.server.exception.LeafServerException", body.get("exception").asText());
        assertEquals("/api/segment/get/nobody", body.get("path").asText());
    }

    @Test
    void feignReadsNumbersAndTexts() {
        Ids ids = Feign.builder().target(Ids.class, URL);
        NumberedIds numbered = Feign.builder().decoder(new JacksonDecoder()).target(NumberedIds.class, URL);
        long first = Long.parseLong(ids.text("orders"));
        long second = numbered.next("orders");
        assertTrue(first < second, first + " " + second);
        assertEquals("5", numbered.decode("5").get("sequenceId"));
        FeignException failed = assertThrows(FeignException.class, () -> ids.text("nobody"));
        assertEquals(500, failed.status());
        assertTrue(failed.contentUTF8().contains("id=-2"), failed.contentUTF8());
        // A base address with a slash at its end doubles it.
        assertTrue(Long.parseLong(Feign.builder().target(Ids.class, URL + "/").text("orders")) > second);
    }

    @Test
    void okHttpReadsTextsWithTheirCharset() throws IOException {
        OkHttpClient client = new OkHttpClient();
        for (String method : new String[] {"GET", "POST", "PUT", "PATCH", "DELETE"}) {
            RequestBody body = method.equals("GET") ? null : RequestBody.create(null, new byte[0]);
            Request request = new Request.Builder().url(ORDERS).method(method, body).build();
            try (Response response = client.newCall(request).execute()) {
                assertEquals(200, response.code(), method);
                assertEquals("text/plain;charset=UTF-8", response.header("Content-Type"));
                assertTrue(Long.parseLong(response.body().string()) > 0);
            }
        }
        Request missing = new Request.Builder().url(URL + "/api/nothing").build();
        try (Response response = client.newCall(missing).execute()) {
            assertEquals(404, response.code());
            assertEquals("No message available", new ObjectMapper().readTree(response.body().string())
                    .get("message").asText());
        }
    }

    @Test
    void httpUrlConnectionReadsTextsAndPages() throws IOException {
        HttpURLConnection found = open(ORDERS);
        // Java's own client accepts HTML before all else.
        assertEquals("text/html;charset=UTF-8", found.getContentType());
        assertTrue(Long.parseLong(read(found.getInputStream())) > 0);
        HttpURLConnection failed = open(NOBODY);
        assertEquals(500, failed.getResponseCode());
        String page = read(failed.getErrorStream());
        assertTrue(page.contains("Whitelabel Error Page") && page.contains("id=-2"), page);
        HttpURLConnection head = open(ORDERS);
        head.setRequestMethod("HEAD");
        assertEquals(200, head.getResponseCode());
    }

    private static HttpURLConnection open(String url) throws IOException {
        return (HttpURLConnection) new URL(url).openConnection();
    }

    private static String read(InputStream stream) throws IOException {
        ByteArrayOutputStream all = new ByteArrayOutputStream();
        for (int next = stream.read(); next >= 0; next = stream.read()) {
            all.write(next);
        }
        return new String(all.toByteArray(), StandardCharsets.UTF_8);
    }
}

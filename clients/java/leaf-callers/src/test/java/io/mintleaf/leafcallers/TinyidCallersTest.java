package io.mintleaf.leafcallers;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.net.HttpURLConnection;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfSystemProperty;

/** Asks as tinyid's client does, which no registry has: an empty POST with everything in the query. */
@EnabledIfSystemProperty(named = "tinyid.url", matches = ".+", disabledReason = "a real Leaf has no paths of tinyid")
class TinyidCallersTest {
    @Test
    void segmentsFollowEachOther() throws Exception {
        long last = 0;
        for (int round = 0; round < 5; round++) {
            String[] fields = segment("orders").split(",");
            long current = Long.parseLong(fields[0]);
            long loading = Long.parseLong(fields[1]);
            long max = Long.parseLong(fields[2]);
            assertTrue(current >= last && current <= loading && loading < max, String.join(",", fields));
            assertEquals(1, Integer.parseInt(fields[3]));
            assertEquals(0, Integer.parseInt(fields[4]));
            last = max;
        }
    }

    @Test
    void anUnknownTypeHasNoSegment() throws Exception {
        assertEquals("", segment("nobody"));
    }

    private static String segment(String type) throws Exception {
        String call = "/tinyid/id/nextSegmentIdSimple?token=any&bizType=" + type;
        HttpURLConnection connection =
            (HttpURLConnection) new URL(System.getProperty("tinyid.url") + call).openConnection();
        connection.setRequestMethod("POST");
        connection.setDoOutput(true);
        connection.setConnectTimeout(5_000);
        connection.setReadTimeout(5_000);
        connection.connect();
        try (OutputStreamWriter body = new OutputStreamWriter(connection.getOutputStream(), StandardCharsets.UTF_8)) {
            body.write("");
        }
        StringBuilder answer = new StringBuilder();
        try (BufferedReader lines =
                new BufferedReader(new InputStreamReader(connection.getInputStream(), StandardCharsets.UTF_8))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                answer.append(line);
            }
        }
        return answer.toString();
    }
}

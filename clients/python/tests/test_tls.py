"""HTTPS with a CA file, and without one. The certificate comes from the command `openssl`."""

from __future__ import annotations

import http.server
import json
import os
import shutil
import ssl
import subprocess
import tempfile
import threading
import unittest

import mintleaf


class Node(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        is_known = self.headers["Authorization"] == "Bearer secret"
        body = json.dumps({"ids": ["5"], "lease": False} if is_known else {"code": "unauthenticated"}).encode()
        self.send_response(200 if is_known else 401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@unittest.skipUnless(shutil.which("openssl"), "SKIPPED: there is no openssl")
class Tls(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.certificate = os.path.join(directory.name, "cert.pem")
        key = os.path.join(directory.name, "key.pem")
        command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=node"]
        command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", self.certificate]
        subprocess.run(command, check=True, capture_output=True)
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Node)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, key)
        # Each handshake on its connection's own thread, so that a refused one ends no other.
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        server.handle_error = lambda *_: None  # type: ignore[method-assign]
        self.url = f"https://127.0.0.1:{server.server_address[1]}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)

    def test_a_node_is_trusted_by_the_ca_file(self) -> None:
        with mintleaf.Client([self.url], "secret", ca_file=self.certificate) as client:
            self.assertEqual([client.next_id("a") for _ in range(3)], [5, 5, 5])

    def test_an_unknown_node_gets_no_token(self) -> None:
        with (
            mintleaf.Client([self.url], "secret", timeout=5.0, attempt_timeout=30.0, connect_timeout=30.0) as client,
            self.assertRaises(mintleaf.Unavailable) as met,
        ):
            client.next_id("a")
        self.assertIn("certificate", str(met.exception).lower())

    def test_a_wrong_token_is_refused(self) -> None:
        with mintleaf.Client([self.url], "other", ca_file=self.certificate) as client:
            with self.assertRaises(mintleaf.Refused) as met:
                client.next_id("a")
            self.assertEqual(met.exception.status, 401)


if __name__ == "__main__":
    unittest.main()

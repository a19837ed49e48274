"""The programs in recipes, each with a real node and SQLite. MINTLEAF_BINARY names the node."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request
from pathlib import Path

from test_nodes import free_ports

BINARY = os.environ.get("MINTLEAF_BINARY")
HERE = Path(__file__).resolve().parents[1]


@unittest.skipUnless(BINARY, "SKIPPED: MINTLEAF_BINARY names no node")
class Recipes(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.directory = tempfile.TemporaryDirectory()
        cls.url = f"http://127.0.0.1:{free_ports(1)[0]}"
        command = [BINARY, "dev", "--http", cls.url[7:], "--data", cls.directory.name]
        cls.node = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(300):
            try:
                urllib.request.urlopen(f"{cls.url}/readyz", timeout=2).close()
                return
            except OSError:
                time.sleep(0.1)
        raise AssertionError("the node is not ready after 30 s")

    @classmethod
    def tearDownClass(cls) -> None:
        cls.node.kill()
        cls.node.wait()
        cls.directory.cleanup()

    def run_recipe(self, library: str) -> None:
        if importlib.util.find_spec(library) is None:
            self.skipTest(f"SKIPPED: there is no {library}")
        environment = {**os.environ, "MINTLEAF_URL": self.url, "PYTHONPATH": str(HERE / "src")}
        command = [sys.executable, str(HERE / "recipes" / f"{library}_default.py")]
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        rows, requests = map(int, re.findall(r"\d+", ended.stdout))
        self.assertEqual(rows, 10_001)
        self.assertLessEqual(requests, 20)

    def test_django_rows_have_distinct_keys_with_few_requests(self) -> None:
        self.run_recipe("django")

    def test_sqlalchemy_rows_have_distinct_keys_with_few_requests(self) -> None:
        self.run_recipe("sqlalchemy")


if __name__ == "__main__":
    unittest.main()

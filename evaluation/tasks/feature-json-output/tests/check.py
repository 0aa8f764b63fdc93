import json
import subprocess
import sys
import unittest


def stock(*words):
    return subprocess.run([sys.executable, "/app/stock.py", *words], capture_output=True)


class Stock(unittest.TestCase):
    def test_json(self):
        for words in (("--json", "list"), ("list", "--json")):
            self.assertEqual(
                json.loads(stock(*words).stdout),
                [
                    {"name": "bolt", "count": 120, "low": False},
                    {"name": "gasket µ", "count": 0, "low": True},
                    {"name": "nut", "count": 12, "low": True},
                ],
            )
        shown = json.loads(stock("show", "nut", "--json").stdout)
        self.assertEqual(shown, {"name": "nut", "count": 12, "low": True})

    def test_errors(self):
        done = stock("show", "--json", "cog")
        self.assertEqual(done.returncode, 1)
        self.assertIn("cog", json.loads(done.stdout)["error"])

    def test_without_it_nothing_changes(self):
        self.assertEqual(stock("list").stdout.decode(), "bolt\t120\ngasket µ\t0 LOW\nnut\t12 LOW\n")
        self.assertEqual(stock("show", "bolt").stdout, b"bolt: 120 (at least 50)\n")
        done = stock("show", "cog")
        self.assertEqual((done.returncode, done.stdout), (1, b""))
        self.assertEqual(done.stderr, b"there is no 'cog'\n")
        self.assertEqual(stock().returncode, 2)


unittest.main()

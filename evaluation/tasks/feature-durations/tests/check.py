import sys
import unittest

sys.path.insert(0, "/app")
from durations import parse, show


class Durations(unittest.TestCase):
    def test_what_is_read(self):
        cases = {"90s": 90, "15m": 900, "2h": 7200, "1d": 86400, "1d2h3m4s": 93784}
        cases |= {"1h30m": 5400, "1h 30m": 5400, " 7 ": 7, "0": 0, "61m": 3660}
        self.assertEqual({text: parse(text) for text in cases}, cases)

    def test_what_is_refused(self):
        for text in ("", " ", "-1s", "+1", "1.5h", "30m1h", "1h1h", "1x", "h", "1h30", "1 0s"):
            with self.assertRaises(ValueError, msg=text) as caught:
                parse(text)
            self.assertIn(repr(text), str(caught.exception))

    def test_what_is_shown(self):
        cases = {0: "0s", 5400: "1h30m", 86400: "1d", 93784: "1d2h3m4s", 59: "59s"}
        self.assertEqual({seconds: show(seconds) for seconds in cases}, cases)
        self.assertTrue(all(parse(show(n)) == n for n in range(0, 200000, 37)))
        with self.assertRaises(ValueError):
            show(-1)


unittest.main()

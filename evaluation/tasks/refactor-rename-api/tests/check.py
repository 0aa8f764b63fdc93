import re
import sys
import unittest
import warnings
from pathlib import Path

sys.path.insert(0, "/app")
warnings.simplefilter("error")
import shop
from shop import pricing, receipt, report


class Renamed(unittest.TestCase):
    def test_the_new_name(self):
        self.assertEqual(shop.total_price([1, 2.5], discount=10), 3.15)
        self.assertEqual(pricing.total_price(prices=[1]), 1)

    def test_nothing_inside_uses_the_old_one(self):
        shown = receipt.receipt([("tea", 2), ("cake", 3)], discount=10)
        self.assertEqual(shown.splitlines()[-2:], ["total         4.50", "saved 0.50"])
        self.assertEqual(report.average([[1, 2], [3]]), 3)
        for name in ("receipt.py", "report.py"):
            text = (Path("/app/shop") / name).read_text()
            self.assertIsNone(re.search(r"\b_?calc\b|\blst\b", text), name)

    def test_the_old_name_works_and_warns_at_the_caller(self):
        for old in (shop.calc, pricing.calc):
            for given in (([1, 2],), ()):
                named = {} if given else {"lst": [1, 2]}
                with self.assertWarnsRegex(DeprecationWarning, "total_price") as caught:
                    self.assertEqual(old(*given, **named, discount=50), 1.5)
                self.assertEqual(caught.filename, __file__)


unittest.main()

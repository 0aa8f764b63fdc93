import ast
import sys
import unittest
from pathlib import Path

sys.path.insert(0, "/app")
import counting
import reading
import report

LINES = """
# orders
2028-01-02; Ann ;12.50
2028-01-02;bob;3
2028-01-03;ANN;-0.05
2028-01-03;;1
2028/01/03;bob;1
2028-01-04;bob;1.5
2028-01-04;cy;9.5x
a;b
2028-01-05;dan;12.45
2028-01-05;eve;-7.00
""".splitlines()
WANTED = """customers
  ann         12.45
  dan         12.45
  bob         3.00
  eve         -7.00
days
  2028-01-02  15.50
  2028-01-03  -0.05
  2028-01-05  5.45
wrong lines: 5"""


class Split(unittest.TestCase):
    def test_the_text_is_the_same(self):
        self.assertEqual(report.main(LINES), WANTED)
        self.assertEqual(report.main([]), "customers\ndays\nwrong lines: 0")

    def test_the_parts_work_alone(self):
        orders = list(reading.read_orders(LINES))
        self.assertEqual(orders[0], reading.Order("2028-01-02", "ann", 1250))
        with self.assertRaises(AttributeError):
            orders[0].amount = 1
        self.assertEqual(counting.by_customer(orders)["ann"], 1245)
        self.assertEqual(counting.by_day(iter(orders))["2028-01-05"], 545)

    def test_the_shape(self):
        self.assertNotIn("reading", Path(counting.__file__).read_text())
        for module in (reading, counting, report):
            tree = ast.parse(Path(module.__file__).read_text())
            for node in ast.walk(tree):
                if isinstance(node, ast.FunctionDef):
                    self.assertLessEqual(node.end_lineno - node.lineno + 1, 15, node.name)


unittest.main()

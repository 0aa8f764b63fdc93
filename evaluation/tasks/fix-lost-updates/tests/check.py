import json
import multiprocessing
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, "/app")
import counter

TIMES = 60


def work(path, name):
    for _ in range(TIMES):
        counter.add(path, name)
        counter.add(path, "all", 2)


class Counter(unittest.TestCase):
    def test_no_update_gets_lost_and_no_reader_finds_a_part(self):
        path = Path(tempfile.mkdtemp()) / "counts.json"
        counter.add(path, "all", 0)
        context = multiprocessing.get_context("fork")
        workers = [context.Process(target=work, args=(path, f"w{n}")) for n in range(4)]
        for each in workers:
            each.start()
        while any(each.is_alive() for each in workers):
            self.assertIn("all", json.loads(path.read_text()))
        self.assertEqual([each.exitcode for each in workers], [0] * 4)
        found = counter.read(path)
        self.assertEqual(found, {"all": 8 * TIMES, **{f"w{n}": TIMES for n in range(4)}})


unittest.main()

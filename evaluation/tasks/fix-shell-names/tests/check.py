import subprocess
import tempfile
import unittest
from pathlib import Path


def collect(*words):
    return subprocess.run(["bash", "/app/collect.sh", *map(str, words)], capture_output=True)


class Collect(unittest.TestCase):
    def setUp(self):
        self.place = Path(tempfile.mkdtemp())
        self.source, self.target = self.place / "from here", self.place / "to there"
        self.target.mkdir()

    def put(self, name, text):
        file = self.source / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def test_strange_names(self):
        for name in ("a b.txt", "two\nlines.txt", "-n.txt", "st*r.txt", "x/ .txt"):
            self.put(name, name)
        self.put("no.md", "no")
        done = collect(self.source, self.target)
        self.assertEqual((done.returncode, done.stdout), (0, b"5\n"))
        kept = {each.name: each.read_text() for each in self.target.iterdir()}
        names = {"a b.txt", "two\nlines.txt", "-n.txt", "st*r.txt", " .txt"}
        self.assertEqual(set(kept), names)

    def test_the_same_name_again(self):
        for place in ("c", "a", "b"):
            self.put(f"{place}/a.txt", place)
        collect(self.source, self.target)
        kept = {each.name: each.read_text() for each in self.target.iterdir()}
        self.assertEqual(kept, {"a.txt": "a", "a-2.txt": "b", "a-3.txt": "c"})

    def test_nothing_to_collect_from(self):
        done = collect(self.place / "gone", self.target)
        self.assertEqual(done.returncode, 2)
        self.assertTrue(done.stderr)


unittest.main()

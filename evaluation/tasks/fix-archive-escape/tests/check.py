import io
import sys
import tarfile
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, "/app")
from unpack import UnsafeMember, unpack


def archive(place, *members):
    with tarfile.open(place, "w") as made:
        for name, link in members:
            info = tarfile.TarInfo(name)
            if link is None:
                info.size = 2
                made.addfile(info, io.BytesIO(b"ok"))
            else:
                info.type, info.linkname = tarfile.SYMTYPE, link
                made.addfile(info)
    return place


class Unpack(unittest.TestCase):
    def setUp(self):
        self.place = Path(tempfile.mkdtemp())
        self.target = self.place / "target"
        self.target.mkdir()

    def refuse(self, *members):
        with self.assertRaises(UnsafeMember):
            unpack(archive(self.place / "a.tar", ("good.txt", None), *members), self.target)
        self.assertEqual(list(self.target.iterdir()), [])

    def test_names_that_lead_out(self):
        self.refuse(("../out.txt", None))
        self.refuse(("/tmp/out.txt", None))
        self.refuse(("a/../../out.txt", None))

    def test_links_that_lead_out(self):
        self.refuse(("link", "../../outside"))
        self.refuse(("link", "/etc"))
        self.refuse(("a/link", "../../x"))

    def test_harmless_ones(self):
        made = archive(self.place / "b.tar", ("a/file", None), ("a/link", "file"), ("..b", None))
        unpack(made, self.target)
        self.assertEqual((self.target / "a/link").read_text(), "ok")
        self.assertEqual((self.target / "..b").read_text(), "ok")


unittest.main()

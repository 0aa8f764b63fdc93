import struct
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, "/app")
import pixmap


def read(path):
    data = Path(path).read_bytes()
    magic, size, _, offset = struct.unpack_from("<2sIII", data)
    head, width, height, planes, bits, packed = struct.unpack_from("<IiiHHI", data, 14)
    assert (magic, size, head, planes, bits, packed) == (b"BM", len(data), 40, 1, 24, 0)
    stride = (width * 3 + 3) // 4 * 4
    assert len(data) == offset + stride * height
    rows = []
    for row in reversed(range(height)):
        line = data[offset + row * stride :][: width * 3]
        rows.append([tuple(reversed(line[at : at + 3])) for at in range(0, width * 3, 3)])
    return rows


class Bmp(unittest.TestCase):
    def test_the_flag_is_there(self):
        self.assertEqual(read("/app/flag.bmp"), pixmap.flag())

    def test_other_sizes(self):
        for width in (1, 2, 3, 4, 7):
            place = Path(tempfile.mkdtemp()) / "x.bmp"
            rows = [[(x, y, 200) for x in range(width)] for y in range(3)]
            pixmap.write_bmp(rows, place)
            self.assertEqual(read(place), rows)

    def test_what_is_no_picture(self):
        place = Path(tempfile.mkdtemp()) / "x.bmp"
        for rows in ([], [[]], [[(0, 0, 0)], []]):
            with self.assertRaises(ValueError):
                pixmap.write_bmp(rows, place)
        self.assertFalse(place.exists())


unittest.main()

import sys
import unittest
from pathlib import Path

sys.path.insert(0, "/tests")
import door

WANTED = [door.banner(room) for room in range(1, door.ROOMS + 1)]


class Hotel(unittest.TestCase):
    def test_every_banner_is_remembered(self):
        found = Path("/app/banners.txt").read_text().split()
        right = sum(a == b for a, b in zip(found, WANTED))
        print(f"{right} of {len(WANTED)} banners are right")
        self.assertEqual(found, WANTED)

    def test_every_door_was_opened_and_in_order(self):
        opened = Path("/app/.doors").read_text().split()
        print(f"{len(opened) - len(set(opened))} doors were tried again")
        self.assertEqual(list(dict.fromkeys(opened)), [str(n) for n in range(1, door.ROOMS + 1)])


unittest.main()

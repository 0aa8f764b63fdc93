import json
import unittest
from pathlib import Path

KINDS = ["mail", "disk", "door", "lamp", "pump"]


def wanted(n):
    kind = KINDS[n % 5]
    found = {
        "kind": kind,
        "name": f"{kind}-{n:02}",
        "every": ((n * 7) % 50 + 1) * (1, 60, 3600)[n % 3],
        "active": n % 2 == 0,
        "owner": "nobody",
    }
    if n % 4 == 1:
        found["owner"] = ["ann", "bob", "cy"][n % 3]
    if kind == "pump":
        del found["owner"]
    if n % 6 == 2:
        found["limit"] = n / 10
    return found


class Migration(unittest.TestCase):
    def test_every_file(self):
        names = {f"{KINDS[n % 5]}-{n:02}.json" for n in range(30)}
        self.assertEqual({each.name for each in Path("/app/settings").iterdir()}, names)
        for n in range(30):
            text = Path(f"/app/settings/{KINDS[n % 5]}-{n:02}.json").read_text()
            found = json.loads(text)
            self.assertEqual(found, wanted(n))
            self.assertEqual(text, json.dumps(found, indent=2, sort_keys=True) + "\n")

    def test_the_index(self):
        found = json.loads(Path("/app/index.json").read_text())
        self.assertEqual(found, dict.fromkeys(KINDS, 6))


unittest.main()

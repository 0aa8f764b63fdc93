import sys
import unittest

sys.path.insert(0, "/app")
from cache import Cache


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


class Caching(unittest.TestCase):
    def setUp(self):
        self.clock = Clock()
        self.cache = Cache(2, 10, self.clock)

    def test_the_least_recently_used_goes(self):
        self.cache.put("a", 1)
        self.cache.put("b", 2)
        self.cache.get("a")
        self.cache.put("c", 3)
        self.assertEqual([self.cache.get(k) for k in "abc"], [1, None, 3])
        self.assertEqual(self.cache.stats(), {"hits": 3, "misses": 1, "evicted": 1})

    def test_entries_die_and_reading_does_not_prolong_them(self):
        self.cache.put("a", 1)
        self.clock.now += 6
        self.assertEqual(self.cache.get("a"), 1)
        self.clock.now += 6
        self.assertEqual(self.cache.get("a", "none"), "none")
        self.assertEqual(self.cache.stats(), {"hits": 1, "misses": 1, "evicted": 0})

    def test_dead_entries_push_nothing_out(self):
        self.cache.put("old", 1)
        self.clock.now += 6
        self.cache.put("young", 2)
        self.cache.get("old")
        self.clock.now += 5
        self.assertEqual(len(self.cache), 1)
        self.cache.put("new", 3)
        self.assertEqual((self.cache.get("young"), self.cache.get("new")), (2, 3))
        self.assertEqual(self.cache.stats()["evicted"], 0)

    def test_none_is_a_value_and_wrong_limits_are_refused(self):
        self.cache.put("a", None)
        self.assertIsNone(self.cache.get("a", 5))
        for words in ((0, 1), (1, 0), (1, -1)):
            with self.assertRaises(ValueError):
                Cache(*words)


unittest.main()

import sys
import unittest
from datetime import date

sys.path.insert(0, "/app")
from ranges import merge


def day(number, month=3):
    return date(2028, month, number)


class Merge(unittest.TestCase):
    def test_ranges_that_touch_become_one(self):
        self.assertEqual(merge([(day(1), day(10)), (day(11), day(12))]), [(day(1), day(12))])

    def test_also_over_the_end_of_a_leap_february(self):
        joined = merge([(day(20, 2), day(29, 2)), (day(1), day(2))])
        self.assertEqual(joined, [(day(20, 2), day(2))])

    def test_a_range_inside_another_cuts_nothing_off(self):
        self.assertEqual(merge([(day(1), day(20)), (day(5), day(6))]), [(day(1), day(20))])

    def test_a_day_between_keeps_them_apart(self):
        apart = [(day(1), day(10)), (day(12), day(13))]
        self.assertEqual(merge(apart), apart)

    def test_the_input_stays_as_it_is(self):
        given = [(day(5), day(6)), (day(1), day(2))]
        merge(given)
        self.assertEqual(given, [(day(5), day(6)), (day(1), day(2))])


unittest.main()

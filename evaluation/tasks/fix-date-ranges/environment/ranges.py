"""Ranges of days."""

from datetime import date, timedelta


def merge(ranges):
    """Return the ranges, sorted, with those that overlap or touch made one."""
    ranges.sort()
    merged = []
    for first, last in ranges:
        if merged and first < merged[-1][1]:
            merged[-1] = (merged[-1][0], last)
        else:
            merged.append((first, last))
    return merged


def days(ranges):
    """Return how many days the ranges cover."""
    return sum((last - first).days for first, last in merge(ranges))

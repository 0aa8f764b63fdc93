"""Harnesses: what runs the steps of a turn."""

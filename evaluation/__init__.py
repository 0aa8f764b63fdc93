"""Evaluations: tasks of our own, and what different agents send for them."""

"""Delivery: the way of a reply from a turn to whoever should hear it."""

"""Delivery: the way of a reply from a turn to its receiver."""

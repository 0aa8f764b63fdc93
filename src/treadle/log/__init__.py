"""The writing side of one thread."""

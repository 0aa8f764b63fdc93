"""Models: what is known about each of them, and how they are asked."""

"""Context engines: what plans the next base of a view."""

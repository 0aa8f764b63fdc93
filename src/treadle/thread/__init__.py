"""A thread: how it is opened, what it needs, and the turns that it runs."""

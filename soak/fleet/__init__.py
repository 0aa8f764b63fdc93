"""A fleet: workers on one store, struck while they work, and an audit of what is left.

    python -m soak.fleet --store postgres --minutes 10

Three worker processes share sixty threads. They are killed and paused, their connections are
cut and slowed, the database is restarted as by a crash, and one has a clock an hour off.
"""

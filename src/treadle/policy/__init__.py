"""The turn plan: policy, decided before anything runs.

One file per domain, pure functions over frozen values; `turn_plan` joins them into what
a harness is given, `build` makes it from a route and a harness's traits. Invariant:
nothing here reads a clock, a file or a socket, and nothing here runs a turn.
"""

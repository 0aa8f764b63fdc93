"""The text projection: a view told before a request, as quoted reference data.

Owns the way for app-servers, and for users, that do not take a view as history.
Invariant: pure functions of rows and words; nothing here knows of processes or logs.
"""

"""The app-server's protocol: the messages Treadle sends and reads, as typed values.

Owns the shapes, which are the same in 0.163 and 0.166 wherever both have a field.
Invariant: a field we do not know is ignored, one that may be missing has a default,
and what is only passed on stays the bytes it came in.
"""

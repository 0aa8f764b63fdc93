"""The protocol of the app-server: the messages that Treadle sends and reads.

Owns the structs. They are the same in 0.163 and 0.166 wherever both versions have a field.
Invariant: an unknown field is ignored, a field that may be missing has a default, and
content that is only passed on stays `Raw`.
"""

"""Skills: folders with instructions, which a model reads when a task calls for them.

Owns where skills are found, how their files are read, which of them count, and how their text
reaches a thread. Invariant: what the model is told of skills is a state in the log and a text
appended to it; no skill ever changes a byte that was sent.
"""

"""Transfer: conversations of other agents become threads, and threads become files.

Imports know four formats (Codex, Claude Code, OpenClaw, plain JSONL), exports three
(plain JSONL, Codex, Markdown).
"""

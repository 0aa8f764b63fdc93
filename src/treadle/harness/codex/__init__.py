"""The Codex harness: turns on the real Codex app-server.

`harness` is what a thread uses. `threads` finds or starts the Codex thread that shows the
view (`binding` decides; `attachment` carries rows over, by `shown` or `text`). `turn` runs
a turn: `following` hears it, `mirror` and `keeping` write it down, `asked`, `tools` and
`steering` answer; `reconcile` does so after a crash. `servers` chooses the process (`home`,
`route`, `catalog`), `server` keeps it alive, `connection` and `protocol` speak with it.
"""

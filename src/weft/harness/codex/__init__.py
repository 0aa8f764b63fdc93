"""The Codex harness: turns on the real Codex app-server.

`harness` is what a thread uses. A turn: `threads` finds or starts the Codex thread that
shows the view (`binding` decides, `shown` or `text` carries the rows over), `turn` runs
it, `following` turns its events into ours, `mirror` its items into entries; `reconcile`
does so after a crash. `servers` and `server` own the process, `connection` and
`protocol` speak with it. Invariant: nothing here is loaded before Codex is chosen.
"""

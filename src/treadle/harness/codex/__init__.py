"""The Codex harness: turns on the real Codex app-server.

`harness` is what a thread uses. `codex_threads` finds or starts a thread by its `binding`
and sends it the view (`native_projection`, `text_projection`). `codex_turn` runs a turn:
`turn_events` handles its events, `mirror` writes the log, `request_handler` and `steering`
answer, `reconcile` repairs the log after a crash. `server_pool` chooses an `app_server`,
`server_connection` and `protocol` talk to it.
"""

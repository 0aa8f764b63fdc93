from __future__ import annotations

import os
import pty
import re
import subprocess

from .scripts import scripted, shell
from .terminal import SCRIPT

USAGE = {"input": 10_000, "cached": 8_000, "output": 100}


def test_the_window_is_shown_by_kind_in_tokens_and_money(treadle):
    model = scripted(treadle, {"calls": [shell("true")]}, {"text": "Done.", "usage": USAGE})
    (treadle.home / "config.toml").write_text(
        f'[prices."{model}"]\ninput = 2.0\ncached_input = 0.2\ncache_write = 2.5\noutput = 8.0\n'
    )
    treadle("exec", "go", "--model", model)
    found = treadle("context", "--json").json
    assert (found["tokens"], found["counted"]) == (10_100, True)
    assert found["window"] == found["tokens"] + found["free"]
    assert sum(found["kinds"].values()) == 10_100
    assert {"instructions", "tools", "context", "user", "calls", "outputs"} <= found["kinds"].keys()
    # 10,100 tokens at $2.50, and at $0.20
    cost = found["next_request"]
    assert round(cost["cold"]["amount"], 9) == 0.02525
    assert round(cost["cached"]["amount"], 9) == 0.00202
    bar, line, _, header, *rows = treadle("context").lines
    assert (len(bar), bar[0], bar[-1]) == (60, "I", ".")
    assert line.endswith(" tokens, as the provider counted, and estimated since")
    assert header.split() == ["WHAT", "TOKENS", "SHARE"]
    assert rows[-1] == "the next request costs $0.0253 cold, $0.0020 from the cache"
    assert any(row.split()[:2] == ["T", "tools"] for row in rows)


def test_a_model_without_a_price_and_a_thread_without_a_request_are_told(treadle):
    treadle("exec", "go", "--model", scripted(treadle, {"text": "Done."}))
    assert "not known: its model has no price" in treadle("context").lines[-1]
    treadle("new", "--title", "empty")
    said = treadle.refused("context", "empty")
    assert "has not asked its model anything yet" in said


def test_colours_are_only_for_terminals_that_want_them(treadle):
    treadle("exec", "go", "--model", scripted(treadle, {"text": "Done."}))

    def shown(**more: str) -> bytes:
        near, far = pty.openpty()
        subprocess.run(
            [SCRIPT, "context"],
            stdin=far,
            stdout=far,
            cwd=treadle.project,
            env={**treadle.env, "COLUMNS": "60", "TERM": "xterm", **more},
            check=True,
        )
        os.close(far)
        said = b""
        try:
            while piece := os.read(near, 65_536):
                said += piece
        except OSError:
            pass
        os.close(near)
        return said

    assert b"\x1b[44m" in shown()
    bare = shown(NO_COLOR="1").decode()
    assert "\x1b[44m" not in bare
    plain = re.sub(r"\x1b\[\d*m", "", bare)
    assert plain.startswith("I")
    assert all(len(line) <= 60 for line in plain.splitlines()[3:-2])

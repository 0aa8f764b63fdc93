from __future__ import annotations

import pytest
from evaluation.comparison.compared import COMMITTED, Compared
from evaluation.comparison.contenders import CONTENDERS
from evaluation.comparison.page import PAGE, between, generated_text
from evaluation.comparison.proxy import Recorded, RecordingProxy
from evaluation.comparison.sent_figures import SentFigures, sent_figures
from evaluation.comparison.stand_in import LOOK, Dialect, stand_in_script
from evaluation.comparison.trial import TrialResult, run_trial

from tests.evaluation.small_tasks import write_task
from treadle.core.wire import json_bytes
from treadle.evaluation.task import read_task
from treadle.testing.fake import FakeServer
from treadle.testing.script import Playback
from treadle.thread.thread import Thread

TOOL = {"type": "function", "name": "run"}


def request(*items: str, tools: int = 1) -> Recorded:
    body = {"input": [{"role": "user", "content": item} for item in items]}
    return Recorded("/v1/responses", json_bytes(body | {"tools": [TOOL] * tools}), b"")


def test_the_prefix_is_compared_in_the_order_in_which_a_model_reads():
    found = sent_figures([request("a"), request("a", "b"), request("a", "b", "c")], "gpt-5.5")
    assert (found.requests, found.breaks) == (3, 0)
    assert 0 < found.shared < 1
    broken = sent_figures([request("a"), request("z", "a"), request("z", "a", "b")], "gpt-5.5")
    assert broken.breaks == 1
    assert broken.shared < found.shared


def test_a_request_for_a_summary_between_two_others_breaks_nothing():
    work = [request("a"), request("summarise", tools=0), request("a", "b")]
    assert sent_figures(work, "gpt-5.5").breaks == 0
    assert sent_figures([], "gpt-5.5").requests == 0


def test_what_an_answer_says_it_has_used_is_charged_by_the_list():
    answer = b'{"usage": {"output_tokens": 1000000}}'
    told = [Recorded("/v1/responses", b'{"input": []}', answer)]
    assert sent_figures(told, "gpt-5.5").dollars == pytest.approx(30, abs=0.01)


def test_the_stand_in_answers_by_the_request_alone(tmp_path):
    script = stand_in_script(read_task(write_task(tmp_path / "mend")), Dialect("sh", "line"))
    playback = Playback(script)
    for _ in range(2):
        for texts, wanted in (
            (["Mend thing.txt"], LOOK),
            (["[step 0]"], "echo mended > thing.txt\necho '[step 1]' | tee -a .steps"),
        ):
            answer = playback.next(texts)
            assert answer is not None
            assert answer.calls[0].arguments == {"line": wanted}
        last = playback.next(["mended\n[step 1]"])
        assert last is not None
        assert (last.text, last.calls) == ("Done.", ())


async def test_the_proxy_passes_on_bytes_and_keeps_them(tmp_path, monkeypatch):
    async with (
        FakeServer(
            stand_in_script(read_task(write_task(tmp_path / "mend")), Dialect("x", "y"))
        ) as server,
        RecordingProxy(f"http://127.0.0.1:{server.port}") as proxy,
    ):
        monkeypatch.setenv("OPENAI_BASE_URL", proxy.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        async with Thread.open(model="openai:gpt-5.5", cwd=tmp_path, home=tmp_path) as thread:
            async for _ in thread.run("[step 1]"):
                pass
            rows = await thread.index.rows(thread.id)
        assert [each.body for each in proxy.recorded] == [each.body for each in server.requests]
        assert [row.size for row in rows] == [len(each.body) for each in proxy.recorded]
        assert b"Done." in proxy.recorded[0].answer


@pytest.mark.parametrize("name", ["treadle", "codex-alone", "bare"])
async def test_who_is_killed_comes_to_the_same_end_and_only_a_log_keeps_the_conversation(
    tmp_path, name
):
    task = read_task(write_task(tmp_path / "mend"))
    result = await run_trial(CONTENDERS[name], task, tmp_path / "trial", model="gpt-5.5", kill_at=3)
    assert (result.reward, result.error, result.killed_at) == (1.0, "", 3)
    assert result.steps_again == 0
    goes_on = name == "treadle"
    assert (result.kept, result.figures.breaks) == ((1.0, 0) if goes_on else (0.0, 1))


def test_what_only_a_real_model_can_show_is_told_of_one():
    sent = SentFigures(requests=9, sent_bytes=9_000, shared=0.5, breaks=0, dollars=1.0)
    forgetful = {"reward": 0.5, "facts": 0.5, "doors_tried_again": 7.0}
    trial = TrialResult(
        contender="codex-alone", task="long-x", reward=0.5, rewards=forgetful, figures=sent
    )
    solved = TrialResult(contender="codex-alone", task="fix-x", reward=1.0, figures=sent)
    real = Compared(measured="today", model="m", real=True, plain=[solved], long=[trial])
    text = generated_text(real)
    assert "`m` answered. Costs are those of `m` by its list price" in text
    assert "| Codex alone | 1 of 1 | 9 | 9 | 50.0% | 0 | $1.00 |" in text
    assert "| Codex alone | 50% | 9 | 9 | 50.0% | 0 | $1.00 | 7 |" in text
    told = generated_text(Compared(measured="today", model="m", real=False, long=[trial]))
    assert "| Codex alone |  | 9 | 9 | 50.0% | 0 | $1.00 | 7 |" in told


def test_the_page_is_what_the_results_say():
    assert between(PAGE.read_text()) == generated_text(Compared.read(COMMITTED)).strip()

from __future__ import annotations

import pytest

from tests.engines.scenes import Committing
from treadle.core.errors import CompletionFailed
from treadle.engines.values import CommitParams, CommitResult
from treadle.testing.script import Answer, ScriptedError

from .scenes import hear, open_thread, scripted


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (401, "invalid_api_key", "auth"),
        (429, "rate_limit_exceeded", "limit"),
        (400, "invalid_request", "other"),
    ],
)
async def test_an_engine_learns_why_the_model_did_not_answer(tmp_path, status, code, kind):
    kinds: list[str] = []

    async def commits(given: CommitParams) -> CommitResult:
        assert given.context is not None
        assert given.context.complete is not None
        with pytest.raises(CompletionFailed) as caught:
            await given.context.complete("How was it?")
        kinds.append(caught.value.kind)
        return CommitResult("committed")

    failure = Answer(error=ScriptedError(status=status, code=code, message="no"), times=0)
    engine = Committing(commit_turn=commits)
    async with open_thread(tmp_path, scripted(Answer(text="a"), failure), engine=engine) as thread:
        await hear(thread, "first")
    assert kinds == [kind]

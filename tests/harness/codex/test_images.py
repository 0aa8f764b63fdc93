from __future__ import annotations

from tests.harness.codex.scenes import hear, last, open_stage
from tests.harness.test_images import BAD, GOOD, LEFT_OUT, REFUSED, reasons, shown
from treadle.core.entries import Reason
from treadle.prompt import Image
from treadle.testing.script import Answer


async def test_a_refused_image_is_left_out_and_the_turn_goes_on_codex(tmp_path):
    async with open_stage(tmp_path, Answer(text="nice"), REFUSED) as stage:
        async with stage.thread() as thread:
            await hear(thread, "look", Image(GOOD))
            heard = await hear(thread, "and here", Image(BAD))
            assert (last(heard).status, last(heard).text) == ("completed", "fine")
            assert (await reasons(thread))[-1] == Reason.IMAGES
            name = thread.id
        async with stage.thread(name) as thread:
            assert last(await hear(thread, "go on")).status == "completed"
        assert [shown(request) for request in stage.requests] == [
            [GOOD],
            [GOOD, BAD],
            [GOOD, LEFT_OUT],
            [GOOD, LEFT_OUT],
        ]

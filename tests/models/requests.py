from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from treadle.core.items import Item
from treadle.models.contract import Model, ModelRequest
from treadle.models.profile import ModelProfile
from treadle.models.providers import Api, ProviderConfig, connect
from treadle.models.transport import AsyncTransport
from treadle.testing.fake import FakeServer
from treadle.testing.script import Answer, Script

from .formats.samples import body, head, user


@asynccontextmanager
async def answering(
    api: Api, *answers: Answer, **settings: Any
) -> AsyncIterator[tuple[Model, FakeServer]]:
    async with FakeServer(Script(answers=answers)) as server:
        config = ProviderConfig(api=api, base_url=server.base_url, key="secret-key", **settings)
        profile = ModelProfile(slug="m", provider="p")
        model = connect(profile, config, {}, AsyncTransport())
        try:
            yield model, server
        finally:
            await model.close()


def request(model: Model, *items: Item, **fields: Any) -> ModelRequest:
    asked = head(model.format.name)
    given: Sequence[Item] = items or (user("hello"),)
    written = body(model.format, asked, given, "key")
    return ModelRequest(head=asked, body=written, thread="thr_1", **fields)

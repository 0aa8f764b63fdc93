from __future__ import annotations

from typing import ClassVar

from treadle.models.contract import Model
from treadle.models.profile import ModelProfile
from treadle.models.providers import Api, ProviderConfig, connect
from treadle.models.transport import AsyncTransport
from treadle.testing.contracts.model_streams import ModelContract


class AdapterContract(ModelContract):
    api: ClassVar[Api]

    def open_model(self, base_url: str, *, idle: float) -> Model:
        config = ProviderConfig(api=self.api, base_url=base_url, key="key", idle_timeout=idle)
        profile = ModelProfile(slug="m", provider=self.provider, images=True)
        return connect(profile, config, {}, AsyncTransport())


class TestResponses(AdapterContract):
    api = "responses"


class TestChat(AdapterContract):
    api = "chat"


class TestMessages(AdapterContract):
    api = "messages"

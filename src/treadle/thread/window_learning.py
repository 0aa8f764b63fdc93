"""Window learning: a server of one's own is asked once how wide the window of its model is.

Owns when it is asked, and where the answer is kept. Invariants: only servers of one's own are
asked, and only where neither the user nor they themselves have said it; a server that does not
answer at once is not waited for, and is asked again by another process only.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ..core.errors import ConfigError
from ..models.catalog import LOCAL_PROVIDERS

if TYPE_CHECKING:
    from ..log.setup import RequestSetup
    from ..models.model_reports import ModelReport
    from ..policy.routes import Routes

__all__ = ["WindowLearning"]

_SECONDS = 1.0
"""How long the first turn waits for the answer, which mostly takes milliseconds."""


class WindowLearning:
    """Learns the windows of the models of one thread."""

    def __init__(self, setup: RequestSetup, routes: Routes) -> None:
        self._setup, self._routes = setup, routes
        self._asked: set[str] = set()
        self._unstored: ModelReport | None = None

    async def learn(self, *, keeps: bool) -> bool:
        """Ask about the thread's model, if that makes sense; return whether something is new.

        A preview does not keep the answer; the next turn does.
        """
        found = await self._learn()
        if keeps and self._unstored is not None:
            unstored, self._unstored = self._unstored, None
            await asyncio.to_thread(self._store, unstored)
        return found

    async def _learn(self) -> bool:
        setup = self._setup
        name = f"{setup.profile.provider}:{setup.profile.slug}"
        ours = setup.profile.provider in LOCAL_PROVIDERS
        if not ours or name in self._asked or setup.catalog.is_told(name):
            return False
        facts = await self._ask()
        if facts is None or "context_window" not in facts:
            # Ollama and LM Studio say it as soon as the model is loaded.
            if facts is None or setup.profile.provider not in ("lmstudio", "ollama"):
                self._asked.add(name)
            return False
        self._asked.add(name)
        setup.catalog = setup.catalog.with_report(setup.profile.provider, setup.profile.slug, facts)
        setup.profile = setup.catalog.profile(setup.model)
        if setup.home is not None:
            self._unstored = self._report(facts)
        return True

    @property
    def _address(self) -> str:
        return self._routes.address(self._setup.model)

    async def _ask(self) -> dict[str, Any] | None:
        from ..models.providers import provider_access, provider_settings
        from ..models.server_questions import ServerQuestions
        from ..models.transport import AsyncTransport

        routes, profile = self._routes, self._setup.profile
        try:
            settings = provider_settings(profile.provider, routes.providers)
            place = provider_access(profile.provider, settings, routes.environ)
            async with (
                asyncio.timeout(_SECONDS),
                AsyncTransport.from_environment(routes.environ) as transport,
            ):
                return await ServerQuestions(profile.provider, place, transport).facts(profile.slug)
        except (ConfigError, OSError, TimeoutError):
            return None  # the turn itself will say what is wrong, if something is

    def _report(self, facts: dict[str, Any]) -> ModelReport:
        from ..models.model_reports import ModelReport

        return ModelReport(
            provider=self._setup.profile.provider,
            origin=self._address,
            at=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            models={self._setup.profile.slug: facts},
        )

    def _store(self, report: ModelReport) -> None:
        from ..models.model_reports import add_to_report

        assert self._setup.home is not None, "nothing is to be stored otherwise"
        add_to_report(self._setup.home, report.provider, report)

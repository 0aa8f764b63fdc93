from __future__ import annotations

from weft.harness.codex.harness import CodexHarness
from weft.harness.codex.options import CodexOptions
from weft.harness.contract import Harness
from weft.harness.offers import HarnessOffer
from weft.testing.contracts import HarnessContract

from .scenes import codex


class TestCodexHarness(HarnessContract):
    def factory(self, offer: HarnessOffer) -> Harness:
        return CodexHarness(
            CodexOptions(binary=codex()),
            home=offer.home,
            environ=offer.environ,
            providers=offer.providers,
        )

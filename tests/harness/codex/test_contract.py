from __future__ import annotations

from treadle.harness.codex.codex_options import CodexOptions
from treadle.harness.codex.harness import CodexHarness
from treadle.harness.contract import Harness
from treadle.harness.offers import HarnessOffer
from treadle.testing.contracts import HarnessContract

from .scenes import codex
from .warm_home import warm_home


class TestCodexHarness(HarnessContract):
    def factory(self, offer: HarnessOffer) -> Harness:
        warm_home(offer.home, codex())
        return CodexHarness(
            CodexOptions(binary=codex()),
            home=offer.home,
            environ=offer.environ,
            providers=offer.providers,
        )

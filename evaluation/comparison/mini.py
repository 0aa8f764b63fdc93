"""Install mini-swe-agent beside the comparison, where it can be had.

python -m evaluation.comparison.mini
"""

from __future__ import annotations

import subprocess
import sys

from .contenders import MINI

__all__: list[str] = []

PACKAGES = ("mini-swe-agent==2.4.6", "mcp")
"""litellm, which it asks models with, imports `mcp` and does not require it."""
PATIENCE = 1_800.0


def main() -> None:
    """Make its environment; the comparison leaves it out where that fails."""
    if (MINI / "bin" / "python").exists():
        return
    pip = (str(MINI / "bin" / "python"), "-m", "pip", "install", "-q", "--no-input", *PACKAGES)
    try:
        for command in ((sys.executable, "-m", "venv", str(MINI)), pip):
            subprocess.run(command, check=True, timeout=PATIENCE)
        # Where it runs it can write no bytecode, and some files are for other versions.
        compiled = (str(MINI / "bin" / "python"), "-m", "compileall", "-q", str(MINI / "lib"))
        subprocess.run(compiled, check=False, stdout=subprocess.DEVNULL)
    except (subprocess.SubprocessError, OSError) as error:
        (MINI / "bin" / "python").unlink(missing_ok=True)
        print(f"mini-swe-agent is left out: {error}", file=sys.stderr)


if __name__ == "__main__":
    main()

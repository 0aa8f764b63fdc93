"""Trust in one prompt file of a project: shown, and asked about once.

Invariant: what is trusted is what was shown, byte for byte.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...config.trusted_files import TrustStore
from .choose import Choice

if TYPE_CHECKING:
    from ...config.prompt_files import PromptFile
    from .chat_session import ChatSession

__all__ = ["trusts_prompt"]


async def trusts_prompt(session: ChatSession, file: PromptFile, told: str, kind: str) -> bool:
    """Ask the user about a file of the project that they have not seen as it is.

    `told` says what would be done with it.
    """
    trust = TrustStore(session.setup.home)
    if file.is_trusted(trust):
        return True
    session.screen.say(f"{file.file} {told}:")
    session.screen.quiet(file.text.rstrip())
    rows = [Choice("no"), Choice("yes, as long as the file stays as it is")]
    if await session.front.choose(f"Use this {kind} of the project?", rows) != 1:
        return False
    trust.trust(file.file, file.body)
    return True

"""Drivers of profiles in use: a credential store in its own home, and real turns that use it.

Invariant: every secret is planted, so that a leak is found.
"""

from __future__ import annotations

import asyncio
import stat
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from ....core.errors import TreadleError
from ....core.items import Message, decode_item, text_of
from ....harness.events import Event, TurnCompleted
from ....models.providers import ProviderConfig
from ....policy.auth.auth_state import now as present
from ....policy.auth.cooldowns import obstacle
from ....policy.auth.credential import ApiKey, AuthError, Credential, Token
from ....policy.auth.credential_store import CredentialStore
from ....store.contract import Store
from ....thread.thread import Thread
from ....tools.decorator import tool
from ..fixture import MODEL, MatrixFixture, answers
from ..loopback_servers import TokenEndpoint, account_token, token_name

__all__ = ["bind", "credentials", "keep", "refresh", "renew", "share", "turn"]

Given: TypeAlias = Mapping[str, Any]

_PLANTED = "planted-"


class _Clock:
    """A clock that moves only when a row moves it."""

    def __init__(self) -> None:
        self.at = 1_700_000_000_000

    def __call__(self) -> int:
        return self.at


async def credentials(given: Given, fixture: object) -> Given:
    """Carry out steps; return the order of profiles and the pin of the thread."""
    del fixture
    clock = _Clock()
    with tempfile.TemporaryDirectory() as home:
        made = _store_with_profiles(Path(home), given["profiles"], clock=clock)
        for step in given["steps"]:
            await _step(made, clock, step)
        provider = given.get("provider", "openai")
        found = await made.resolve(provider, thread="t", model=given.get("model", ""))
        pin = await asyncio.to_thread(made.state.pin, "t")
    return {
        "order": [each.profile.id for each in found],
        "usable": [each.profile.id for each in found if each.usable],
        "pin": pin.profile if pin else "",
        "source": pin.source if pin else "",
    }


async def keep(given: Given, fixture: object) -> Given:
    """Return which files of a home hold secrets, and whether any text shows one."""
    del fixture
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch)
        made = _store_with_profiles(home, given["profiles"])
        for name in given["profiles"]:
            await made.note_failure(name, "auth")
            await made.note_success(name, thread="t")
        shown = repr(made) + repr(await made.resolve("openai"))
        try:
            shown += repr(await made.credential(given.get("ask", given["profiles"][0])))
        except AuthError as error:
            shown += f"{error}{error!r}"
        found = await asyncio.to_thread(_files_with_secret, home)
        mode = stat.S_IMODE((home / "auth.json").stat().st_mode)
    return {"files": found, "mode": f"{mode:o}", "shown": _PLANTED in shown}


async def refresh(given: Given, fixture: object) -> Given:
    """Return the bearers of an OAuth profile over time, and its state."""
    del fixture
    clock = _Clock()
    with tempfile.TemporaryDirectory() as home:
        async with TokenEndpoint(given.get("status", 200)) as endpoint:
            made = CredentialStore(Path(home), keyring=None, clock=clock)
            made.secrets.put("openai:me", endpoint.credential(clock() + 3_600_000))
            bearers: list[str] = []
            errors: list[str] = []
            for step in given["steps"]:
                clock.at += step.get("later", 0) * 1000
                rejected = bearers[-1] if step.get("rejected") else ""
                try:
                    got = await made.credential("openai:me", rejected=rejected)
                    bearers.append(got.bearer)
                except AuthError as error:
                    errors.append(str(error))
            health = (await asyncio.to_thread(made.state.health)).get("openai:me")
    held = obstacle(health, clock()) if health else None
    return {
        "bearers": [token_name(each) for each in bearers],
        "asked": endpoint.asked,
        "failed": len(errors),
        "state": held.state if held else "usable",
        "leaks": any(_PLANTED in each for each in errors),
    }


async def share(given: Given, fixture: object) -> Given:
    """Use one profile in several processes at once; return their bearers."""
    del fixture
    with tempfile.TemporaryDirectory() as home:
        async with TokenEndpoint() as endpoint:
            CredentialStore(Path(home), keyring=None).secrets.put(
                "openai:me", endpoint.credential()
            )
            children = [await _child(home) for _ in range(given["processes"])]
            said = [(await child.communicate())[0].decode().strip() for child in children]
    return {
        "bearers": sorted(set(map(token_name, said))),
        "asked": endpoint.asked,
    }


async def turn(given: Given, fixture: MatrixFixture) -> Given:
    """Run turns with profiles; return which were used, their state, and leaks."""
    fixture.play(*answers(given), spare=answers(given, "spare"))
    home = fixture.make_directory()
    made = _store_with_profiles(home, given["profiles"])
    events: list[Event] = []
    options = {"fallbacks": given.get("fallbacks", ()), "strict": given.get("strict", False)}
    options |= {"model": given["model"]} if "model" in given else {}
    async with fixture.open_thread(
        credentials=made, providers=_providers_without_keys(fixture), **options
    ) as thread:
        if "pin" in given:
            await made.pin(thread.id, given["pin"])
        try:
            for _ in range(given.get("turns", 1)):
                events += await fixture.run_turn(thread, "Go on.")
        except TreadleError as error:
            return {"error": type(error).__name__, **_profiles_used(fixture)}
        pin = await asyncio.to_thread(made.state.pin, thread.id)
        said = await _model_texts(thread)
    end = events[-1]
    assert isinstance(end, TurnCompleted)
    health = await asyncio.to_thread(made.state.health)
    held = {name: obstacle(each, present(), MODEL) for name, each in health.items()}
    return {
        "status": end.status,
        "text": end.text,
        "said": said,
        **_profiles_used(fixture),
        "tried": [[each.model, each.profile, each.reason] for each in end.tried],
        "resting": {name: [each.state, each.reason] for name, each in held.items() if each},
        "pin": pin.profile if pin else "",
        "source": pin.source if pin else "",
        **await asyncio.to_thread(_leaks, fixture, home, events, made),
    }


async def renew(given: Given, fixture: MatrixFixture) -> Given:
    """Run a turn with tokens, which the provider may refuse in the middle."""
    fixture.play(*answers(given))
    home = fixture.make_directory()
    async with TokenEndpoint(given.get("status", 200)) as endpoint:
        made = CredentialStore(home, keyring=None)
        mine = given.get("mine", "openai:me")
        pair = endpoint.credential(present() + 3_600_000, provider=mine.partition(":")[0])
        made.secrets.put(mine, pair)
        for name in given.get("profiles", ()):
            made.secrets.put(name, _credential(name))
        options: dict[str, Any] = {
            "credentials": made,
            "providers": _providers_without_keys(fixture),
            "tools": (_look,),
        }
        if "model" in given:
            options["model"] = given["model"]
        async with fixture.open_thread(**options) as thread:
            if "pin" in given:
                await made.pin(thread.id, given["pin"])
            events = await fixture.run_turn(thread, "Go on.")
            pin = await asyncio.to_thread(made.state.pin, thread.id)
    end = events[-1]
    assert isinstance(end, TurnCompleted)
    bearers = [each.headers.get("authorization", "") for each in fixture.requests]
    return {
        "status": end.status,
        "text": end.text,
        "bearers": [token_name(each.removeprefix("Bearer ")) for each in bearers],
        "accounts": [each.headers.get("chatgpt-account-id", "") for each in fixture.requests],
        "models": _models_asked(fixture),
        "asked": endpoint.asked,
        "source": pin.source if pin else "",
        **await asyncio.to_thread(_leaks, fixture, home, events, made),
    }


async def bind(given: Given, fixture: MatrixFixture) -> Given:
    """Carry out steps on one thread, paid by subscriptions; return who paid, and what failed."""
    fixture.play(*answers(given))
    made = CredentialStore(fixture.make_directory(), keyring=None)
    for name in given["profiles"]:
        made.secrets.put(name, account_token(name))
    options = {"credentials": made, "providers": _providers_without_keys(fixture)}
    thread, refused = None, list[str]()
    for opening in given["openings"]:
        async with fixture.open_thread(thread, engine="linear", **options) as opened:
            thread = opened.id
            for step in opening:
                refused += await _bound_step(step, fixture, opened, made)
            binding = await _binding(opened.store, thread)
    bearers = [each.headers.get("authorization", "") for each in fixture.requests]
    return {
        "used": [token_name(each) for each in bearers],
        "refused": refused,
        "bound": str(binding.get("profile", "")),
        "reason": str(binding.get("reason", "")),
    }


async def _bound_step(
    step: Given, fixture: MatrixFixture, thread: Thread, made: CredentialStore
) -> list[str]:
    """Carry out one step; return the name of its error, if there was one."""
    match step:
        case {"say": text}:
            await fixture.run_turn(thread, text)
        case {"choose": profile}:
            await made.pin(thread.id, profile)
        case {"order": ids}:
            await asyncio.to_thread(made.state.set_order, "openai", tuple(ids))
        case {"compact": True}:
            try:
                await thread.compact()
            except TreadleError as error:
                return [type(error).__name__]
        case _:
            raise ValueError(f"no such step: {step!r}")
    return []


async def _binding(store: Store, thread: str) -> Mapping[str, Any]:
    """Return what a thread is bound to in a harness that keeps threads of its own."""
    rows = [row for row in await store.outbox(topic="codex") if row.thread == thread]
    return msgspec.json.decode(rows[-1].body) if rows else {}


@tool(name="look", description="Looks at the world.", replay_safe=True)
async def _look() -> str:
    return "seen"


def _store_with_profiles(home: Path, profiles: Any, **options: Any) -> CredentialStore:
    """Return a credential store with a planted secret for each profile."""
    made = CredentialStore(home, keyring=None, **options)
    for name in profiles:
        made.secrets.put(name, _credential(name))
    return made


def _credential(name: str) -> Credential:
    provider, _, called = name.partition(":")
    secret = f"{_PLANTED}{provider}-{called}"
    if called.startswith("token"):
        return Token(provider=provider, token=secret)
    return ApiKey(provider=provider, key=secret)


async def _step(made: CredentialStore, clock: _Clock, step: Given) -> None:
    profile = step.get("profile", "")
    match step["do"]:
        case "answered":
            await made.note_success(profile, thread=step.get("thread", "t"))
        case "failed":
            await made.note_failure(
                profile, step["reason"], model=step.get("model", ""), retry_after=step.get("wait")
            )
        case "pin":
            await made.pin("t", profile)
        case "reset":
            await made.release("t")
        case "removed":
            made.secrets.remove(profile)
        case "later":
            clock.at += step["seconds"] * 1000
        case "elsewhere":
            provider = step["provider"]
            await made.resolve(provider, thread="t", temporary=step.get("temporary", False))
        case "order":
            await asyncio.to_thread(made.state.set_order, "openai", tuple(step["ids"]))


async def _model_texts(thread: Thread) -> list[str]:
    """Return all that models said in a thread, from its log."""
    last = (await thread.store.info(thread.id)).last
    entries = await thread.store.read(thread.id, 1, last)
    items = [decode_item(entry.body) for entry in entries if entry.kind == "item"]
    return [
        text_of(item.content)
        for item in items
        if isinstance(item, Message) and item.role == "assistant"
    ]


def _providers_without_keys(fixture: MatrixFixture) -> dict[str, ProviderConfig]:
    """Return the loopback providers without their keys."""
    return {
        name: msgspec.structs.replace(each, key=None) for name, each in fixture.providers.items()
    }


def _profiles_used(fixture: MatrixFixture) -> Given:
    """Return the profiles whose secrets came with requests, at both servers."""
    return {
        "used": [_profile_used(each.headers) for each in fixture.requests],
        "spare_used": [_profile_used(each.headers) for each in fixture.spare.requests],
        "models": _models_asked(fixture),
    }


def _models_asked(fixture: MatrixFixture) -> list[str]:
    """Return the model in each request."""
    return [each.payload["model"] for each in fixture.requests]


def _profile_used(headers: Mapping[str, str]) -> str:
    """Return the profile whose secret came with a request."""
    secret = headers.get("authorization", "").removeprefix("Bearer ")
    provider, _, name = secret.removeprefix(_PLANTED).rpartition("-")
    return f"{provider}:{name}" if secret.startswith(_PLANTED) else secret and "another"


def _leaks(fixture: MatrixFixture, home: Path, events: list[Event], made: CredentialStore) -> Given:
    """Return where secrets are found: anywhere, and in what Treadle itself writes.

    Codex writes what a provider sent into its own home.
    """
    secrets = [
        secret.encode() for each in made.profiles() for secret in made.secrets.get(each.id).secrets
    ]
    secrets += [b"planted-access-", b"planted-refresh-"]
    encoded = msgspec.json.encode(events)
    in_events = ["events"] if any(secret in encoded for secret in secrets) else []
    files = [
        *_files_with_secret(home, secrets),
        *_files_with_secret(fixture.directory / "treadle", secrets),
    ]
    leaks = in_events + [name for name in files if name != "auth.json"]
    return {"leaks": leaks, "told": [each for each in leaks if not each.startswith("codex/home/")]}


def _files_with_secret(home: Path, secrets: Sequence[bytes] = (_PLANTED.encode(),)) -> list[str]:
    """Return the files under `home` that hold a secret."""
    files = {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}
    return sorted(
        str(path.relative_to(home))
        for path, body in files.items()
        if any(secret in body for secret in secrets)
    )


_NEEDING = """
import asyncio, sys
from pathlib import Path
from treadle.policy.auth.credential_store import CredentialStore

async def need():
    print((await CredentialStore(Path(sys.argv[1]), keyring=None).credential("openai:me")).bearer)

asyncio.run(need())
"""


async def _child(home: str) -> asyncio.subprocess.Process:
    """Start a process that needs a credential."""
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c", _NEEDING, home, stdout=asyncio.subprocess.PIPE
    )

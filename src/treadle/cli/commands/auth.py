"""`treadle auth`: manage the credential profiles of providers."""

from __future__ import annotations

import sys
from typing import Literal

import click

from ...core.errors import NotFound
from ...policy.auth import ApiKey, Credential, Profile, Token, profile_id
from ...policy.auth.oauth import parse_tokens
from ...policy.auth.secrets import StorageChoice
from ..cli_home import Home, find_thread
from ..command_options import as_json, runs, standard_input
from ..lazy_group import examples
from ..output import Column, say, say_json, table
from ..profile_test import test_profile
from ..profiles import (
    candidate_row,
    check_provider,
    credentials_of,
    find_profile,
    print_profiles,
    profile_rows,
    settings_of,
)

__all__ = ["command"]

_TEST_COLUMNS = (Column("PROFILE"), Column("WORKS"), Column("WHY", gives=True))


@click.group(
    "auth",
    invoke_without_command=True,
    epilog=examples(
        "treadle auth",
        "pass openai | treadle auth add openai",
        "treadle auth add openai --name work",
        "treadle auth order openai work default",
        "treadle auth test",
    ),
)
@as_json
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """Manage the keys and tokens of providers.

    They are stored in the keyring, or in a file that only you can read. A profile is named
    `provider:name`. When the provider refuses a profile or its limit is reached, the next
    profile of the same provider is tried. A key in the environment comes first. Secrets are
    never shown.
    """
    if ctx.invoked_subcommand is None:
        _list(ctx.obj, as_json=as_json)


@command.command("list", epilog=examples("treadle auth list", "treadle auth list --json"))
@as_json
@click.pass_obj
def list_profiles(home: Home, as_json: bool) -> None:
    """List the known profiles, where each comes from, and its state.

    STATE is `ready`, `expired` (refreshed when it is needed), or the reason why the profile
    is paused, and until when: `cooldown` after failures, `blocked` by a usage limit,
    `disabled` because of a billing problem or an invalid secret.
    """
    _list(home, as_json=as_json)


@command.command(
    "add",
    epilog=examples(
        "treadle auth add openai",
        "pass work | treadle auth add openai --name work",
        "treadle auth add openai --oauth < tokens.json",
    ),
)
@click.argument("provider")
@click.option(
    "--name", default="", help="The name of the profile  [default: its email, or default]"
)
@click.option("--token", is_flag=True, help="The secret is a token of a subscription, not a key.")
@click.option(
    "--oauth",
    is_flag=True,
    help='Read JSON: {"access", "refresh", "expires", "token_url", "client_id", "email"}.',
)
@click.option(
    "--in",
    "where",
    type=click.Choice(["auto", "file", "keyring"]),
    default="auto",
    help="Where to store the secret  [default: the keyring if there is one, else the file]",
)
@as_json
@click.pass_obj
def add_profile(
    home: Home,
    provider: str,
    *,
    name: str,
    token: bool,
    oauth: bool,
    where: StorageChoice,
    as_json: bool,
) -> None:
    """Store a secret of PROVIDER. It is read from standard input or a hidden prompt."""
    if token and oauth:
        raise click.UsageError("--token and --oauth exclude each other; leave one out.")
    kind: _SecretKind = "oauth" if oauth else "token" if token else "api_key"
    profile = _store_secret(home, provider, name, kind, where)
    told = {"profile": profile.id, "provider": provider, "kept": True, "place": profile.place}
    _tell(told, f"stored {profile.id} in the {profile.place}", as_json=as_json)


@command.command("set", epilog=examples("treadle auth set openai"))
@click.argument("provider")
@as_json
@click.pass_obj
def set_key(home: Home, provider: str, as_json: bool) -> None:
    """Store the only key of PROVIDER: a short form of `treadle auth add`."""
    _store_secret(home, provider, "", "api_key", "auto")
    _tell({"provider": provider, "kept": True}, f"stored the key of {provider}", as_json=as_json)


@command.command(
    "remove", epilog=examples("treadle auth remove openai", "treadle auth remove openai:work")
)
@click.argument("profile")
@as_json
@click.pass_obj
def remove_profile(home: Home, profile: str, as_json: bool) -> None:
    """Remove PROFILE: its secret and its state."""
    credentials = credentials_of(home, settings_of(home))
    found = find_profile(credentials, profile)
    credentials.secrets.remove(found.id)
    credentials.state.forget(found.id)
    told = {"profile": found.id, "provider": found.provider, "kept": False}
    _tell(told, f"removed {found.id}", as_json=as_json)


@command.command(
    "order",
    epilog=examples(
        "treadle auth order openai",
        "treadle auth order openai work default",
        "treadle auth order openai --clear",
    ),
)
@click.argument("provider")
@click.argument("profiles", nargs=-1)
@click.option("--clear", is_flag=True, help="Remove the order; Treadle chooses again.")
@as_json
@runs
async def order_profiles(
    home: Home, provider: str, profiles: tuple[str, ...], clear: bool, as_json: bool
) -> None:
    """Show or set the order in which the profiles of PROVIDER are tried.

    With an order, only the profiles in it are used. Without an order, oauth comes before
    tokens, and tokens before keys; among equals, the least recently used comes first. Paused
    profiles always come last.
    """
    settings = settings_of(home)
    credentials = credentials_of(home, settings)
    check_provider(settings, provider)
    if clear and profiles:
        raise click.UsageError("Give either profiles or --clear, not both.")
    if clear or profiles:
        ids = tuple(_profile_id(home, provider, name) for name in profiles)
        credentials.state.set_order(provider, ids)
    rows = [candidate_row(credentials, each) for each in await credentials.resolve(provider)]
    if as_json:
        say_json(rows)
    elif rows:
        print_profiles(rows)
    else:
        say(f"no profiles of {provider} are known; `treadle auth add {provider}` stores one")


@command.command(
    "pin",
    epilog=examples(
        "treadle auth pin last openai:work",
        "treadle auth pin last",
        "treadle auth pin last --clear",
    ),
)
@click.argument("name", metavar="THREAD")
@click.argument("profile", required=False)
@click.option("--clear", is_flag=True, help="Remove the pin of the thread.")
@as_json
@runs
async def pin_profile(
    home: Home, name: str, profile: str | None, clear: bool, as_json: bool
) -> None:
    """Show or set the profile that THREAD uses.

    Another profile is used while it is paused. A thread without a pin keeps the profile of
    its first answer, because the cache of that profile is warm.
    """
    credentials = credentials_of(home, settings_of(home))
    async with home.store() as store:
        thread = (await find_thread(store, name)).id
    if clear:
        credentials.state.unpin(thread)
    elif profile:
        await credentials.pin(thread, profile)
    pin = credentials.state.pin(thread)
    if as_json:
        say_json(pin)
    elif pin is None:
        say(f"{thread} has no pinned profile")
    else:
        how = "you chose it" if pin.source == "user" else "its cache is warm"
        say(f"{thread} uses {pin.profile} ({how})")


@command.command("test", epilog=examples("treadle auth test", "treadle auth test openai:work"))
@click.argument("profile", required=False)
@as_json
@runs
async def test_profiles(home: Home, profile: str | None, as_json: bool) -> int:
    """Ask the provider whether it accepts PROFILE; without PROFILE, test all profiles.

    Expired tokens are refreshed first. The exit code is 1 when a profile is refused.
    """
    settings = settings_of(home)
    credentials = credentials_of(home, settings)
    known = [row.profile for row in profile_rows(credentials, settings)]
    if profile and profile not in known:
        profile = find_profile(credentials, profile).id
    tried = [
        await test_profile(credentials, settings, each)
        for each in ([profile] if profile else known)
    ]
    if as_json:
        say_json(tried)
    else:
        words = {True: "yes", False: "no", None: "unknown"}
        table(_TEST_COLUMNS, [[each.profile, words[each.works], each.said] for each in tried])
    return int(any(each.works is False for each in tried))


_SecretKind = Literal["api_key", "token", "oauth"]


def _store_secret(
    home: Home, provider: str, name: str, kind: _SecretKind, where: StorageChoice
) -> Profile:
    settings = settings_of(home)
    check_provider(settings, provider)
    credentials = credentials_of(home, settings)
    credential = _read(provider, kind, credentials.clock())
    own = profile_id(provider, name or credential.email or "default")
    kept = credentials.secrets.put(own, credential, where)
    credentials.state.forget(own)
    return kept


def _read(provider: str, kind: _SecretKind, now: int) -> Credential:
    what = {"api_key": "Key", "token": "Token", "oauth": "Tokens (JSON)"}[kind]
    text = _prompt_hidden(f"{what} of {provider}") if sys.stdin.isatty() else standard_input()
    match kind:
        case "api_key":
            return ApiKey(provider=provider, key=text.strip())
        case "token":
            return Token(provider=provider, token=text.strip())
        case "oauth":
            return parse_tokens(provider, text, now)


def _prompt_hidden(question: str) -> str:
    answer: str = click.prompt(question, hide_input=True, err=True)
    return answer


def _profile_id(home: Home, provider: str, name: str) -> str:
    """Return the id of a profile of `provider`, also of one in the environment."""
    credentials = credentials_of(home, settings_of(home))
    known = {each.id for each in credentials.profiles(provider)}
    for spelled in (name, f"{provider}:{name}"):
        if spelled in known:
            return spelled
    raise NotFound(f"profile of {provider}", name, "`treadle auth` lists them")


def _list(home: Home, *, as_json: bool) -> None:
    settings = settings_of(home)
    rows = profile_rows(credentials_of(home, settings), settings)
    if as_json:
        say_json(rows)
    elif rows:
        print_profiles(rows)
    else:
        say("no keys are known; `treadle auth add PROVIDER` stores one")


def _tell(value: dict[str, object], text: str, *, as_json: bool) -> None:
    if as_json:
        say_json(value)
    else:
        say(text)

from __future__ import annotations

import functools
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from treadle.engines.contract import EngineInfo, Requirement, TranscriptPromise
from treadle.engines.defects import POWERS, defects, delivery_promise, guarantee, optional_powers
from treadle.engines.linear import LinearEngine


class Small(LinearEngine):
    """An engine whose parts a test replaces."""

    info = EngineInfo(id="small", name="Small")


class Mighty(Small):
    async def bootstrap(self, given): ...
    async def maintain(self, given): ...
    async def ingest_batch(self, given): ...
    async def after_turn(self, given): ...
    async def commit_turn(self, given): ...
    async def intercept_compaction(self, given): ...
    async def prepare_subagent_spawn(self, given): ...
    async def on_subagent_ended(self, given): ...
    async def thread_reset(self, given): ...
    def tools(self): ...
    async def dispose(self): ...


def small(**parts: Any) -> object:
    return type("Changed", (Small,), parts)()


def informed(**fields: Any) -> object:
    return small(info=msgspec.structs.replace(Small.info, **fields))


def test_sound_engines_have_no_defects():
    assert (defects(Small()), defects(Mighty()), defects(LinearEngine())) == ((), (), ())


def test_every_defect_is_listed_at_once():
    class Poor:
        info = EngineInfo(
            id=" ",
            name=7,  # type: ignore[arg-type]
            version=None,  # type: ignore[arg-type]
            owns_compaction="yes",  # type: ignore[arg-type]
            turn_maintenance_mode="nightly",  # type: ignore[arg-type]
            accepted_host_params=("prompt", "sessionKey"),
            host_requirements={
                "agent-run": Requirement(capabilities="compact"),  # type: ignore[arg-type]
                "sing": Requirement(capabilities=()),  # type: ignore[dict-item]
                "manual-compact": ("compact",),  # type: ignore[dict-item]
            },
            transcript=TranscriptPromise(
                current_turn_fence="somewhere",  # type: ignore[arg-type]
                turn_advancement="atomic-idempotent-v1",
            ),
        )
        ingest = None
        maintain = "weekly"

        def assemble(self, given): ...
        async def bootstrap(self): ...
        async def after_turn(self, given, more): ...
        async def tools(self, given): ...
        def dispose(self): ...

    assert "\n".join(defects(Poor())) == snapshot(
        """\
info.id is blank
info.name is no string but a value of type 'int'
info.version is no string but None
info.owns_compaction is neither true nor false but a value of type 'str'
info.turn_maintenance_mode has 'nightly', which is none of background, foreground
info.accepted_host_params has 'sessionKey', which is none of cancelled, context, prompt, settings
info.host_requirements['agent-run'].capabilities is no tuple but a value of type 'str'
info.host_requirements has 'sing', which is none of agent-run, manual-compact, subagent-spawn
info.host_requirements['manual-compact'] is no Requirement but a value of type 'tuple'
info.transcript.current_turn_fence has 'somewhere', which is none of before-current-turn-entry-v1
info.transcript.turn_advancement is declared, but there is no 'commit_turn'
'ingest' is missing
'assemble' must be an `async def`
'compact' is missing
'bootstrap' must be callable with one positional argument
'maintain' is no method but a value of type 'str'
'after_turn' must be callable with one positional argument
'tools' must not be an `async def`
'tools' must be callable with no arguments
'dispose' must be an `async def`\
"""
    )


@pytest.mark.parametrize(
    ("candidate", "said"),
    [
        (None, "the factory returned nothing; return the engine"),
        (Small, "the factory returned the class 'Small'; return an instance"),
        (small(info=None), "'info' is no EngineInfo but None"),
        (small(info={"id": "x"}), "'info' is no EngineInfo but a value of type 'dict'"),
        (
            small(info=property(lambda _: 1 / 0)),
            "reading 'info' raises ZeroDivisionError: division by zero",
        ),
        (
            small(maintain=property(lambda _: 1 / 0)),
            "reading 'maintain' raises ZeroDivisionError: division by zero",
        ),
        (
            informed(accepted_host_params="prompt"),
            "info.accepted_host_params is no tuple but a value of type 'str'",
        ),
        (
            informed(accepted_host_params=([],)),
            (
                "info.accepted_host_params has a value of type 'list', "
                "which is none of cancelled, context, prompt, settings"
            ),
        ),
        (
            informed(host_requirements={"agent-run": Requirement(capabilities=("fly",))}),  # type: ignore[arg-type]
            (
                "info.host_requirements['agent-run'].capabilities has 'fly', "
                "which is none of after-turn, assemble-before-prompt, bootstrap, compact, "
                "maintain, runtime-llm-complete, thread-bootstrap-projection"
            ),
        ),
        (
            informed(host_requirements=["agent-run"]),
            "info.host_requirements is no mapping but a value of type 'list'",
        ),
        (
            informed(host_requirements={"agent-run": Requirement(capabilities=(), message=None)}),  # type: ignore[arg-type]
            "info.host_requirements['agent-run'].message is no string but None",
        ),
        (informed(transcript=None), "info.transcript is no Transcript but None"),
        (
            informed(transcript=TranscriptPromise(turn_advancement="often")),  # type: ignore[arg-type]
            "info.transcript.turn_advancement has 'often', which is none of atomic-idempotent-v1",
        ),
    ],
)
def test_a_defect_is_named(candidate, said):
    assert defects(candidate) == (said,)


def test_an_object_that_is_no_engine_lacks_everything():
    assert defects(object()) == (
        "'info' is missing",
        "'ingest' is missing",
        "'assemble' is missing",
        "'compact' is missing",
    )


def test_a_method_may_take_more_than_it_is_given_and_be_any_async_callable():
    class Called:
        async def __call__(self, given): ...

    async def bound(self, given, *, extra=1): ...

    assert defects(small(ingest=bound, maintain=Called())) == ()
    assert defects(small(ingest=staticmethod(functools.partial(bound, None)))) == ()


def test_a_power_that_is_none_is_not_there():
    taken_back = type("Less", (Mighty,), {"commit_turn": None, "tools": None})()
    assert defects(taken_back) == ()
    assert optional_powers(taken_back) == tuple(
        p for p in POWERS if p not in ("commit_turn", "tools")
    )


def test_powers_are_told_in_the_order_of_the_contract():
    assert (optional_powers(Small()), optional_powers(Mighty())) == ((), POWERS)


def test_only_commit_turn_earns_exactly_once():
    following = small(after_turn=Mighty.after_turn, ingest_batch=Mighty.ingest_batch)
    assert [guarantee(engine) for engine in (Small(), following, Mighty())] == [
        "at least once",
        "at least once",
        "exactly once",
    ]
    assert delivery_promise(Mighty()) == "every accepted turn advances it exactly once, in order"
    assert "at least once" in delivery_promise(Small())


JUNK = st.one_of(
    st.none(),
    st.integers(),
    st.text(),
    st.lists(st.integers()),
    st.dictionaries(st.text(), st.text()),
)


@given(
    st.dictionaries(st.sampled_from(EngineInfo.__struct_fields__), JUNK),
    st.dictionaries(st.sampled_from([*POWERS, "ingest", "assemble", "compact"]), JUNK),
)
def test_no_candidate_makes_the_check_raise(fields, parts):
    found = defects(small(info=msgspec.structs.replace(Small.info, **fields), **parts))
    assert all(isinstance(defect, str) and defect and "\n" not in defect for defect in found)
    replaced = [name for name, part in parts.items() if part is not None or name not in POWERS]
    assert len([each for each in found if not each.startswith("info")]) == len(replaced)

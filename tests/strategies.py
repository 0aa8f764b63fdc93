"""Random values: JSON, parts, items and logs, legal or not."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import strategies as st
from msgspec import Raw

from treadle.context.row import Row
from treadle.core.entries import Draft, Origin
from treadle.core.items import (
    Compaction,
    CustomToolCall,
    CustomToolCallOutput,
    EncryptedContent,
    ExecAction,
    FunctionCall,
    FunctionCallOutput,
    InputImage,
    InputText,
    Item,
    LocalShellCall,
    Message,
    OutputText,
    Part,
    Reasoning,
    ReasoningText,
    SummaryText,
    ToolSearchCall,
    ToolSearchOutput,
    Unknown,
    WebSearch,
    WebSearchCall,
    encode_item,
)

__all__ = [
    "bodies",
    "context_changes",
    "items",
    "json_values",
    "origins",
    "outputs",
    "rows",
    "texts",
]

texts = st.text(max_size=12)
"""Any text that UTF-8 can hold."""

json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(texts.filter(bool), inner, max_size=3)
    ),
    max_leaves=6,
)

call_ids = st.sampled_from(["a", "b", "c"])
"""Few enough that calls and outputs meet, double and miss each other."""

origins = st.sampled_from([None, Origin("openai", "responses"), Origin("acme", "responses")])

_ids = st.none() | st.sampled_from(["srv_1", "srv_2", "42", ""])
_extra = st.none() | st.dictionaries(
    st.sampled_from(["new_field", "later"]),
    json_values.map(lambda value: Raw(msgspec.json.encode(value))),
    min_size=1,
    max_size=2,
)
_strange_actions = st.builds(
    lambda members: Unknown(Raw(msgspec.json.encode({"type": "dream", **members}))),
    st.fixed_dictionaries({}, optional={"query": json_values}),
)
_searches: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.builds(WebSearch, query=st.none() | texts, extra=_extra),
    _strange_actions,
)
_strange = st.builds(
    lambda kind, members: Unknown(Raw(msgspec.json.encode({"type": kind, **members}))),
    st.sampled_from(["hologram", "function_call", "function_call_output", "message"]),
    st.fixed_dictionaries(
        {}, optional={"call_id": call_ids, "id": json_values, "output": json_values}
    ),
)

parts: st.SearchStrategy[Part] = st.one_of(
    st.builds(InputText, text=texts),
    st.builds(OutputText, text=texts, extra=_extra),
    st.builds(InputImage, image_url=st.just("data:image/png;base64,AAAA")),
    st.builds(EncryptedContent, encrypted_content=texts),
)
outputs = texts | st.lists(parts, max_size=2).map(tuple)

_calls: st.SearchStrategy[Item] = st.one_of(
    st.builds(FunctionCall, id=_ids, name=texts, arguments=texts, call_id=call_ids, extra=_extra),
    st.builds(CustomToolCall, id=_ids, name=texts, input=texts, call_id=call_ids),
    st.builds(
        LocalShellCall,
        id=_ids,
        call_id=st.none() | call_ids,
        status=st.just("completed"),
        action=st.builds(ExecAction, command=st.just(("ls",)), extra=_extra) | _strange_actions,
    ),
    st.builds(
        ToolSearchCall,
        call_id=st.none() | call_ids,
        execution=st.sampled_from(["client", "server"]),
        arguments=st.just(Raw(b"{}")),
    ),
)
_answers: st.SearchStrategy[Item] = st.one_of(
    st.builds(FunctionCallOutput, id=_ids, call_id=st.none() | call_ids, output=outputs),
    st.builds(CustomToolCallOutput, id=_ids, call_id=call_ids, output=outputs),
    st.builds(
        ToolSearchOutput,
        call_id=st.none() | call_ids,
        status=st.just("completed"),
        execution=st.sampled_from(["client", "server"]),
        tools=st.just(()),
    ),
)
_words: st.SearchStrategy[Item] = st.one_of(
    st.builds(
        Message,
        id=_ids,
        role=st.sampled_from(["user", "assistant", "developer"]),
        content=st.lists(parts, max_size=2).map(tuple),
        extra=_extra,
    ),
    st.builds(
        Reasoning,
        id=_ids,
        summary=st.lists(st.builds(SummaryText, text=texts), max_size=1).map(tuple),
        content=st.none() | st.lists(st.builds(ReasoningText, text=texts), max_size=1).map(tuple),
        encrypted_content=st.none() | texts,
    ),
    st.builds(Compaction, id=_ids, encrypted_content=texts),
    st.builds(WebSearchCall, id=_ids, status=st.just("completed"), action=_searches),
)

items: st.SearchStrategy[Item] = st.one_of(_words, _calls, _answers, _strange)
"""Any item, in any state of repair."""

bodies = items.map(encode_item)

rows: st.SearchStrategy[list[Row]] = st.lists(
    st.tuples(bodies, origins, st.integers(0, 2), st.integers(0, 2)), max_size=12
).map(
    lambda listed: [
        Row.of_draft(Draft(body=body, origin=origin, turn=turn, step=step, id=f"itm_{seq}"), seq)
        for seq, (body, origin, turn, step) in enumerate(listed, start=1)
    ]
)
"""A log nobody checked: orphans, doubles, foreign and broken items."""

context_changes = st.fixed_dictionaries(
    {},
    optional={
        "cwd": st.sampled_from(["/repo", "/elsewhere"]),
        "shell": st.sampled_from(["bash", "zsh"]),
        "approval_policy": st.sampled_from(["on-request", "never"]),
        "guidance": st.sampled_from([None, "Recall.", "Ask."]),
        "developer_instructions": st.sampled_from([None, "Be brief."]),
    },
)
"""What may be different at the next turn."""

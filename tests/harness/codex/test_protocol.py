from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest
from inline_snapshot import snapshot
from msgspec import Raw

from treadle.harness.codex.protocol import client_requests
from treadle.harness.codex.protocol.client_requests import (
    DynamicFunction,
    DynamicNamespace,
    StartThread,
    StartTurn,
    TextInput,
)
from treadle.harness.codex.protocol.notifications import (
    NOTIFICATIONS,
    UNWANTED,
    ErrorNotification,
    ItemCompletedNotification,
    ItemStartedNotification,
    TokenUsageNotification,
    parse_notification,
)
from treadle.harness.codex.protocol.server_requests import (
    SERVER_REQUESTS,
    CommandApprovalRequest,
    ToolCallRequest,
    parse_server_request,
)
from treadle.harness.codex.protocol.types import (
    AgentMessageItem,
    ClientRequest,
    CodexTurnError,
    CommandItem,
    CompactionItem,
    DynamicToolItem,
    FileChangeInfo,
    FileChangeItem,
    OtherItem,
    ReasoningItem,
    ThreadTokenUsage,
    TokenCounts,
    parse_item,
)
from treadle.prompt.codex_import import find_codex

from .real_servers import private_environ

VERSIONS = ("0.163.0", "0.166.0")


def captured(version: str) -> list[dict[str, Any]]:
    lines = Path(__file__).with_name(f"captured-{version}.jsonl").read_bytes().splitlines()
    return [msgspec.json.decode(line) for line in lines]


def params(version: str, method: str, item: str = "") -> bytes:
    for message in captured(version):
        given = message.get("params", {})
        if message["method"] == method and item in ("", given.get("item", {}).get("type")):
            return msgspec.json.encode(given)
    raise AssertionError(f"no {method} {item} was captured")


def completed(version: str, kind: str) -> Raw:
    read = parse_notification("item/completed", params(version, "item/completed", kind))
    assert isinstance(read, ItemCompletedNotification)
    return read.item


@pytest.mark.parametrize("version", VERSIONS)
def test_every_captured_message_is_read(version):
    for message in captured(version):
        given = msgspec.json.encode(message["params"])
        if "id" in message:
            assert isinstance(
                parse_server_request(message["method"], given), SERVER_REQUESTS[message["method"]]
            )
        else:
            kind = NOTIFICATIONS[message["method"]]
            assert isinstance(parse_notification(message["method"], given), kind)


@pytest.mark.parametrize("version", VERSIONS)
def test_captured_items_are_read(version):
    kinds = ("agentMessage", "reasoning", "commandExecution", "fileChange", "contextCompaction")
    read = [type(parse_item(completed(version, kind))) for kind in (*kinds, "dynamicToolCall")]
    assert read == [
        AgentMessageItem,
        ReasoningItem,
        CommandItem,
        FileChangeItem,
        CompactionItem,
        DynamicToolItem,
    ]


def test_an_item_keeps_what_a_host_is_told():
    change = parse_item(completed("0.163.0", "fileChange"))
    assert isinstance(change, FileChangeItem)
    assert change == FileChangeItem(
        id=change.id,
        status="completed",
        changes=(
            FileChangeInfo(path="/home/someone/w/a.txt", diff="hi\n", kind=Raw(b'{"type":"add"}')),
        ),
    )


def test_an_item_of_an_unknown_type_or_shape_is_no_error():
    assert [
        parse_item(b'{"type":"hologram","id":"h","light":1}'),
        parse_item(b'{"type":"commandExecution","id":"c","command":7}'),
        parse_item(b"[]"),
    ] == [
        OtherItem(type="hologram", id="h"),
        OtherItem(type="commandExecution", id="c"),
        OtherItem(),
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_usage_is_read_whole(version):
    read = parse_notification(
        "thread/tokenUsage/updated", params(version, "thread/tokenUsage/updated")
    )
    assert isinstance(read, TokenUsageNotification)
    assert read.token_usage.model_context_window == 258_400
    assert read.token_usage.last.cached_input_tokens == 0


def test_figures_the_server_does_not_give_are_unknown():
    usage = b'{"total":{"totalTokens":3},"last":{"totalTokens":3}}'
    tokens = TokenCounts(total_tokens=3)
    assert msgspec.json.decode(usage, type=ThreadTokenUsage) == ThreadTokenUsage(
        total=tokens, last=tokens
    )
    assert tokens.cached_input_tokens is None


@pytest.mark.parametrize(
    ("info", "kind", "status"),
    [
        (b'"contextWindowExceeded"', "contextWindowExceeded", None),
        (
            b'{"responseStreamDisconnected":{"httpStatusCode":502}}',
            "responseStreamDisconnected",
            502,
        ),
        (b'{"httpConnectionFailed":{"httpStatusCode":null}}', "httpConnectionFailed", None),
        (b'{"two":1,"names":2}', "", None),
        (b"null", "", None),
    ],
)
def test_a_failure_has_a_name_and_perhaps_a_status(info, kind, status):
    error = CodexTurnError(message="m", codex_error_info=Raw(info))
    assert (error.kind, error.http_status) == (kind, status)


def test_a_captured_failure_is_named():
    read = parse_notification("error", params("0.166.0", "error"))
    assert isinstance(read, ErrorNotification)
    assert (read.error.kind, read.will_retry) == ("contextWindowExceeded", False)


def test_asks_keep_what_is_passed_on_as_bytes():
    call = parse_server_request("item/tool/call", params("0.163.0", "item/tool/call"))
    assert isinstance(call, ToolCallRequest)
    assert (call.tool, bytes(call.arguments), call.namespace) == ("lookup", b'{"q":"x"}', None)
    method = "item/commandExecution/requestApproval"
    approval = parse_server_request(method, params("0.163.0", method))
    assert isinstance(approval, CommandApprovalRequest)
    assert (approval.kind, approval.command, approval.reason) == snapshot(
        ("command", "/bin/bash -lc 'touch yes'", "because")
    )


def test_fields_of_a_newer_server_are_ignored():
    given = b'{"threadId":"t","turnId":"u","item":{"id":"i"},"aura":"blue"}'
    assert parse_notification("item/started", given) == ItemStartedNotification(
        thread_id="t", turn_id="u", item=Raw(b'{"id":"i"}')
    )


def test_parameters_that_are_left_out_are_not_sent():
    tool = DynamicFunction(name="f", description="d", input_schema=Raw(b'{"type":"object"}'))
    start = StartThread(
        cwd="/w",
        base_instructions="",
        dynamic_tools=(tool, DynamicNamespace(name="n", description="e", tools=(tool,))),
        config={"model_context_window": 5},
        experimental_raw_events=True,
    )
    assert msgspec.json.encode(start).decode() == snapshot(
        '{"cwd":"/w","baseInstructions":"","config":{"model_context_window":5},"dynamicTools":[{"type":"function","name":"f","description":"d","inputSchema":{"type":"object"}},{"type":"namespace","name":"n","description":"e","tools":[{"type":"function","name":"f","description":"d","inputSchema":{"type":"object"}}]}],"experimentalRawEvents":true}'
    )
    assert msgspec.json.encode(StartTurn(thread_id="t", input=(TextInput(text="x"),))) == (
        b'{"threadId":"t","input":[{"type":"text","text":"x"}]}'
    )


def names(struct: type[Any]) -> set[str]:
    return {field.encode_name for field in msgspec.structs.fields(struct)}


@pytest.fixture(scope="module")
def schemas(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("schemas")
    arguments = ("app-server", "generate-json-schema", "--experimental", "--out", directory)
    environ = private_environ(directory) | {"CODEX_HOME": str(directory)}
    subprocess.run((find_codex(), *arguments), env=environ, check=True, capture_output=True)
    return directory


def methods(schemas: Path, file: str) -> dict[str, set[str]]:
    """The parameters of each method, as the installed binary describes them."""
    schema = msgspec.json.decode((schemas / f"{file}.json").read_bytes())
    known: dict[str, set[str]] = {}
    for message in schema["oneOf"]:
        given = message["properties"]
        name = given.get("params", {}).get("$ref", "").rpartition("/")[2]
        described = schema["definitions"].get(name, {})
        forms = (described, *described.get("oneOf", ()))
        known[given["method"]["enum"][0]] = {
            name for form in forms for name in form.get("properties", {})
        }
    return known


def test_the_installed_codex_knows_every_request_and_parameter(schemas: Path):
    known = methods(schemas, "ClientRequest")
    ours = [
        value
        for value in vars(client_requests).values()
        if isinstance(value, type)
        and issubclass(value, ClientRequest)
        and value is not ClientRequest
    ]
    assert len(ours) == 16
    assert {kind.method: names(kind) - known[kind.method] for kind in ours} == {
        kind.method: set() for kind in ours
    }


def test_the_installed_codex_knows_every_notification_and_ask(schemas: Path):
    known = methods(schemas, "ServerNotification") | methods(schemas, "ServerRequest")
    # Raw events are described in files of their own.
    for method, file in (
        ("rawResponseItem/completed", "RawResponseItemCompletedNotification"),
        ("rawResponse/completed", "RawResponseCompletedNotification"),
    ):
        described = msgspec.json.decode((schemas / f"v2/{file}.json").read_bytes())
        known[method] = set(described["properties"])
    ours: dict[str, type[Any]] = {**NOTIFICATIONS, **SERVER_REQUESTS}
    assert {method: names(kind) - known[method] for method, kind in ours.items()} == {
        method: set() for method in ours
    }
    assert set(UNWANTED) <= set(known)

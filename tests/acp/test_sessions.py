"""Sessions as an editor sees them, over the official client."""

from __future__ import annotations

import pytest
from acp.helpers import text_block

from acp import RequestError
from tests.acp.scenes import Editor, Place, run_command, until
from treadle.cli.run_options import RunOptions
from treadle.testing.script import Answer, Call, Tokens


async def test_a_prompt_is_answered_and_counted(tmp_path):
    place = Place(tmp_path)
    answer = Answer(text="Hello there.", usage=Tokens(input=900, output=7, cached=100))
    async with place.connect(answer) as (client, editor):
        session = await client.new_session(str(place.project))
        done = await client.prompt(session.session_id, [text_block("hi")])
    assert (done.stop_reason, editor.text) == ("end_turn", "Hello there.")
    assert done.usage is not None
    assert (done.usage.input_tokens, done.usage.output_tokens) == (900, 7)
    assert done.usage.cached_read_tokens == 100
    assert editor.of("usage_update")[-1].size > editor.of("usage_update")[-1].used > 0
    assert editor.of("session_info_update")[-1].title == "hi"


async def test_what_the_agent_can_do_is_told(tmp_path):
    agent = Place(tmp_path, RunOptions(model="openai:gpt-5.5")).agent()
    told = (await agent.initialize(1)).model_dump(exclude_none=True)
    assert told["protocol_version"] == 1
    assert (told["agent_info"]["name"], told["agent_info"]["version"]) == ("treadle", "1.2.3")
    able = told["agent_capabilities"]
    assert able["load_session"]
    assert able["prompt_capabilities"] == {"image": True, "audio": False, "embedded_context": True}
    named = set(able["session_capabilities"])
    assert named == {"list", "delete", "additional_directories", "fork", "resume", "close"}
    assert [each["vars"][0]["name"] for each in told["auth_methods"]] == ["OPENAI_API_KEY"]


async def test_no_login_is_offered_for_a_model_that_needs_none(tmp_path):
    told = await Place(tmp_path).agent(Answer(text="hi")).initialize(1)
    assert told.auth_methods == []


async def test_a_model_without_a_key_demands_one_by_name(tmp_path, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    place = Place(tmp_path, RunOptions(model="openai:gpt-5.5"))
    async with place.connect() as (client, _):
        session = await client.new_session(str(place.project))
        with pytest.raises(RequestError, match="treadle auth add openai") as found:
            await client.prompt(session.session_id, [text_block("hi")])
        assert found.value.code == -32000
        with pytest.raises(RequestError, match="OPENAI_API_KEY is not set"):
            await client.authenticate("environment-key")
        monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-for-the-test")
        await client.authenticate("environment-key")


async def test_a_loaded_session_tells_what_people_are_shown(tmp_path):
    place = Place(tmp_path)
    script = (run_command("echo out"), Answer(text="It said out."), Answer(text="Yes."))
    async with place.connect(*script) as (client, first):
        session = await client.new_session(str(place.project))
        await client.prompt(session.session_id, [text_block("run it")])
        assert first.of("tool_call_update")[-1].status == "completed"
    async with place.connect(script[-1]) as (client, editor):
        loaded = await client.load_session(str(place.project), session.session_id)
        assert [each.session_update for each in editor.updates[:4]] == [
            "user_message_chunk", "tool_call", "tool_call_update", "agent_message_chunk",
        ]  # fmt: skip
        assert editor.updates[0].content.text == "run it"
        assert editor.of("tool_call")[0].raw_input == {"cmd": "echo out", "login": False}
        assert "out" in editor.of("tool_call_update")[0].content[0].content.text
        assert {each.id for each in loaded.config_options} >= {"model", "mode", "engine"}
        await client.prompt(session.session_id, [text_block("sure?")])
        assert editor.text.endswith("Yes.")


async def test_a_resumed_session_goes_on_without_its_past(tmp_path):
    place = Place(tmp_path)
    async with place.connect(Answer(text="One.")) as (client, _):
        session = await client.new_session(str(place.project))
        await client.prompt(session.session_id, [text_block("first")])
    async with place.connect(Answer(text="Two.")) as (client, editor):
        await client.resume_session(session.session_id, str(place.project))
        await client.prompt(session.session_id, [text_block("second")])
        assert editor.text == "Two."


async def test_a_thread_that_somebody_else_writes_is_refused_with_their_name(tmp_path):
    place = Place(tmp_path)
    async with place.connect(Answer(text="One.")) as (client, _):
        session = await client.new_session(str(place.project))
        await client.prompt(session.session_id, [text_block("first")])
        async with place.connect(Answer(text="One.")) as (other, _):
            with pytest.raises(RequestError, match=r"is being written by process \d+ on"):
                await other.load_session(str(place.project), session.session_id)


async def test_sessions_are_listed_by_directory_forked_and_closed(tmp_path):
    place = Place(tmp_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    async with place.connect(Answer(text="One.")) as (client, editor):
        session = await client.new_session(str(place.project))
        await client.prompt(session.session_id, [text_block("tell me")])
        listed = await client.list_sessions(cwd=str(place.project))
        assert [(each.session_id, each.title) for each in listed.sessions] == [
            (session.session_id, "tell me")
        ]
        assert (await client.list_sessions(cwd=str(elsewhere))).sessions == []
        fork = await client.fork_session(session.session_id, str(place.project))
        assert fork.session_id != session.session_id
        await client.prompt(fork.session_id, [text_block("and?")])
        assert editor.text == "One.One."
        await client.close_session(session.session_id)
        with pytest.raises(RequestError, match="session/load opens one"):
            await client.prompt(session.session_id, [text_block("still there?")])


async def test_a_session_without_a_word_leaves_no_thread(tmp_path):
    place = Place(tmp_path)
    async with place.connect(Answer(text="One.")) as (client, _):
        session = await client.new_session(str(place.project))
        await client.set_config_option("engine", session.session_id, "lossless")
        await client.close_session(session.session_id)
        with pytest.raises(RequestError, match="no thread"):
            await client.load_session(str(place.project), session.session_id)


async def test_settings_are_chosen_for_the_next_turn(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-for-the-test")
    place = Place(tmp_path, RunOptions(sandbox="workspace-write", approval="on-request"))
    async with place.connect(Answer(text="One.")) as (client, editor):
        session = await client.new_session(str(place.project))
        options = {each.id: each for each in session.config_options}
        assert options["mode"].current_value == "workspace"
        assert options["engine"].current_value == "linear"
        changed = await client.set_config_option("mode", session.session_id, "read-only")
        assert {each.id: each.current_value for each in changed.config_options}[
            "mode"
        ] == "read-only"
        assert [each.current_mode_id for each in editor.of("current_mode_update")] == ["read-only"]
        changed = await client.set_config_option("engine", session.session_id, "lossless")
        values = {each.id: each.current_value for each in changed.config_options}
        assert (values["engine"], values["mode"]) == ("lossless", "read-only")
        # Models are called as programs that evaluate agents call them.
        assert values["model"] == f"scripted/{tmp_path / 'script.jsonl'}"
        changed = await client.set_config_option("model", session.session_id, "openai/gpt-5.5")
        values = {each.id: each.current_value for each in changed.config_options}
        assert (values["model"], values["engine"]) == ("openai/gpt-5.5", "lossless")
        assert values["thought_level"]
        with pytest.raises(RequestError, match="choose one of"):
            await client.set_config_option("mode", session.session_id, "everything")
        with pytest.raises(RequestError, match="no setting 'colour'"):
            await client.set_config_option("colour", session.session_id, "red")


async def test_wrong_requests_name_their_cause(tmp_path):
    place = Place(tmp_path)
    async with place.connect(Answer(text="One.")) as (client, _):
        with pytest.raises(RequestError, match="not the absolute path of a directory"):
            await client.new_session("relative")
        with pytest.raises(RequestError, match="not the absolute path of a directory"):
            await client.new_session(str(place.project / "missing"))
        with pytest.raises(RequestError, match="no thread 'thr_none'"):
            await client.load_session(str(place.project), "thr_none")
        session = await client.new_session(str(place.project))
        with pytest.raises(RequestError, match="input is empty"):
            await client.prompt(session.session_id, [text_block("  ")])


async def test_a_failed_turn_is_an_error_with_its_reason(tmp_path):
    place = Place(tmp_path)
    async with place.connect(Answer(text="only one")) as (client, _):
        session = await client.new_session(str(place.project))
        await client.prompt(session.session_id, [text_block("one")])
        with pytest.raises(RequestError, match="script"):
            await client.prompt(session.session_id, [text_block("two")])


async def test_two_sessions_run_side_by_side(tmp_path):
    import asyncio

    place = Place(tmp_path)
    async with place.connect(run_command("sleep 0.1"), Answer(text="done.")) as (client, editor):
        one = await client.new_session(str(place.project))
        two = await client.new_session(str(place.project))
        ended = await asyncio.gather(
            client.prompt(one.session_id, [text_block("a")]),
            client.prompt(two.session_id, [text_block("b")]),
            client.prompt(two.session_id, [text_block("c")]),
            return_exceptions=True,
        )
        assert [getattr(each, "stop_reason", None) for each in ended[:2]] == ["end_turn"] * 2
        assert editor.text == "done.done."


async def test_commands_of_the_user_are_announced_and_expanded(tmp_path):
    place = Place(tmp_path)
    (place.home / "commands").mkdir()
    (place.home / "commands" / "greet.md").write_text(
        "---\ndescription: says hello\n---\nSay hello to $ARGUMENTS.\n"
    )
    async with place.connect(Answer(text="Hello, Ada.")) as (client, editor):
        session = await client.new_session(str(place.project))
        told = await until(lambda: next(iter(editor.of("available_commands_update")), None))
        names = {each.name: each.description for each in told.available_commands}
        assert names["greet"] == "says hello"
        assert {"compact", "init"} <= set(names)
        await client.prompt(session.session_id, [text_block("/greet Ada")])
        await client.close_session(session.session_id)
        await client.load_session(str(place.project), session.session_id)
        said = editor.of("user_message_chunk")[-1].content.text
    assert said == "Say hello to Ada."


async def test_skills_are_announced_as_commands_and_bring_their_texts(tmp_path):
    place = Place(tmp_path)
    (place.home / "skills" / "weave").mkdir(parents=True)
    (place.home / "skills" / "weave" / "SKILL.md").write_text(
        "---\nname: weave\ndescription: how cloth is woven\n---\nWarp first.\n"
    )
    async with place.connect(Answer(when="Warp first.", text="Woven.")) as (client, editor):
        session = await client.new_session(str(place.project))
        told = await until(lambda: next(iter(editor.of("available_commands_update")), None))
        assert "weave" in {each.name for each in told.available_commands}
        await client.prompt(session.session_id, [text_block("/weave a cloth")])
    assert editor.text == "Woven."


async def test_the_models_plan_is_told(tmp_path):
    place = Place(tmp_path)
    steps = [{"step": "look", "status": "completed"}, {"step": "mend", "status": "in_progress"}]
    plan = Answer(calls=(Call(name="update_plan", arguments={"plan": steps}),))
    async with place.connect(plan, Answer(text="ok")) as (client, editor):
        session = await client.new_session(str(place.project))
        await client.prompt(session.session_id, [text_block("go")])
    told = editor.of("plan")[0].entries
    assert [(each.content, each.status) for each in told] == [
        ("look", "completed"), ("mend", "in_progress"),
    ]  # fmt: skip


async def test_a_patch_is_told_as_differences_of_files(tmp_path):
    place = Place(tmp_path)
    (place.project / "a.py").write_text("one\ntwo\nthree\n")
    patch = (
        "*** Begin Patch\n*** Update File: a.py\n@@\n one\n-two\n+2\n three\n"
        "*** Add File: b.py\n+new\n*** End Patch"
    )
    call = run_command(f"apply_patch <<'EOF'\n{patch}\nEOF\n")
    async with place.connect(call, Answer(text="patched")) as (client, editor):
        session = await client.new_session(str(place.project))
        await client.prompt(session.session_id, [text_block("patch it")])
    started = editor.of("tool_call")[0]
    assert started.kind == "edit"
    assert [each.path for each in started.locations] == [
        str(place.project / "a.py"), str(place.project / "b.py"),
    ]  # fmt: skip
    told = [(each.old_text, each.new_text) for each in started.content]
    assert told == [("one\ntwo\nthree\n", "one\n2\nthree\n"), (None, "new\n")]
    assert editor.of("tool_call_update")[-1].status == "completed"
    assert (place.project / "a.py").read_text() == "one\n2\nthree\n"


async def test_commands_show_their_output_while_they_run(tmp_path):
    place = Place(tmp_path)
    script = (run_command("echo first; sleep 0.4; echo second"), Answer(text="ok"))
    async with place.connect(*script) as (client, editor):
        session = await client.new_session(str(place.project))
        await client.prompt(session.session_id, [text_block("go")])
    states = [each.status for each in editor.of("tool_call_update")]
    assert states[-1] == "completed"
    assert "in_progress" in states
    assert "first" in editor.of("tool_call_update")[0].content[-1].content.text


async def test_an_editor_hears_nothing_of_a_known_secret(tmp_path, monkeypatch):
    monkeypatch.setenv("ACME_API_KEY", "acme-1234567890-planted")
    place = Place(tmp_path)
    script = (run_command("echo acme-1234567890-planted"), Answer(text="ok"))
    editor = Editor()
    async with place.connect(*script, editor=editor) as (client, _):
        session = await client.new_session(str(place.project))
        await client.prompt(session.session_id, [text_block("go")])
    assert "planted" not in repr(editor.updates)

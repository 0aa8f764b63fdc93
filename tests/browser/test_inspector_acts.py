"""The inspector while something happens: turns elsewhere, turns here, and a thread as a file."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from .inspector import SCREENSHOTS, Inspected, look_at, served
from .sight import FIND_FAINT, FIND_NAMELESS, FIND_RUN, FIND_WIDE

pytestmark = pytest.mark.timeout(600)  # the first run may download a Chromium

WAITING = "echo begun; until [ -e go ]; do sleep 0.05; done; echo done"
STALL = {"events": 12}
"""Where an answer stops until nobody listens any more."""
CONFIG = 'sandbox = "danger-full-access"\napproval = "untrusted"\n'


def scripted(place: Path, *answers: dict[str, object]) -> str:
    """The name of a model that gives these answers."""
    file = place / "script.jsonl"
    file.write_text("".join(f"{json.dumps(answer)}\n" for answer in answers))
    return f"scripted:{file}"


def run(command: str) -> dict[str, object]:
    arguments = {"cmd": command, "login": False, "yield_time_ms": 30_000}
    return {"name": "exec_command", "arguments": arguments}


def test_a_turn_of_another_process_streams_in(chromium: Browser, tmp_path: Path):
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    project.mkdir()
    model = scripted(tmp_path, {"calls": [run(WAITING)]}, {"text": "It has come."})
    command = [sys.executable, "-m", "treadle", "--home", str(home), "exec", "Wait for it."]
    with served(home) as link, look_at(chromium, link) as seen:
        page = seen.page
        expect(page.get_by_text("No thread yet")).to_be_visible()
        turn = subprocess.Popen(
            [*command, "--model", model, "--yolo"], cwd=project, stdout=-3, stderr=-3
        )
        # It appears in the list, and in the thread, by itself.
        thread = page.locator(".thread-link")
        expect(thread).to_contain_text("running")
        expect(thread).to_contain_text("written by treadle, pid")
        thread.click()
        page.locator('#thread-tabs [data-view="transcript"]').click()
        expect(page.locator('article[data-kind="call"]')).to_contain_text("until [ -e go ]")
        expect(page.locator("#live-turn")).to_contain_text("A turn is running")
        expect(page.locator(".thread-head .badge")).to_have_text("running")
        (project / "go").touch()
        expect(page.locator('article[data-kind="assistant"]')).to_contain_text("It has come.")
        expect(page.locator(".thread-head .badge")).to_have_count(0)
        expect(page.locator("#live-turn")).to_be_empty()
        expect(page.locator("article").last).to_be_in_viewport()
        assert turn.wait(20) == 0
        assert seen.problems == []


def test_the_whole_agent_is_in_the_browser_with_control(chromium: Browser, tmp_path: Path):
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    project.mkdir()
    (home / "config.toml").write_text(CONFIG)
    model = scripted(
        tmp_path,
        # Each turn is given the script from its start.
        {"when": "Make it.", "calls": [run("touch made")]},
        {"when": "Make another.", "calls": [run("touch never")]},
        {"when": "one is enough", "text": "I leave it."},
        {"when": "Wait.", "calls": [run("until [ -e go ]; do sleep 0.05; done")]},
        {"when": "Be quick.", "text": "I have read what you said."},
        {"when": "Process exited", "text": "It is made."},
        {"when": "Think.", "text": "I think for as long as you let me. " * 4, "stall": STALL},
        {"when": "And here?", "text": "Here, too."},
    )
    with served(home, "--control") as link, look_at(chromium, link) as seen:
        page = seen.page
        page.keyboard.press("n")
        page.get_by_label("Directory").fill(str(project))
        page.get_by_label("Model").fill(model)
        page.get_by_label("What should it do?").fill("Make it.")
        page.locator("#new-start").click()
        # An approval is asked for where one talks, and answered there.
        question = page.locator("[data-question]")
        expect(question).to_contain_text("touch made")
        assert not (project / "made").exists()
        page.screenshot(path=SCREENSHOTS / "inspector-approval-desk-light.png")
        for check in (FIND_WIDE, FIND_NAMELESS, FIND_FAINT, FIND_RUN):
            assert seen.say(check) == []
        question.get_by_role("button", name="Approve once").click()
        expect(page.locator('article[data-kind="assistant"]')).to_contain_text("It is made.")
        # The end is in sight, though the question has pushed it away in between.
        expect(page.locator("article").last).to_be_in_viewport()
        assert (project / "made").exists()
        # A refusal with its reason, which the model reads.
        tell(page, "Make another.")
        question.get_by_label("Why not").fill("one is enough")
        question.get_by_role("button", name="Refuse").click()
        expect(page.locator("article").filter(has_text="I leave it.")).to_be_visible()
        expect(page.locator('article[data-kind="output"]').last).to_contain_text("one is enough")
        assert not (project / "never").exists()
        steer(page, project)
        interrupt(page)
        rewind_and_fork(page)
        assert seen.problems == []


def tell(page: Page, text: str) -> None:
    expect(page.locator("#composer")).to_have_attribute("data-running", "false")
    page.locator("#say").fill(text)
    page.keyboard.press("Control+Enter")


def steer(page: Page, project: Path) -> None:
    """Say something while a turn runs."""
    tell(page, "Wait.")
    page.get_by_role("button", name="Approve once").click()
    expect(page.locator("#send")).to_have_text("Steer")
    page.locator("#say").fill("Be quick.")
    page.locator("#send").click()
    expect(page.locator("#say")).to_have_value("")
    (project / "go").touch()
    expect(page.locator("article").filter(has_text="I have read what you said.")).to_be_visible()
    expect(page.locator('article[data-kind="user"]').filter(has_text="Be quick.")).to_be_visible()


def interrupt(page: Page) -> None:
    """End a turn in the middle of an answer, which streams in over the width of the page."""
    tell(page, "Think.")
    said = page.locator('[data-live="text"] .said')
    expect(said).to_contain_text("as long as")
    expect(said).to_be_in_viewport()
    box = said.bounding_box()
    assert box is not None
    assert box["width"] > 200
    page.locator("#interrupt").click()
    expect(page.locator('.turn-mark[data-turn="4"]')).to_contain_text("interrupted")
    expect(page.locator("#composer")).to_have_attribute("data-running", "false")


def rewind_and_fork(page: Page) -> None:
    """Go back to before the fourth turn, and go on from before the second in another thread."""
    page.locator('.turn-mark[data-turn="4"] [data-act="rewind"]').click()
    page.locator('[data-act="rewind-conversation"]').click()
    expect(page.locator('article[data-visible="false"]').first).to_be_visible()
    here = page.url
    page.locator('.turn-mark[data-turn="2"] [data-act="fork"]').click()
    page.get_by_label("Its name").fill("The other way")
    page.locator('[data-act="fork-now"]').click()
    expect(page.locator("#thread-title")).to_have_text("The other way")
    assert page.url != here
    tell(page, "And here?")
    expect(page.locator("article").filter(has_text="Here, too.")).to_be_visible()


@pytest.mark.parametrize("size", ["desk", "phone"])
def test_an_exported_thread_needs_no_server(
    chromium: Browser, inspected: Inspected, tmp_path: Path, size: str
):
    hostile = next(name for name in inspected.threads if name.startswith("<script>"))
    name = "Mend the cache key" if size == "desk" else hostile
    file = tmp_path / "thread.html"
    command = [sys.executable, "-m", "treadle", "--home", str(inspected.home), "web", "export"]
    subprocess.run([*command, inspected.threads[name], "-o", str(file)], check=True)
    text = file.read_text()
    assert not re.search(r"""(?:src|href)=["']?(?:https?:)?//""", text)
    with look_at(chromium, file.as_uri(), size, offline=True) as seen:
        asked: list[str] = []
        seen.page.on("request", lambda request: asked.append(request.url))
        wrong: list[str] = []
        tabs = seen.page.locator("#thread-tabs a")
        expect(tabs).to_have_count(7)
        for tab in [each.get_attribute("data-view") for each in tabs.all()]:
            seen.page.locator(f'#thread-tabs [data-view="{tab}"]').click()
            seen.arrive(str(tab))
            for check in (FIND_WIDE, FIND_NAMELESS, FIND_FAINT):
                wrong += [f"{tab}: {each}" for each in seen.say(check)]
            expect(seen.page.locator('[data-state="error"]')).to_have_count(0)
        last = 13 if size == "desk" else 2
        seen.open("threads", inspected.threads[name], "requests", last)
        seen.page.locator("#rows .line-button").first.click()
        expect(seen.page.locator("dialog pre")).to_contain_text("model")
        seen.page.keyboard.press("Escape")
        seen.page.locator("#raw").click()
        expect(seen.page.locator("dialog pre")).to_contain_text('"model"')
        seen.page.keyboard.press("Escape")
        seen.page.locator("#to-diff").click()
        expect(seen.page.locator("#diff-reason")).to_be_visible()
        assert seen.say("window.pwned") is None
        seen.page.screenshot(path=SCREENSHOTS / f"inspector-export-{size}-light.png")
        assert wrong == []
        assert seen.problems == []
        assert asked == []

"""The inspector as people use it: in Chromium, against threads that were run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from .inspector import LONG, SCREENSHOTS, Inspected, Look, look_at, served
from .sight import FIND_CROWDED, FIND_FAINT, FIND_NAMELESS, FIND_RUN, FIND_WIDE

pytestmark = pytest.mark.timeout(600)  # the first run may download a Chromium

MENDED = "Mend the cache key"
Open = Callable[..., Look]


@pytest.fixture(scope="module")
def link(inspected: Inspected) -> Iterator[str]:
    with served(inspected.home) as link:
        yield link


@pytest.fixture
def look(chromium: Browser, link: str) -> Iterator[Open]:
    """Open the inspector; the page must have met no problem when the test ends."""
    with ExitStack() as stack:
        opened: list[Look] = []

        def open_it(size: str = "desk", scheme: Any = "light", **options: Any) -> Look:
            opened.append(stack.enter_context(look_at(chromium, link, size, scheme, **options)))
            return opened[-1]

        yield open_it
        assert [each.problems for each in opened] == [[] for _ in opened]


def shoot(look: Look, name: str) -> None:
    look.page.screenshot(path=SCREENSHOTS / f"inspector-{name}.png")


@pytest.mark.parametrize(("size", "scheme"), [("desk", "light"), ("phone", "dark")])
def test_every_view_can_be_read(look: Open, inspected: Inspected, size: str, scheme: str):
    seen = look(size, scheme)
    wrong: list[str] = []
    for name, parts, query, wanted in views(inspected):
        seen.open(*parts, **query)
        assert seen.view == name.partition("-")[0]
        expect(seen.page.locator(wanted).first).to_be_visible()
        for check in (FIND_WIDE, FIND_CROWDED, FIND_NAMELESS, FIND_FAINT, FIND_RUN):
            wrong += [f"{name}: {each}" for each in seen.say(check)]
        shoot(seen, f"{name}-{size}-{scheme}")
    assert wrong == []


def views(inspected: Inspected) -> Iterator[tuple[str, tuple[object, ...], dict[str, Any], str]]:
    """Every view: its name, its address, and something that must be in it."""
    threads = inspected.threads
    mended = ("threads", threads[MENDED])
    lossless = next(name for name in threads if name.startswith("tell of 0"))
    yield "threads", (), {}, f'[data-thread="{threads[MENDED]}"]'
    yield "recall", (), {"q": "stale prefix"}, f'.hit[data-thread="{threads[MENDED]}"] mark'
    yield "ledger", mended, {}, '#timeline [data-request="9"][data-reason="compaction"]'
    for name, words in (
        ("How is the weather?", "Codex runs"),
        ("why does the mill stop?", "Imported"),
    ):
        yield f"ledger-{words}", ("threads", threads[name]), {}, f'#not-known:has-text("{words}")'
    yield "request", (*mended, "requests", 9), {}, 'tr[data-part="summary"]'
    yield "diff", (*mended, "requests", 8, "diff", 9), {}, '[data-op="added"] [data-line="+"]'
    yield "window", (*mended, "window"), {}, '#series [data-kind="images"]'
    yield "summaries", ("threads", threads[lossless], "summaries"), {}, '#dag [data-in-view="true"]'
    yield "transcript", (*mended, "transcript"), {"seq": 18}, '[data-file="src/cache.py"] .add'
    rolled = ("threads", threads["Which structure?"], "transcript")
    yield "transcript-rolled", rolled, {}, 'article[data-visible="false"] .said'
    yield "state", (*mended, "state"), {}, 'li[data-fragment="agents_md"]'
    release = threads["Prepare the release"]
    yield "agents", ("threads", release, "agents"), {}, "#agents li li[data-agent]"
    yield "plan", (*mended, "plan"), {}, '[data-domain="tools"]'
    codex = ("threads", threads["How is the weather?"], "plan")
    yield "plan-codex", codex, {}, '[data-domain="harness"]:has-text("codex")'
    forks = threads["Which structure, with forks?"], threads["Which structure?"]
    yield "compare", ("threads", forks[0], "compare", forks[1]), {}, '[data-side="a"] .answer'


def test_the_timeline_is_read_with_the_pointer_and_with_keys(look: Open, inspected: Inspected):
    seen = look()
    page, facts = seen.page, seen.page.locator("#request-facts")
    seen.open("threads", inspected.threads[MENDED])
    expect(facts).to_contain_text("Request 13")
    page.locator('#timeline [data-request="11"]').hover()
    expect(facts).to_contain_text("Request 11")
    expect(facts).to_contain_text("another model")
    page.mouse.move(0, 0)
    expect(facts).to_contain_text("Request 13")
    page.locator('#timeline [data-request="13"]').focus()
    page.keyboard.press("Home")
    expect(facts).to_contain_text("Request 1")
    for _ in range(8):
        page.keyboard.press("ArrowRight")
    expect(facts).to_contain_text("the conversation was compacted into a summary")
    focused = page.locator("#timeline :focus")
    assert "prefix broke at" in (focused.get_attribute("aria-label") or "")
    page.keyboard.press("Enter")
    seen.arrive("request")
    assert page.evaluate("location.hash").endswith("/requests/9")
    page.keyboard.press("v")
    expect(page.locator("#verdict")).to_have_attribute("data-same", "true")
    page.keyboard.press("j")
    expect(page.locator("dialog pre")).to_contain_text('"model"')
    page.keyboard.press("Escape")
    expect(page.locator("dialog")).to_have_count(0)
    page.keyboard.press("ArrowLeft")
    expect(page.get_by_role("heading", name="Request 8")).to_be_visible()
    page.keyboard.press("c")
    seen.arrive("diff")
    expect(page.locator("#diff-reason")).to_contain_text("The prefix holds")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#diff-reason")).to_contain_text("compacted")


def test_everything_is_reached_without_a_mouse(look: Open, inspected: Inspected):
    seen = look()
    page, keyboard = seen.page, seen.page.keyboard
    keyboard.press("Tab")
    expect(page.locator("#skip")).to_be_focused()
    keyboard.press("Enter")
    keyboard.press("Tab")
    expect(page.locator(".thread-link").first).to_be_focused()
    keyboard.press("/")
    keyboard.type("picture")
    keyboard.press("Enter")
    hit = page.locator(f'.hit[data-thread="{inspected.threads[MENDED]}"]').first
    expect(hit).to_be_visible()
    hit.focus()
    keyboard.press("Enter")
    here = page.locator("article.here")
    expect(here).to_be_visible()
    before = int(here.get_attribute("data-seq") or 0)
    expect(page.locator(f'article[data-seq="{before}"] img')).to_be_visible()
    keyboard.press("j")
    expect(here).to_have_attribute("data-seq", str(before + 1))
    keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_contain_text("the next entry")
    keyboard.press("Escape")
    expect(page.locator("dialog")).to_have_count(0)
    theme = page.locator("html")
    expect(theme).to_have_attribute("data-theme", "light")
    keyboard.press("d")
    expect(theme).to_have_attribute("data-theme", "dark")
    page.locator('#thread-tabs [data-view="summaries"]').focus()
    keyboard.press("Enter")
    expect(page.get_by_text("No summary yet")).to_be_visible()
    lossless = next(name for name in inspected.threads if name.startswith("tell of 0"))
    seen.open("threads", inspected.threads[lossless], "summaries")
    page.locator('#dag [tabindex="0"]').focus()
    keyboard.press("ArrowDown")
    keyboard.press("Enter")
    sheet = page.get_by_role("dialog", name="Summary")
    expect(sheet.locator("#covered li").first).to_be_visible()
    keyboard.press("Escape")
    expect(page.locator("dialog")).to_have_count(0)
    expect(page.locator("#dag :focus")).to_have_count(1)
    page.locator("#dag-request").focus()
    keyboard.press("Home")
    expect(page.locator('#dag [data-in-view="true"]')).to_have_count(0)
    keyboard.press("t")
    expect(page.get_by_role("heading", name="Threads")).to_be_visible()


def test_every_view_of_a_thread_is_opened_with_a_key(look: Open, inspected: Inspected):
    seen = look()
    seen.open("threads", inspected.threads[MENDED])
    tabs = seen.page.locator("#thread-tabs a[data-view]")
    views = [str(tab.get_attribute("data-view")) for tab in tabs.all()]
    assert len(views) > 5
    for view in views:
        tab = seen.page.locator(f'#thread-tabs a[data-view="{view}"]')
        tab.focus()
        seen.page.keyboard.press("Enter")
        expect(tab).to_have_attribute("aria-current", "page")
        seen.arrive(view)


def test_text_of_others_stays_text_wherever_it_is_shown(look: Open, inspected: Inspected):
    name = next(name for name in inspected.threads if name.startswith("<script>"))
    thread = inspected.threads[name]
    seen = look()
    wrong: list[str] = []
    places: list[tuple[tuple[object, ...], dict[str, Any]]] = [((), {}), ((), {"q": "pwned"})]
    tabs = ("ledger", "transcript", "window", "summaries", "state", "agents", "plan")
    places += [(("threads", thread, tab), {}) for tab in tabs]
    places += [(("threads", thread, "requests", 2), {})]
    places += [(("threads", thread, "requests", 1, "diff", 2), {})]
    places += [(("threads", thread, "compare", inspected.threads[MENDED]), {})]
    for parts, query in places:
        seen.open(*parts, **query)
        wrong += [f"{parts} {each}" for each in seen.say(FIND_RUN)]
        assert "<script>window.pwned = 1</script>" in seen.page.locator("body").inner_text()
    seen.open("threads", thread, "transcript")
    page = seen.page
    said = page.locator('[data-kind="user"]')
    # What one cannot see is named; what would turn the line round turns nothing.
    for mark in ("⟨RLO⟩", "⟨PDF⟩", "⟨ESC⟩", "⟨LS⟩"):
        expect(said).to_contain_text(mark)
    assert "\u202e" not in page.locator("body").inner_text()
    page.locator('[data-kind="output"] [data-act="whole"]').click()
    expect(page.locator("dialog pre")).to_contain_text("AAAA")
    page.keyboard.press("Escape")
    for details in page.locator('[data-act="details"]').all()[4:9]:
        details.click()
        wrong += seen.say(FIND_RUN)
        page.keyboard.press("Escape")
    assert wrong == []
    assert "Bearer abcdef" not in page.content()


def test_of_requests_that_codex_sent_no_bytes_are_claimed(look: Open, inspected: Inspected):
    seen = look()
    seen.open("threads", inspected.threads["How is the weather?"], "requests", 2)
    seen.page.keyboard.press("v")
    expect(seen.page.locator("#verdict")).to_contain_text("is what was noted")
    seen.page.keyboard.press("j")
    expect(seen.page.locator("dialog")).to_contain_text("as the log represents it")


def test_without_control_the_page_offers_nothing_that_acts(look: Open, inspected: Inspected):
    thread = inspected.threads[MENDED]
    seen = look()
    seen.open("threads", thread, "transcript")
    for name in ("#composer", "#new-thread", '[data-act="rewind"]', '[data-act="fork"]'):
        expect(seen.page.locator(name)).to_have_count(0)
    refused = seen.say(
        f"""fetch('/api/threads/{thread}/interrupt', {{
            method: 'POST', body: '{{}}',
            headers: {{'Content-Type': 'application/json', 'X-Treadle': '1'}},
        }}).then(told => told.status)"""
    )
    assert refused == 403
    assert len(seen.problems) == 1
    seen.problems.clear()


def test_a_thread_that_there_is_not_is_told_with_the_next_step(look: Open):
    seen = look("phone")
    seen.open("threads", "thr_nothing")
    assert seen.view == "missing"
    expect(seen.page.get_by_role("alert")).to_contain_text("lists those that exist")
    expect(seen.page.locator("#lost")).to_have_count(0)
    assert seen.say(FIND_WIDE) == []
    assert [each.rpartition(": ")[2] for each in seen.problems] == ["404"]
    seen.problems.clear()


def test_what_a_thread_cost_is_shown_as_soon_as_it_is_counted(
    chromium: Browser, inspected: Inspected
):
    # A server that has counted nothing yet, and a link that leads straight to a thread.
    with served(inspected.home) as link:
        way = f"{link}&/threads/{inspected.threads[MENDED]}"
        with look_at(chromium, way) as seen:
            expect(seen.page.locator("#totals")).to_contain_text("$")
            expect(seen.page.locator(".thread-head .facts")).to_contain_text("$")


def test_a_thread_of_a_hundred_thousand_entries_is_read_a_screen_at_a_time(
    look: Open, inspected: Inspected
):
    seen = look()
    page, thread = seen.page, inspected.threads["A long thread"]
    bodies: list[int] = []
    # The header, not the body: the page may be closed while a body is asked for.
    page.on("response", lambda told: bodies.append(int(told.headers.get("content-length", 0))))
    seen.open("threads", thread)
    expect(page.locator("#overview")).to_be_visible()
    assert seen.say(FIND_CROWDED) == []
    bars = page.locator("#timeline [data-request]")
    assert bars.count() <= 160
    last = int(bars.last.get_attribute("data-request") or 0)
    assert last > LONG / 5
    page.locator("#overview").focus()
    page.keyboard.press("Home")
    expect(page.locator('#timeline [data-request="1"]')).to_be_visible()
    page.locator("#overview").click(position={"x": 500, "y": 20})
    expect(page.locator('#timeline [data-request="1"]')).to_have_count(0)
    seen.open("threads", thread, "transcript", seq=LONG // 2)
    expect(page.locator(f'article[data-seq="{LONG // 2}"]')).to_be_in_viewport()
    assert page.locator("article").count() < 300
    page.keyboard.press("End")
    expect(page.locator("article").last).to_be_in_viewport()
    assert int(page.locator("article").last.get_attribute("data-seq") or 0) > LONG - 500
    page.locator("#go-to").fill("3")
    page.keyboard.press("Enter")
    expect(page.locator('article[data-seq="3"]')).to_be_in_viewport()
    assert 10_000 < max(bodies) < 400_000
    shoot(seen, "long-desk-light")


def test_a_page_without_its_token_is_locked_and_one_without_its_server_says_so(
    chromium: Browser, inspected: Inspected
):
    running = ExitStack()
    with running:
        link = running.enter_context(served(inspected.home))
        address = link.partition("#")[0]
        for stranger in (address, f"{address}#token=wrong"):
            with look_at(chromium, stranger) as locked:
                assert locked.view == "locked"
                expect(locked.page.get_by_text("This page is locked")).to_be_visible()
        with look_at(chromium, link) as seen:
            assert "token" not in seen.page.url
            lost = seen.page.locator("#lost")
            seen.open("threads", inspected.threads[MENDED])
            expect(lost).to_have_count(0)
            running.close()
            expect(lost).to_have_attribute("data-why", "gone")
            shoot(seen, "lost-desk-light")
            seen.page.locator('[data-view="window"]').click()
            expect(seen.page.get_by_role("alert").first).to_contain_text("does not answer")
            port = address.rstrip("/").rpartition(":")[2]
            with served(inspected.home, "--port", port):
                # Another start, another token: the old page does not come back by itself.
                expect(lost).to_have_attribute("data-why", "locked")

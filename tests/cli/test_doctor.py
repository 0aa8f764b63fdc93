from __future__ import annotations

import json
import stat
import subprocess

from weft.prompt.imported import ImportedPrompts

from .terminal import SCRIPT, Weft


def status(weft: Weft, code: int = 0, **environ: str) -> dict[str, dict[str, str]]:
    weft.environ |= environ
    done = weft.attempt("doctor", "--json")
    assert (done.code, "Traceback" in done.err) == (code, False), done
    assert done.json["ok"] is (code == 0)
    return {check["name"]: check for check in done.json["checks"]}


def test_a_fresh_home_is_fine(weft):
    checks = status(weft)
    assert list(checks) == [
        "python",
        "sqlite",
        "home",
        "space",
        "log",
        "index",
        "locks",
        "models",
        "prompts",
        "fragments",
        "engine",
        "harness",
        "codex",
        "sandbox",
        "rg",
        "openai key",
        "anthropic key",
    ]
    assert {name for name, check in checks.items() if check["status"] == "fail"} == set()
    assert checks["log"]["detail"] == "not made yet"
    assert checks["locks"] == {
        "name": "locks",
        "status": "ok",
        "detail": "one writer at a time",
        "remedy": "",
    }
    assert list(weft.home.iterdir()) == []


def test_a_home_in_use_is_looked_into(weft, worked):
    assert worked
    checks = status(weft)
    assert checks["log"]["detail"].startswith("layout 2, sound, 1 threads, ")
    assert checks["index"]["status"] == "ok"


def test_every_trouble_has_a_remedy_in_the_readable_report(weft):
    weft.environ["PATH"] = str(SCRIPT.parent)
    done = weft("doctor")
    assert done.lines[0].split() == ["STATUS", "WHAT", "DETAIL"]
    assert "warn    rg             not found; searching files will be slow" in done.lines
    assert "  rg: install ripgrep" in done.lines
    assert all(check["remedy"] for check in status(weft).values() if check["status"] != "ok")


def test_the_sandbox_is_tried_not_looked_up(weft, tmp_path):
    assert status(weft)["sandbox"]["detail"].startswith("commands are confined by /")
    empty = tmp_path / "empty"
    empty.mkdir()
    check = status(weft, PATH=f"{SCRIPT.parent}:{empty}")["sandbox"]
    assert check == {
        "name": "sandbox",
        "status": "warn",
        "detail": "commands cannot be sandboxed: 'prlimit' is not on the search path",
        "remedy": "install util-linux",
    }


def test_a_working_directory_that_is_gone_is_only_a_warning(weft):
    gone = weft.project / "gone"
    gone.mkdir()
    script = f'cd "{gone}" && rmdir "{gone}" && exec "{SCRIPT}" doctor --json'
    done = subprocess.run(
        ["/bin/sh", "-c", script], env=weft.env, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout)["ok"]


def test_keys_are_told_by_name_never_by_value(weft):
    secret = "sk-very-secret"
    checks = status(weft, OPENAI_API_KEY=secret)
    assert checks["openai key"]["detail"] == "OPENAI_API_KEY is set"
    assert checks["anthropic key"]["status"] == "warn"
    assert secret not in weft("doctor").text


def test_a_damaged_log_fails(weft):
    (weft.home / "log.db").write_bytes(b"no database" * 500)
    check = status(weft, code=1)["log"]
    assert "is damaged or no database" in check["detail"]
    assert "move it away to start anew" in check["remedy"]


def test_a_damaged_page_is_found(weft, worked):
    assert worked
    log = weft.home / "log.db"
    data = bytearray(log.read_bytes())
    data[4096 * 3 : 4096 * 6] = b"\xff" * (4096 * 3)
    log.write_bytes(data)
    assert status(weft, code=1)["log"]["status"] == "fail"


def test_a_damaged_index_is_only_a_warning(weft):
    (weft.home / "index.db").write_bytes(b"no index" * 500)
    check = status(weft)["index"]
    assert check["status"] == "warn"
    assert "built again from the log" in check["remedy"]


def test_a_wrong_models_file_fails_with_its_cause(weft):
    (weft.home / "models.toml").write_text("[models.x]\ncontext_windo = 3\n")
    check = status(weft, code=1)["models"]
    assert check["status"] == "fail"
    assert "context_windo" in check["detail"]
    assert check["remedy"]


def test_changed_prompts_are_a_warning(weft):
    ImportedPrompts(weft.home).replace({"compact.md": "x"}, source="codex", version="codex 1")
    assert status(weft)["prompts"]["detail"] == "1 imported from codex 1"
    (weft.home / "prompts/codex/compact.md").write_text("y")
    assert status(weft)["prompts"]["status"] == "warn"


def test_a_home_that_others_can_enter_is_a_warning(weft):
    weft.home.chmod(0o755)
    check = status(weft)["home"]
    assert (check["status"], check["remedy"]) == ("warn", f"chmod 700 {weft.home}")
    assert stat.S_IMODE(weft.home.stat().st_mode) == 0o755


def test_a_home_that_is_not_there_is_not_made(weft):
    weft.home.rmdir()
    assert "the first thread makes it" in status(weft)["home"]["detail"]
    assert not weft.home.exists()


def test_a_broken_tool_does_not_break_the_doctor(weft, tmp_path):
    broken = tmp_path / "bin/rg"
    broken.parent.mkdir()
    broken.write_text("#!/bin/sh\nexit 3\n")
    broken.chmod(0o755)
    check = status(weft, PATH=f"{broken.parent}:{weft.env['PATH']}")["rg"]
    assert "returned non-zero exit status 3" in check["detail"]
    assert (check["status"], check["remedy"]) == ("warn", "install ripgrep again")


def test_fragments_of_a_package_that_cannot_be_loaded_fail(weft, tmp_path):
    package = tmp_path / "site/broken-1.0.dist-info"
    package.mkdir(parents=True)
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text("[weft.fragments]\nmine = nowhere:Mine\n")
    check = status(weft, code=1, PYTHONPATH=str(package.parent))["fragments"]
    assert "entry point 'mine' (nowhere:Mine)" in check["detail"]
    assert check["remedy"] == "update or remove the package that offers it"

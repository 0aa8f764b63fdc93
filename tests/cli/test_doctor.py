from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

from treadle.cli.probes import Check, examine
from treadle.prompt.imported_prompts import ImportedPrompts
from treadle.sandbox.kernel import Kernel

from .terminal import SCRIPT, Treadle


def status(treadle: Treadle, code: int = 0, **environ: str) -> dict[str, dict[str, str]]:
    treadle.environ |= environ
    done = treadle.attempt("doctor", "--json")
    assert (done.code, "Traceback" in done.err) == (code, False), done
    assert done.json["ok"] is (code == 0)
    return {check["name"]: check for check in done.json["checks"]}


def test_a_fresh_home_is_fine(treadle):
    checks = status(treadle)
    assert list(checks) == [
        "python",
        "sqlite",
        "home",
        "space",
        "store",
        "log",
        "index",
        "recall",
        "locks",
        "models",
        "prompts",
        "fragments",
        "engine",
        "harness",
        "codex",
        "sandbox",
        "executor",
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
    assert list(treadle.home.iterdir()) == []


def test_a_home_in_use_is_looked_into(treadle, worked):
    assert worked
    checks = status(treadle)
    assert checks["log"]["detail"].startswith("layout 3, valid, 1 thread, ")
    assert checks["index"]["status"] == "ok"


def test_every_trouble_has_a_remedy_in_the_readable_report(treadle):
    treadle.environ["PATH"] = str(SCRIPT.parent)
    done = treadle("doctor")
    assert done.lines[0].split() == ["STATUS", "WHAT", "DETAIL"]
    assert "warn    rg             not found; searching files will be slow" in done.lines
    assert "  rg: install ripgrep" in done.lines
    assert all(check["remedy"] for check in status(treadle).values() if check["status"] != "ok")


def test_the_sandbox_is_tried_not_looked_up(treadle, tmp_path):
    assert status(treadle)["sandbox"]["detail"].startswith("commands run in the sandbox of /")
    empty = tmp_path / "empty"
    empty.mkdir()
    check = status(treadle, PATH=f"{SCRIPT.parent}:{empty}")["sandbox"]
    assert check == {
        "name": "sandbox",
        "status": "warn",
        "detail": "commands cannot be sandboxed: 'prlimit' is not on the search path",
        "remedy": "install util-linux",
    }


def test_a_working_directory_that_is_gone_is_only_a_warning(treadle):
    gone = treadle.project / "gone"
    gone.mkdir()
    script = f'cd "{gone}" && rmdir "{gone}" && exec "{SCRIPT}" doctor --json'
    done = subprocess.run(
        ["/bin/sh", "-c", script], env=treadle.env, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout)["ok"]


def test_keys_are_told_by_name_never_by_value(treadle):
    secret = "sk-very-secret"
    checks = status(treadle, OPENAI_API_KEY=secret)
    assert checks["openai key"]["detail"] == "OPENAI_API_KEY is set"
    assert checks["anthropic key"]["status"] == "warn"
    assert secret not in treadle("doctor").text


def test_a_damaged_log_fails(treadle):
    (treadle.home / "log.db").write_bytes(b"no database" * 500)
    check = status(treadle, code=1)["log"]
    assert "is damaged or no database" in check["detail"]
    assert "move it away to start anew" in check["remedy"]


def test_a_damaged_page_is_found(treadle, worked):
    assert worked
    log = treadle.home / "log.db"
    data = bytearray(log.read_bytes())
    data[4096 * 3 : 4096 * 6] = b"\xff" * (4096 * 3)
    log.write_bytes(data)
    assert status(treadle, code=1)["log"]["status"] == "fail"


def test_a_damaged_index_is_only_a_warning(treadle):
    (treadle.home / "index.db").write_bytes(b"no index" * 500)
    check = status(treadle)["index"]
    assert check["status"] == "warn"
    assert "built again from the log" in check["remedy"]


def test_a_wrong_models_file_fails_with_its_cause(treadle):
    (treadle.home / "models.toml").write_text("[models.x]\ncontext_windo = 3\n")
    check = status(treadle, code=1)["models"]
    assert check["status"] == "fail"
    assert "context_windo" in check["detail"]
    assert check["remedy"]


def test_changed_prompts_are_a_warning(treadle):
    ImportedPrompts(treadle.home).replace({"compact.md": "x"}, source="codex", version="codex 1")
    assert status(treadle)["prompts"]["detail"] == "1 imported from codex 1"
    (treadle.home / "prompts/codex/compact.md").write_text("y")
    assert status(treadle)["prompts"]["status"] == "warn"


def test_a_home_that_others_can_enter_is_a_warning(treadle):
    treadle.home.chmod(0o755)
    check = status(treadle)["home"]
    assert (check["status"], check["remedy"]) == ("warn", f"chmod 700 {treadle.home}")
    assert stat.S_IMODE(treadle.home.stat().st_mode) == 0o755


def test_a_home_that_is_not_there_is_not_made(treadle):
    treadle.home.rmdir()
    assert "the first thread creates it" in status(treadle)["home"]["detail"]
    assert not treadle.home.exists()


def test_a_broken_tool_does_not_break_the_doctor(treadle, tmp_path):
    broken = tmp_path / "bin/rg"
    broken.parent.mkdir()
    broken.write_text("#!/bin/sh\nexit 3\n")
    broken.chmod(0o755)
    check = status(treadle, PATH=f"{broken.parent}:{treadle.env['PATH']}")["rg"]
    assert "returned non-zero exit status 3" in check["detail"]
    assert (check["status"], check["remedy"]) == ("warn", "install ripgrep again")


def test_fragments_of_a_package_that_cannot_be_loaded_fail(treadle, tmp_path):
    package = tmp_path / "site/broken-1.0.dist-info"
    package.mkdir(parents=True)
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text("[treadle.fragments]\nmine = nowhere:Mine\n")
    check = status(treadle, code=1, PYTHONPATH=str(package.parent))["fragments"]
    assert "fragment 'mine' cannot be loaded from 'nowhere:Mine' of 'broken'" in check["detail"]
    assert check["remedy"] == "update or remove 'broken'"


def sandbox_check(files: Path, release: str, environ: dict[str, str]) -> Check:
    kernel = Kernel(release=release, files=files)
    found = examine(files / "home", environ, lambda _: None, kernel=kernel)
    return next(check for check in found if check.name == "sandbox")


def test_processes_that_nothing_bounds_are_told(tmp_path):
    check = sandbox_check(tmp_path, "6.8.0-45-generic", dict(os.environ))
    bounded = os.geteuid() != 0
    assert check.status == ("ok" if bounded else "warn")
    assert ("how many processes they start is not bounded for root" in check.detail) is not bounded
    assert ("Linux 6.14" in check.remedy) is not bounded


def test_processes_are_bounded_by_the_namespace_from_linux_6_14_on(tmp_path):
    assert sandbox_check(tmp_path, "6.14.0", dict(os.environ)).status == "ok"


def test_what_forbids_namespaces_is_told_with_its_remedy(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "codex_cli_bin", None)
    broken = tmp_path / "bin/bwrap"
    broken.parent.mkdir()
    broken.write_text("#!/bin/sh\necho Operation not permitted >&2; exit 1\n")
    broken.chmod(0o755)
    for name, text in {"proc/self/ns/user": "", "proc/sys/user/max_user_namespaces": "0\n"}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    check = sandbox_check(tmp_path, "6.8.0", {"PATH": f"{broken.parent}:/usr/bin:/bin"})
    assert check.status == "warn"
    assert "user.max_user_namespaces is 0" in check.detail
    assert "sudo sysctl --system" in check.remedy

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from treadle.sandbox.place import CommandPlace, resolve_place
from treadle.sandbox.policy import SandboxPolicy
from treadle.sandbox.prefixes import has_shape
from treadle.sandbox.repository import Repository

POLICY = SandboxPolicy(mode="workspace-write", exclude_slash_tmp=True)

RUN_ANYTHING = """
bash;/bin/bash;bash -lc;bash ./x.sh;bash -O extglob -c;bash --norc -c;bash /dev/stdin;bash -s;sh -x
python3;python3 -c;python3 -u -c;python3 -;python3 /dev/stdin;python3 -X dev -c;python3.11
python3.12 -c;python3.11 -c;python3 manage.py;ruby -ropen-uri -e;perl -Mx -e;node -e;node18;nawk
env;env A=1;env -S;sudo;sudo apt;sudo apt install;doas;su;su -c;pkexec;runuser;setpriv;gosu
timeout 10;timeout 10 python -c;time -p;xargs -n 1;xargs -0;parallel;nohup;flock /tmp/l;taskset 1
chrt 1;capsh --;strace;ltrace;gdb;script -c;unbuffer;tmux;screen;vim;vi;ed;emacs;sed;tar;ts-node;tsx
npm;npm run;npm --silent run;npm exec --;npx -y;pnpm -C;yarn --cwd;uv run;uv run --with;uv tool run
cargo +nightly run;go generate;go run;make;make -f;make -C;docker run --rm;docker -H x run
podman run
docker exec;git;git -c;git -C;git -p;git --exec-path;git --git-dir;git config;git submodule foreach
git bisect run;git rebase --exec;ssh host;ssh -o;rsync;scp;curl -o;wget -O;sqlite3;psql;mysql
openssl
tee;cp;ln;install;crontab;at;systemctl;ansible;terraform;find;find . -name x;fd;fd -x;rg --pre
busybox sh;toybox;java;dotnet;mvn;gradle;./gradlew;pytest;tox;nix;nix-shell;apptainer;lxc;direnv
kubectl exec;kubectl run;gh extension;gh alias;gh api;pip install;gem;conda;rm;rm -rf;eval;./make x
"""


@pytest.mark.parametrize("outside", [False, True])
@pytest.mark.parametrize("text", ["", *RUN_ANYTHING.strip().replace("\n", ";").split(";")])
def test_beginnings_that_can_run_anything_have_no_shape(text: str, outside: bool):
    assert not has_shape(text.split(), outside=outside, repository=Repository(frozenset({"x"})))


@pytest.mark.parametrize(
    ("text", "outside"),
    [
        ("git push", True),
        ("git push -u origin HEAD:topic", True),
        ("git fetch --depth=3 origin main", True),
        ("docker pull registry.example.com/a:1", True),
        ("npm run test", False),
        ("npm test", False),
        ("cargo test --release name", False),
        ("make all clean", False),
        ("mkdir -p a/b", False),
        # These could do something else than the prefix says.
        ("git push ./nested", None),
        ("git push nested main", None),
        ("git push origin :main", None),
        ("git push origin +main", None),
        ("git push --receive-pack=./evil origin", None),
        ("git fetch --upload-pack=./evil origin", None),
        ("git fetch ext::sh", None),
        ("npm run test --script-shell=./evil", None),
        ("npm run --prefix=x test", None),
        ("make all SHELL=./evil", None),
        ("make all --eval=x", None),
        ("make all -f evil.mk", None),
        ("cargo test --config=x", None),
    ],
)
def test_a_shape_is_that_of_the_whole_command(text: str, outside: bool | None):
    repository = Repository(frozenset({"origin"}))
    inside = [has_shape(text.split(), outside=False)]
    out = [has_shape(text.split(), outside=True, repository=repository)]
    assert out == [outside is True]
    if outside is False:
        assert inside == [True]


def git(*arguments: str, cwd: Path) -> None:
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(cwd), "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", *arguments], cwd=cwd, env=environ, check=True, capture_output=True)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    git("init", "-q", cwd=workspace)
    git("remote", "add", "origin", "git@example.org:me/it.git", cwd=workspace)
    return workspace


def place(workspace: Path, cwd: Path | None = None, **environ: str) -> CommandPlace:
    home = workspace.parent / "treadle"
    return resolve_place(cwd or workspace, POLICY, workspace, home=home, environ=environ)


def test_a_plain_repository_has_its_remotes(workspace: Path):
    assert place(workspace).repository() == Repository(frozenset({"origin"}))


@pytest.mark.parametrize(
    "setting",
    [
        "core.sshCommand=./evil",
        "core.hooksPath=.husky",
        "core.fsmonitor=./evil",
        "remote.origin.uploadpack=./evil",
        "remote.other.url=./nested",
        "remote.other.url=/tmp/nested",
        "remote.other.url=ext::./evil",
        "remote.other.url=file:///tmp/nested",
        "branch.main.remote=./nested",
        "credential.helper=!./evil",
        "include.path=../evil",
        "filter.e.clean=./evil",
        "core.bare=true",
    ],
)
def test_a_repository_that_names_programs_or_paths_is_not_plain(workspace: Path, setting: str):
    git("config", *setting.split("=", 1), cwd=workspace)
    assert place(workspace).repository() is None


def test_hooks_modules_and_worktrees_make_a_repository_more_than_plain(workspace: Path):
    for name in ("hooks/pre-push", "modules", "config.worktree"):
        made = workspace / ".git" / name
        made.touch()
        assert place(workspace).repository() is None
        made.unlink()
    assert place(workspace).repository() is not None


def test_below_a_repository_commands_could_make_another(workspace: Path):
    below = workspace / "below"
    below.mkdir()
    assert place(workspace, below).repository() is None
    (workspace / "link").symlink_to(workspace)
    assert place(workspace, workspace / "link").repository() is None
    git("init", "-q", cwd=below)
    assert place(workspace, below).repository() is None
    assert place(below, below).repository() == Repository()


def test_where_no_command_can_write_the_repository_above_counts(workspace: Path, tmp_path: Path):
    (workspace / "src").mkdir()
    assert place(workspace / "src", workspace / "src").repository() is None
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert place(elsewhere, workspace / "src").repository() == Repository(frozenset({"origin"}))


def program(file: Path) -> Path:
    file.parent.mkdir(exist_ok=True)
    file.write_text("#!/bin/sh\n")
    file.chmod(0o755)
    return file


def test_a_program_of_the_workspace_is_no_shell_whatever_its_name(workspace: Path):
    evil = program(workspace / "bin" / "bash")
    here = place(workspace, PATH=f"{evil.parent}:bin::/usr/bin:/bin")
    assert not here.is_shell(str(evil))
    assert not here.is_shell("bin/bash")
    assert not here.is_shell("./bash")
    assert here.is_shell("bash")
    assert here.is_shell("/usr/bin/bash")
    assert here.is_shell("/bin/sh")
    assert here.shell_to_run("bash") in ("/usr/bin/bash", "/bin/bash")
    assert not here.is_fixed("bash")
    assert here.is_fixed("ls")
    assert not here.is_fixed("ls", always=True)


def test_a_link_to_a_shell_is_no_shell_where_it_can_be_swapped(workspace: Path):
    link = workspace / "bash"
    link.symlink_to("/bin/bash")
    assert not place(workspace).is_shell(str(link))


def test_the_shell_that_the_user_chose_counts_by_its_path(workspace: Path, tmp_path: Path):
    chosen = str(program(tmp_path / "opt" / "zsh"))
    here = place(workspace, PATH="/usr/bin:/bin")
    assert here.is_shell(chosen, chosen)
    assert not here.is_shell(chosen)
    assert not here.is_shell("./zsh", "./zsh")


def test_an_ordinary_search_path_leaves_names_as_they_are(workspace: Path):
    here = place(workspace, PATH="/usr/bin:/bin")
    assert here.shell_to_run("bash") == "bash"
    assert here.is_fixed("ls", always=True)

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from treadle.sandbox.commands import plain_commands, segments
from treadle.sandbox.safety import is_dangerous, is_safe_read_only


def script(text: str) -> tuple[str, str, str]:
    return ("bash", "-lc", text)


@pytest.mark.parametrize(
    ("text", "commands"),
    [
        ("ls", (("ls",),)),
        ("ls -la 'a b' \"c d\"", (("ls", "-la", "a b", "c d"),)),
        ("a && b || c; d | e", (("a",), ("b",), ("c",), ("d",), ("e",))),
        ("ls\npwd", (("ls",), ("pwd",))),
        ("ls;", (("ls",),)),
        ("echo a\"b\"c'd' 12", (("echo", "abcd", "12"),)),
        ("grep \"a\\.b\" 'c\\d'", (("grep", "a\\.b", "c\\d"),)),
        ("echo '' \"\"", (("echo", "", ""),)),
        ("ls src/*.py ~/x", (("ls", "src/*.py", "~/x"),)),
    ],
)
def test_a_plain_script_is_lowered_to_its_commands(text: str, commands: object):
    assert plain_commands(script(text)) == commands


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ls > file",
        "ls 2>&1",
        "cat <<EOF\nx\nEOF",
        "cat <(ls)",
        "echo $HOME",
        'echo "$HOME"',
        'echo "`ls`"',
        "echo $(ls)",
        "echo `ls`",
        "echo $'x'",
        "(ls)",
        "{ ls; }",
        "ls &",
        "ls |& wc",
        "! ls",
        "A=1 ls",
        "A=1",
        "export A=1",
        "if true; then ls; fi",
        "f() { ls; }",
        "[[ -f x ]]",
        "ls # why",
        "ls &&",
        "ls 'open",
        "echo a\\ b",
        'echo "a\\"b"',
        "find . -{delete,print}",
        "echo x{1..3}",
        "rg *",
        "ls -*",
        "?s",
        "echo =ls",
    ],
)
def test_anything_the_shell_would_still_work_on_is_not_lowered(text: str):
    assert plain_commands(script(text)) is None
    assert segments(script(text)) == (script(text),)


@pytest.mark.parametrize(
    "argv",
    [("ls", "$x"), ("bash", "-x", "ls"), ("bash", "-lc", "ls", "name"), ("fish", "-c", "ls")],
)
def test_what_is_no_shell_call_stands_for_itself(argv: tuple[str, ...]):
    assert plain_commands(argv) == (argv,)


@pytest.mark.parametrize("shell", ["bash", "zsh", "sh", "/usr/bin/bash"])
@pytest.mark.parametrize("flag", ["-c", "-lc"])
def test_every_shell_is_looked_into(shell: str, flag: str):
    assert plain_commands((shell, flag, "ls | wc")) == (("ls",), ("wc",))


@given(st.text(alphabet="ab-{}[]*?~$`'\"\\ ;|&<>()=#!\n1", max_size=14))
def test_a_lowered_command_is_what_the_shell_really_runs(text: str):
    commands = plain_commands(script(f"printf '%s\\0' {text}"))
    if commands is None or len(commands) != 1 or any(set("*?[~") & set(w) for w in commands[0]):
        return
    done = subprocess.run(
        ["bash", "-c", f"printf '%s\\0' {text}"], capture_output=True, check=True, cwd="/"
    )
    assert done.stdout.decode().split("\0")[:-1] == list(commands[0][2:] or [""])


SAFE = [
    ("ls", "-la"),
    ("cat", "x"),
    ("numfmt", "1"),
    ("base64", "x"),
    ("base64", "-w0", "-d"),
    ("find", ".", "-name", "*.py"),
    ("rg", "-n", "foo"),
    ("rg", "-ez"),
    ("git", "status"),
    ("git", "log", "-n", "3"),
    ("git", "diff", "--stat"),
    ("git", "branch"),
    ("git", "branch", "-a", "-vv"),
    ("cargo", "check"),
    ("sed", "-n", "1,5p", "f"),
    ("sed", "-n", "7p"),
    ("uniq", "-c", "a"),
    ("uniq", "-f", "2", "a"),
    ("uniq", "--skip-chars", "3", "a"),
    ("bash", "-lc", "git status && rg foo | head -n 3"),
]
UNSAFE = [
    ("rm", "x"),
    ("./ls",),
    ("base64", "-o", "x"),
    ("base64", "--output=x"),
    ("base64", "-dox"),
    ("find", ".", "-delete"),
    ("find", ".", "-exec", "x"),
    ("find", ".", "-fprintf", "x"),
    ("rg", "--pre", "x"),
    ("rg", "--pre=x"),
    ("rg", "--hostname-bin=x"),
    ("rg", "-z"),
    ("rg", "-nz"),
    ("rg", "--search-zip"),
    ("git",),
    ("git", "push"),
    ("git", "-c", "core.pager=x", "log"),
    ("git", "diff", "--output=x"),
    ("git", "diff", "--outp", "x"),
    ("git", "log", "--ext-diff"),
    ("git", "branch", "-D", "x"),
    ("git", "branch", "new"),
    ("cargo", "build"),
    ("sed", "-i", "s/a/b/", "f"),
    ("sed", "-n", "1,5w f"),
    ("sed", "-n", "1p", "-i"),
    ("sed", "-n", "1p", "a", "b"),
    ("uniq", "a", "b"),
    ("uniq", "a", "2"),
    ("uniq", "1", "2"),
    ("uniq", "a", "+x"),
    ("uniq", "--", "a", "-b"),
    ("uniq", "-c", "2", "3"),
    ("uniq", "-s2", "a", "3"),
    ("bash", "-lc", "ls > x"),
    ("bash", "-lc", "ls; rm x"),
    ("/w/evil/bash", "-lc", "ls"),
    ("./bash", "-c", "ls"),
]


@pytest.mark.parametrize("argv", SAFE, ids=" ".join)
def test_commands_that_only_look_are_safe(argv: tuple[str, ...]):
    assert is_safe_read_only(argv)


@pytest.mark.parametrize("argv", UNSAFE, ids=" ".join)
def test_everything_else_is_not(argv: tuple[str, ...]):
    assert not is_safe_read_only(argv)


@pytest.mark.parametrize(
    "argv",
    [
        ("rm", "-f", "x"),
        ("rm", "-rf", "x"),
        ("rm", "x", "--force"),
        ("rm", "--fo", "x"),
        ("/bin/rm", "-f", "x"),
        ("sudo", "rm", "-f", "x"),
        ("sudo", "-u", "root", "rm", "-f", "x"),
        ("env", "A=1", "rm", "-f", "x"),
        ("env", "-S", "rm -f x"),
        ("env", "-Srm -f x"),
        ("find", ".", "-exec", "rm", "-f", "{}", ";"),
        ("xargs", "rm", "-f"),
        ("bash", "-lc", "ls && rm -rf x"),
        ("bash", "-e", "-c", "rm -rf x"),
        ("bash", "-lc", "if true; then rm -rf x; fi"),
        ("bash", "-lc", "echo $(rm -rf x)"),
        ("bash", "-lc", "trap 'rm -rf x' EXIT"),
        ("bash", "-lc", "eval rm -rf x"),
        ("bash", "-lc", "r\\m -rf x"),
        ("bash", "-lc", "'rm' \"-rf\" x"),
        ("bash", "-lc", "A=1 rm -rf x"),
        ("sudo", "bash", "-c", "sh -c 'bash -c \"rm -f x\"'"),
        ("flock", "x", "rm", "-rf", "y"),
        ("flock", "x", "-c", "rm -rf y"),
        ("strace", "-f", "rm", "-rf", "x"),
        ("ssh", "host", "rm -rf x"),
        ("docker", "run", "image", "rm", "-rf", "x"),
        ("su", "-c", "rm -rf x"),
        ("su", "root", "--command=rm -rf x"),
        ("csh", "-c", "rm -rf x"),
        ("fish", "-c", "rm -rf x"),
        ("script", "-c", "rm -rf x"),
        ("bash", "-c", "--", "rm -rf x"),
        ("bash", "-lc", "coproc rm -rf x"),
        ("bash", "-lc", "{rm,-rf,x}"),
        ("bash", "-lc", "r{m,} -rf x"),
        ("bash", "-lc", "rm${IFS}-rf${IFS}x"),
        ("bash", "-lc", "a=rm; $a -rf x"),
        ("bash", "-lc", "$(echo rm) -rf x"),
        ("bash", "-lc", "alias r='rm -rf'; r x"),
        ("bash", "-lc", "echo 'rm -rf x' | sh"),
        ("bash", "-lc", "printf '%s\\n' 'rm -rf x' | sudo bash -s"),
        ("bash", "-lc", "bash <<< 'rm -rf x'"),
        ("bash", "-lc", "cat <<X | sh\nrm -rf x\nX"),
    ],
    ids=" ".join,
)
def test_forced_removal_is_seen_through_its_wrappings(argv: tuple[str, ...]):
    assert is_dangerous(argv)


@pytest.mark.parametrize(
    "argv",
    [
        ("rm", "x"),
        ("rm", "-r", "x"),
        ("rm", "--", "x"),
        ("echo", "rm", "-f"),
        ("bash", "-lc", "rm x; ls -f"),
        ("bash", "-lc", "echo 'rm -f x'"),
        ("sudo", "ls"),
        ("bash",),
        ("git", "rm", "-f", "x"),
        ("docker", "rm", "-f", "x"),
        ("bash", "-lc", "git commit -m 'rm -f x'"),
        ("bash", "-lc", "$CC -fPIC -c x.c"),
        ("bash", "-lc", "cat > x <<X\nrm -f y\nX"),
        ("bash", "-lc", "sed -i 's/rm -f/rm/' Makefile"),
        (),
    ],
    ids=" ".join,
)
def test_ordinary_commands_are_not_dangerous(argv: tuple[str, ...]):
    assert not is_dangerous(argv)


def nested(depth: int) -> tuple[str, ...]:
    import shlex

    argv: tuple[str, ...] = ("ls",)
    for _ in range(depth):
        argv = ("bash", "-c", shlex.join(argv))
    return argv


def test_scripts_too_deep_to_see_through_count_as_dangerous():
    assert [is_dangerous(nested(depth)) for depth in (1, 8, 9)] == snapshot([False, False, True])

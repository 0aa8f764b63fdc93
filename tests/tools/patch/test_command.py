from __future__ import annotations

import pytest

from treadle.tools.patch import ImplicitPatch, PatchCommand, find_patch

from .trees import patch

TEXT = patch("*** Add File: a", "+it's $HOME `x`").rstrip("\n")
HEREDOC = f"<<'PATCH'\n{TEXT}\nPATCH"


@pytest.mark.parametrize(
    ("script", "workdir"),
    [
        (f"apply_patch {HEREDOC}", None),
        (f"apply_patch {HEREDOC}\n", None),
        (f"\n  applypatch {HEREDOC}\n", None),
        (f"apply_patch <<PATCH\n{TEXT}\nPATCH\n", None),
        (f'apply_patch <<"PATCH"\n{TEXT}\nPATCH\n', None),
        ("apply_patch <<-'E'\n\t" + TEXT.replace("\n", "\n\t") + "\n\tE\n", None),
        (f"cd src/app && apply_patch {HEREDOC}\n", "src/app"),
        (f"cd 'a b' && apply_patch {HEREDOC}\n", "a b"),
        (f'cd "a b" && applypatch {HEREDOC}\n', "a b"),
    ],
)
@pytest.mark.parametrize("shell", [["bash", "-lc"], ["/bin/zsh", "-c"], ["sh", "-c"]])
def test_a_heredoc_for_apply_patch_is_found(shell: list[str], script: str, workdir: str | None):
    assert find_patch([*shell, script]) == PatchCommand(TEXT, workdir)
    assert find_patch(script) == PatchCommand(TEXT, workdir)


SINGLE = TEXT.replace("'", "'\\''")
DOUBLE = TEXT.replace("$", "\\$").replace("`", "\\`")


@pytest.mark.parametrize(
    ("script", "workdir"),
    [
        (f"apply_patch '{SINGLE}'", None),
        (f"\napplypatch '{SINGLE}\n'\n", None),
        (f'apply_patch "{DOUBLE}"', None),
        (f"cd src/app && apply_patch '{SINGLE}'", "src/app"),
        (f"cd 'a b' && apply_patch \"{DOUBLE}\"", "a b"),
    ],
)
def test_a_quoted_argument_of_apply_patch_is_found(script: str, workdir: str | None):
    assert find_patch(["bash", "-lc", script]) == PatchCommand(TEXT, workdir)
    assert find_patch(script) == PatchCommand(TEXT, workdir)


@pytest.mark.parametrize(
    "script",
    [
        f"apply_patch '{SINGLE}' more",
        f"apply_patch '{SINGLE}' 'more'",
        f"apply_patch '{SINGLE}'; rm 'x'",
        f'apply_patch "{TEXT}"',
        f'apply_patch "{DOUBLE}" && echo "x"',
        f"X=1 apply_patch '{SINGLE}'",
        f"cd $A && apply_patch '{SINGLE}'",
        f"cd ~ && apply_patch '{SINGLE}'",
        f"cd -P && apply_patch '{SINGLE}'",
        "apply_patch '",
        "apply_patch 'x",
        "",
        "apply_patch",
        f"apply_patch '{TEXT}'",
        f"echo hi; apply_patch {HEREDOC}",
        f"apply_patch {HEREDOC}\necho done",
        f"apply_patch <<'PATCH' && echo done\n{TEXT}\nPATCH",
        f"apply_patch <<'PATCH' | cat\n{TEXT}\nPATCH",
        f"apply_patch <<'PATCH' > out\n{TEXT}\nPATCH",
        f"apply_patch < in {HEREDOC}",
        f"apply_patch --help {HEREDOC}",
        f"X=1 apply_patch {HEREDOC}",
        f"! apply_patch {HEREDOC}",
        f"(apply_patch {HEREDOC}\n)",
        f"cat {HEREDOC}",
        f"cd a || apply_patch {HEREDOC}",
        f"cd a; apply_patch {HEREDOC}",
        f"cd a b && apply_patch {HEREDOC}",
        f"cd -P && apply_patch {HEREDOC}",
        f"cd && apply_patch {HEREDOC}",
        f"cd ~/a && apply_patch {HEREDOC}",
        f"cd $A && apply_patch {HEREDOC}",
        f'cd "$A" && apply_patch {HEREDOC}',
        f"cd a* && apply_patch {HEREDOC}",
        f"cd a && cd b && apply_patch {HEREDOC}",
        f"cd a && apply_patch x {HEREDOC}",
        f"pushd a && apply_patch {HEREDOC}",
        f"apply_patch <<'PATCH'\n{TEXT}",
    ],
)
def test_any_other_script_is_left_to_the_shell(script: str):
    assert find_patch(["bash", "-lc", script]) is None
    assert find_patch(script) is None


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["ls"],
        ["python", "-c", f"apply_patch {HEREDOC}"],
        ["bash", "-x", f"apply_patch {HEREDOC}"],
        ["bash", "-lc", f"apply_patch {HEREDOC}", "more"],
        ["apply_patch", TEXT, "more"],
    ],
)
def test_other_commands_are_no_patches(argv: list[str]):
    assert find_patch(argv) is None


@pytest.mark.parametrize("name", ["apply_patch", "applypatch"])
def test_the_patch_may_be_the_argument(name: str):
    assert find_patch([name, TEXT]) == PatchCommand(TEXT)


@pytest.mark.parametrize("command", [TEXT, [TEXT], ["bash", "-lc", f"{TEXT}\n"]])
def test_a_bare_patch_is_refused_with_the_way_to_call(command):
    with pytest.raises(ImplicitPatch) as caught:
        find_patch(command)
    assert caught.value.report == (
        "apply_patch verification failed: patch detected without explicit call to apply_patch. "
        'Rerun as ["apply_patch", "<patch>"]'
    )

from __future__ import annotations

import msgspec
from inline_snapshot import snapshot
from msgspec import Raw

from treadle.core.items import InputText
from treadle.prompt.announcements import (
    HookContext,
    SubagentNotification,
    TurnAborted,
    UserShellCommand,
)
from treadle.prompt.skill_fragments import Skill


def test_skill():
    plain = Skill(name="deploy", path="/skills/deploy/SKILL.md", contents="# Deploy\nCarefully.")
    assert plain.render() == snapshot("""\
<skill>
<name>deploy</name>
<path>/skills/deploy/SKILL.md</path>
# Deploy
Carefully.
</skill>\
""")
    limited = msgspec.structs.replace(plain, resource_access=Raw(b'{"read":["/skills"]}'))
    assert limited.render() == snapshot("""\
<skill>
<name>deploy</name>
<path>/skills/deploy/SKILL.md</path>
<resource_access>{"read":["/skills"]}</resource_access>
# Deploy
Carefully.
</skill>\
""")


def test_user_shell_command():
    ran = UserShellCommand(command="ls -l", exit_code=2, seconds=1.5, output="no such file")
    assert ran.render() == snapshot("""\
<user_shell_command>
<command>
ls -l
</command>
<result>
Exit code: 2
Duration: 1.5000 seconds
Output:
no such file
</result>
</user_shell_command>\
""")


def test_turn_aborted():
    assert TurnAborted().render() == snapshot("""\
<turn_aborted>
The user interrupted the last turn on purpose.
Commands that were running may have done part of their work; look before you repeat one.
</turn_aborted>\
""")


def test_subagent_notification():
    done = SubagentNotification("/root/fix", "completed", 'All "green" now.')
    assert done.render() == snapshot("""\
<subagent_notification>
{"agent_path":"/root/fix","status":{"completed":"All \\"green\\" now."}}
</subagent_notification>\
""")
    assert SubagentNotification("/root/fix", "running").render() == snapshot("""\
<subagent_notification>
{"agent_path":"/root/fix","status":"running"}
</subagent_notification>\
""")


def test_hook_context_carries_no_markers():
    assert HookContext("Lint passed.").message().content == (InputText(text="Lint passed."),)

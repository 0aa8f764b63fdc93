"""One way to build every built-in fragment around a text, for tests that hold for all of them."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Raw

from treadle.core.provenance import Attachment, InputProvenance, InternalEvent
from treadle.core.wire import json_bytes
from treadle.prompt import Fragment, PlanStep, Subagent, Task
from treadle.prompt.additional import ApplicationContext, ExternalContext
from treadle.prompt.agents_md import AgentsMdFragment
from treadle.prompt.collaboration import Collaboration
from treadle.prompt.completion import TaskCompletion
from treadle.prompt.developer import DeveloperInstructions
from treadle.prompt.environment import EnvironmentFragment, SandboxFacts
from treadle.prompt.events import HookContext, Skill, TurnAborted, UserShellCommand
from treadle.prompt.guidance import Guidance
from treadle.prompt.history import History
from treadle.prompt.inter_session import InterSession, InterSessionEnd
from treadle.prompt.model_switch import ModelSwitch
from treadle.prompt.overlay import OverlaySuffix
from treadle.prompt.permissions import ApprovedPrefixes, Permissions
from treadle.prompt.personality import Personality
from treadle.prompt.recall import Recall
from treadle.prompt.subagents import SubagentNotification, SubagentsFragment
from treadle.prompt.task import TaskFragment
from treadle.prompt.unanswered import Unanswered

SAMPLES: dict[str, Callable[[str], Fragment]] = {
    "agents_md": lambda text: AgentsMdFragment(text, "replaced", text),
    "application_context": lambda text: ApplicationContext("branch", text),
    "approved_prefixes": lambda text: ApprovedPrefixes(((text, text), (text,))),
    "collaboration_mode": Collaboration,
    "developer_instructions": DeveloperInstructions,
    "environment": lambda text: EnvironmentFragment(
        cwd=text, sandbox=SandboxFacts("workspace-write", "enabled", (text, text)), shell=text
    ),
    "external_context": lambda text: ExternalContext("page", text),
    "guidance": Guidance,
    "history": lambda text: History(
        node=text, first=1, last=9, text=text, depth=1, turns=text, degraded=True
    ),
    "hook_context": HookContext,
    "inter_session": lambda text: InterSession(
        InputProvenance(
            kind="inter_session", source_thread=text, source_channel=text, source_tool=text
        )
    ),
    "inter_session_end": lambda _text: InterSessionEnd(),
    "model_switch": ModelSwitch,
    "overlay_suffix": OverlaySuffix,
    "permissions": lambda text: Permissions(
        approval_policy=text,
        sandbox=SandboxFacts(text, text, (text,)),
        approved_prefixes=((text,),),
    ),
    "personality": Personality,
    "recall": Recall,
    "skill": lambda text: Skill(
        name=text, path=text, contents=text, resource_access=Raw(json_bytes({text: [text]}))
    ),
    "subagent_notification": lambda text: SubagentNotification(text, text, text),
    "subagents": lambda text: SubagentsFragment((Subagent(text, text), Subagent(text, text))),
    "task_completion": lambda text: TaskCompletion(
        InternalEvent(
            source=text,
            child_thread=text,
            task=text,
            status="error",
            status_label=text,
            announce_type=text,
            result=text,
            attachments=(Attachment(name=text, path=text),),
            stats=text,
            reply_instruction=text,
        )
    ),
    "task_state": lambda text: TaskFragment(Task(text, (PlanStep(text),), (text,))),
    "turn_aborted": TurnAborted,
    "unanswered_input": lambda _text: Unanswered(),
    "user_shell_command": lambda text: UserShellCommand(
        command=text, exit_code=1, seconds=0.5, output=text
    ),
}

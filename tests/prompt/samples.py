"""One way to build every built-in fragment around a text, for tests that hold for all of them."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Raw

from treadle.core.provenance import Attachment, InputProvenance, InternalEvent
from treadle.core.wire import json_bytes
from treadle.prompt import Fragment, PlanStep, Subagent, Task
from treadle.prompt.additional_context import ApplicationContext, ExternalContext
from treadle.prompt.agent_types import AgentTypesFragment
from treadle.prompt.announcements import (
    AnswerMisfit,
    HookContext,
    ImportedContext,
    ProviderItem,
    RepeatedCall,
    SubagentNotification,
    TurnAborted,
    Unanswered,
    UnreadableCall,
    UserShellCommand,
)
from treadle.prompt.engine_fragments import Guidance, History, Recall
from treadle.prompt.executor_place import ExecutorFragment
from treadle.prompt.mcp_servers import FoundTool, FoundToolsFragment, McpServersFragment
from treadle.prompt.prompt_context import AgentType, ListedSkill, McpServerFacts
from treadle.prompt.signals import InterSession, InterSessionEnd, TaskCompletion
from treadle.prompt.skill_fragments import Skill, SkillAgain, SkillsFragment
from treadle.prompt.standing_instructions import (
    AgentsMdFragment,
    Collaboration,
    DeveloperInstructions,
    OverlaySuffix,
    Personality,
)
from treadle.prompt.thread_state import ModelSwitch, SubagentsFragment, TaskFragment
from treadle.prompt.window_use import WindowUseFragment
from treadle.prompt.working_environment import (
    ApprovedPrefixes,
    EnvironmentFragment,
    Permissions,
    SandboxFacts,
)

SAMPLES: dict[str, Callable[[str], Fragment]] = {
    "agent_types": lambda text: AgentTypesFragment(
        (AgentType(text, text), AgentType(text, text)), (text, text), changed=True
    ),
    "agents_md": lambda text: AgentsMdFragment(text, "replaced", text),
    "application_context": lambda text: ApplicationContext("branch", text),
    "approved_prefixes": lambda text: ApprovedPrefixes(((text, text), (text,))),
    "collaboration_mode": Collaboration,
    "developer_instructions": DeveloperInstructions,
    "environment": lambda text: EnvironmentFragment(
        cwd=text, sandbox=SandboxFacts("workspace-write", "enabled", (text, text)), shell=text
    ),
    "executor": lambda text: ExecutorFragment(place=text, again=True),
    "external_context": lambda text: ExternalContext("page", text),
    "guidance": Guidance,
    "history": lambda text: History(
        node=text, first=1, last=9, text=text, depth=1, turns=text, degraded=True
    ),
    "hook_context": HookContext,
    "imported_context": lambda text: ImportedContext(sender=text, text=text),
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
    "provider_item": lambda text: ProviderItem(kind=text, text=text),
    "recall": Recall,
    "skill": lambda text: Skill(
        name=text, path=text, contents=text, resource_access=Raw(json_bytes({text: [text]}))
    ),
    "skill_again": SkillAgain,
    "skills": lambda text: SkillsFragment(
        added=(ListedSkill(text, text, text),),
        changed=(ListedSkill(text, text, text),),
        gone=(text,),
        first=False,
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
    "mcp_servers": lambda text: McpServersFragment(
        (McpServerFacts(name=text, instructions=text, problem=text),), (text,)
    ),
    "window_use": lambda _text: WindowUseFragment(75),
    "mcp_found_tools": lambda text: FoundToolsFragment((FoundTool(text, text),)),
    "task_state": lambda text: TaskFragment(Task(text, (PlanStep(text),), (text,))),
    "turn_aborted": TurnAborted,
    "answer_misfit": AnswerMisfit,
    "unreadable_call": lambda text: UnreadableCall(text, text),
    "repeated_call": lambda text: RepeatedCall(text, 4),
    "unanswered_input": lambda _text: Unanswered(),
    "user_shell_command": lambda text: UserShellCommand(
        command=text, exit_code=1, seconds=0.5, output=text
    ),
}

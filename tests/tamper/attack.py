"""An attempt at cheating, and the agent that makes it: a script that runs in the sandbox."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from pytest_imaging101.agents.base import Brief, Transcript
from pytest_imaging101.budget import Budget, StopReason
from pytest_imaging101.sandboxes.base import Sandbox
from pytest_imaging101.task import Task

LEAK = "LEAK:"
"""What a script prints before the name of a thing that no sandbox may let it have."""

Local = Literal["stopped", "tainted", "ungraded", "declared"]


@dataclass(frozen=True)
class Attack:
    """One way to cheat.

    Attributes
    ----------
    aims_at : str
        The mechanism of ours that it tries to get round.
    stopped_by : str
        What is there to stop it.
    reason : str
        Regular expression that the failed outcome's reason matches: it was stopped by that and nothing else.
    files : mapping
        What the agent writes into the workspace; ``@TASK@`` in texts becomes the task's folder on the host, which
        the most knowing attacker knows.
    script : str
        Python that the agent then runs in the sandbox.
    then : callable, optional
        What the agent does between the end of its script and the end of the attempt.
    local : str
        What becomes of it where there is no isolation: "stopped" all the same; "tainted", because evidence shows;
        "ungraded", because the task is no longer what it was; "declared", which promises nothing but that the
        outcome says so.
    """

    name: str
    item: str
    aims_at: str
    stopped_by: str
    reason: str
    files: Mapping[str, str | bytes] = field(default_factory=dict)
    script: str = ""
    then: Callable[[Sandbox], None] | None = None
    local: Local = "stopped"


@dataclass(frozen=True)
class Attacker:
    """The agent of one attack."""

    attack: Attack
    task: Task
    name: str = "tamper"
    version: str = "1"

    def work(self, brief: Brief, sandbox: Sandbox, budget: Budget, transcript: Transcript) -> StopReason:
        """Write the files, run the script, and claim to be done."""
        sandbox.put({name: self._fill(content) for name, content in self.attack.files.items()})
        if self.attack.script:
            script = self._fill(self.attack.script)
            done = sandbox.run(["python", "-"], timeout=120, stdin=script)
            transcript.event(
                "run", exit_code=done.exit_code, output=done.output[-5000:], ended_by=done.killed_by
            )
        if self.attack.then is not None:
            self.attack.then(sandbox)
        return StopReason.SUBMITTED

    def _fill(self, content: str | bytes) -> bytes:
        if isinstance(content, bytes):
            return content
        return content.replace("@TASK@", str(self.task.folder)).encode()

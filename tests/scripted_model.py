"""An endpoint that plays a model by script: it works on attempts with the text protocol, and judges plans.

It reads the brief as a model would, keeps no state but what the conversation holds, and answers with the
reference's files. ``mistakes`` replaces text in what it writes, as an agent with one wrong idea would.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.models.fake_endpoint import Scripted, says


@dataclass(frozen=True)
class ScriptedModel:
    """Serves as the script of a FakeEndpoint."""

    task: Path
    mistakes: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, request: dict[str, Any], headers: Mapping[str, str]) -> Scripted:
        messages = request["messages"]
        prompt = messages[1]["content"]
        if "<verdict-" in prompt:
            return says(verdict(prompt))
        steps = sum(message["role"] == "assistant" for message in messages)
        actions = [*self.files(prompt), "Action: DONE"]
        return says(f"Thought: step {steps + 1}\n{actions[min(steps, len(actions) - 1)]}")

    def files(self, prompt: str) -> list[str]:
        """The actions before DONE, for whichever item the prompt is about."""
        if prompt.startswith("Plan the solution"):
            return [self.write(name) for name in ("plan/approach.md", "plan/design.md")]
        if module := re.match(r"Write one module .*`src/(\w+)\.py`", prompt):
            return [self.write(f"src/{module.group(1)}.py")]
        names = ["main.py", *(f"src/{file.name}" for file in sorted((self.task / "src").glob("*.py")))]
        return [*map(self.write, names), "Action: RUN python main.py"]

    def write(self, name: str) -> str:
        text = (self.task / name).read_text(encoding="utf-8")
        for right, wrong in self.mistakes.items():
            text = text.replace(right, wrong)
        return f"Action: WRITE_FILE {name}\n<<<BEGIN file\n{text}\nEND>>> file"


def verdict(prompt: str) -> str:
    """A judge's answer that finds everything right, and plans equally good."""
    found = re.search(r"<verdict-(\w+)>\n(.*?)\n</verdict-", prompt, re.S)
    assert found is not None
    form = json.loads(found.group(2))
    if "better" in form:
        form["better"] = "tie"
    else:
        form = {
            "items": {name: {"met": True, "quote": ""} for name in form["items"]},
            "parts": dict.fromkeys(form["parts"], True),
            "overall": True,
        }
    return f"All is there.\n<verdict-{found.group(1)}>\n{json.dumps(form)}\n</verdict-{found.group(1)}>"

"""A conversation kept inside a token limit without ever losing the brief or the last turns."""

from __future__ import annotations

from dataclasses import dataclass, field

from pytest_imaging101.models.base import Message

CHARACTERS_PER_TOKEN = 3.5
KEPT_TURNS = 2


@dataclass(frozen=True)
class Turn:
    """One reply of the model, what it got back, and both in a line for when there is no room."""

    reply: str
    observation: str
    summary: str


@dataclass
class Conversation:
    """System text and brief are always sent whole; the oldest turns become one line each when room runs out."""

    system: str
    brief: str
    limit_tokens: int
    turns: list[Turn] = field(default_factory=list)
    summarised: int = 0

    def add(self, turn: Turn) -> None:
        """Append a turn and summarise as many old ones as the limit asks for."""
        self.turns.append(turn)
        while self.tokens() > self.limit_tokens and self._summarise_oldest():
            pass

    def shrink(self) -> bool:
        """Make room because the endpoint said that the messages do not fit; False if nothing is left to drop."""
        before = self.tokens()
        self.limit_tokens = int(before * 0.7)
        while self.tokens() > self.limit_tokens and self._summarise_oldest():
            pass
        return self.tokens() < before

    def tokens(self) -> int:
        """Estimate of what is sent."""
        return int(sum(len(message["content"]) for message in self.messages()) / CHARACTERS_PER_TOKEN)

    def messages(self) -> list[Message]:
        """What is sent: system, brief (with the digest of old turns), then replies and observations in turn."""
        brief = self.brief
        if self.summarised:
            digest = "\n".join(
                f"{n}. {turn.summary}" for n, turn in enumerate(self.turns[: self.summarised], 1)
            )
            brief += f"\n\nSteps that you have already taken, shortened:\n{digest}"
        messages: list[Message] = [
            {"role": "system", "content": self.system},
            {"role": "user", "content": brief},
        ]
        for turn in self.turns[self.summarised :]:
            messages.append({"role": "assistant", "content": turn.reply or "(empty reply)"})
            messages.append({"role": "user", "content": turn.observation})
        return messages

    def _summarise_oldest(self) -> bool:
        if self.summarised >= len(self.turns) - KEPT_TURNS:
            return False
        self.summarised += 1
        return True

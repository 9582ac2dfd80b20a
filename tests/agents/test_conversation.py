"""A long conversation stays inside its limit and never loses the brief."""

from __future__ import annotations

from pytest_imaging101.agents.conversation import Conversation, Turn


def long_conversation(limit: int) -> Conversation:
    conversation = Conversation("system text", "the brief", limit)
    for number in range(30):
        conversation.add(
            Turn(f"reply {number} " + "x" * 2000, f"seen {number} " + "y" * 2000, f"step {number}")
        )
    return conversation


def test_old_turns_become_lines_and_the_limit_holds() -> None:
    conversation = long_conversation(8000)
    messages = conversation.messages()
    assert conversation.tokens() <= 8000
    assert messages[0]["content"] == "system text"
    assert messages[1]["content"].startswith("the brief")
    assert "step 0" in messages[1]["content"]
    assert messages[-1]["content"].startswith("seen 29")


def test_roles_alternate_and_the_last_is_the_user() -> None:
    roles = [message["role"] for message in long_conversation(8000).messages()]
    assert roles[0] == "system"
    assert roles[1::2] == ["user"] * len(roles[1::2])
    assert roles[2::2] == ["assistant"] * len(roles[2::2])
    assert roles[-1] == "user"


def test_shrinking_ends_when_only_the_last_turns_are_left() -> None:
    conversation = long_conversation(10**6)
    while conversation.shrink():
        pass
    texts = "".join(message["content"] for message in conversation.messages())
    assert "seen 29" in texts
    assert "the brief" in texts
    assert not conversation.shrink()

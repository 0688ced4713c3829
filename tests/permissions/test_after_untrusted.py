"""The option `after_untrusted`: which calls ask once a session has content from outside."""

from typing import Literal, cast

import attrs
import pytest

from agent_actors import Tool
from agent_actors.domain.blocks import ToolUseBlock
from agent_actors.domain.json import JsonObject
from agent_actors.errors import ConfigError
from agent_actors.permissions import Allow, Ask, Deny, PermissionPolicy, Remember
from tests.permissions.support import HERE


def send(arguments: JsonObject) -> str:
    return str(arguments)


READ = Tool("look", "Look.", None, send, read_only=True)
SEND = Tool("send", "Send.", None, send)
CALL = ToolUseBlock("c1", "send", {})
AFTER = attrs.evolve(HERE, untrusted=True)


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (PermissionPolicy(mode="bypass", after_untrusted="ask"), Ask),
        (PermissionPolicy(mode="bypass"), Allow),
        (PermissionPolicy(allow=["send"], after_untrusted="ask"), Ask),
        (PermissionPolicy(mode="plan", allow=["send"], after_untrusted="ask"), Deny),
        (PermissionPolicy(mode="deny", allow=["send"], after_untrusted="ask"), Deny),
        (
            PermissionPolicy(mode="bypass").under(
                PermissionPolicy(mode="bypass", after_untrusted="ask")
            ),
            Ask,
        ),
    ],
)
def test_changing_call_asks_after_untrusted_result(
    policy: PermissionPolicy, expected: type[object]
) -> None:
    assert isinstance(policy.decide(CALL, SEND, AFTER), expected)
    look = attrs.evolve(CALL, name="look")
    before = attrs.evolve(policy, allow=[*policy.allow, "look"], above=None)
    assert isinstance(before.decide(look, READ, AFTER), Allow)
    if expected is Ask:
        assert isinstance(policy.decide(CALL, SEND, HERE), Allow)


def test_only_later_approvals_count() -> None:
    policy = PermissionPolicy(mode="bypass", after_untrusted="ask")
    early = attrs.evolve(AFTER, grants=HERE.approve(CALL, SEND, Remember("always")))
    late = attrs.evolve(AFTER, grants=AFTER.approve(CALL, SEND, Remember("always")))
    denied = HERE.approve(CALL, SEND, Remember("always"), allowed=False)
    assert isinstance(policy.decide(CALL, SEND, early), Ask)
    assert isinstance(policy.decide(CALL, SEND, late), Allow)
    assert isinstance(policy.decide(CALL, SEND, attrs.evolve(AFTER, grants=denied)), Deny)


def test_unknown_value_is_rejected() -> None:
    with pytest.raises(ConfigError, match="after_untrusted must be 'ask' or None; got 'no'"):
        PermissionPolicy(after_untrusted=cast(Literal["ask"], "no"))

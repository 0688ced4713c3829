import pytest

from agent_actors.domain import encoded_message_cache
from agent_actors.domain.encoded_message_cache import EncodedMessageCache
from agent_actors.domain.messages import Message, Messages


class Counting:
    """Encodes a message, and counts its calls."""

    def __init__(self) -> None:
        self.made = 0

    def __call__(self, message: Message) -> str:
        self.made += 1
        return message.content.upper()


@pytest.fixture(autouse=True)
def keep_short_conversations(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    if request.function is not test_values_of_few_messages_are_not_kept:
        monkeypatch.setattr(encoded_message_cache, "_WORTH_KEEPING", 0)


def test_values_of_few_messages_are_not_kept() -> None:
    memo, make = EncodedMessageCache(), Counting()
    chain = Messages().user("a").assistant("b").user("c")
    for _ in range(2):
        assert memo.map("k", chain, make) == ["A", "B", "C"]
    assert make.made == 6
    longer = chain.assistant("d")
    for _ in range(2):
        assert memo.map("k", longer, make) == ["A", "B", "C", "D"]
    assert memo.map("k", chain, make) == ["A", "B", "C"]
    assert make.made == 10


def test_growing_conversation_encodes_each_message_once() -> None:
    memo, make = EncodedMessageCache(), Counting()
    chain = Messages().user("a").assistant("b")
    assert memo.map("k", chain, make) == ["A", "B"]
    longer = chain.user("c")
    assert memo.map("k", longer, make) == ["A", "B", "C"]
    assert memo.map("k", longer, make) == ["A", "B", "C"]
    assert make.made == 3


def test_changed_message_invalidates_later_entries() -> None:
    memo, make = EncodedMessageCache(), Counting()
    chain = Messages().user("a").user("b").user("c")
    memo.map("k", chain, make)
    other = chain[:1].user("b").user("d")  # an equal message is not the same message
    assert memo.map("k", other, make) == ["A", "B", "D"]
    assert make.made == 5
    assert memo.map("k", chain[:1], make) == ["A"]
    assert make.made == 5


def test_keys_have_separate_entries() -> None:
    memo, make = EncodedMessageCache(), Counting()
    chain = Messages().user("a")
    assert memo.map("k", chain, make) == ["A"]
    assert memo.map("other", chain, len_of) == [1]
    assert memo.map("k", chain, make) == ["A"]
    assert make.made == 1


def test_returned_lists_can_be_changed() -> None:
    memo, make = EncodedMessageCache(), Counting()
    chain = Messages().user("a")
    memo.map("k", chain, make).append("x")
    assert memo.map("k", chain, make) == ["A"]


def test_forgotten_entry_is_encoded_again() -> None:
    memo, make = EncodedMessageCache(), Counting()
    chain = Messages().user("a")
    memo.map("k", chain, make)
    memo.forget()
    assert memo.map("k", chain, make) == ["A"]
    assert make.made == 2


def len_of(message: Message) -> int:
    return len(message.content)

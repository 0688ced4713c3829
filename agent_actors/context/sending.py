"""Selects the part of a session's history that is sent with the next request.

Pure. The history itself is not changed. Responses that the endpoint refused or filtered are
omitted, together with the results of their calls, unless the provider's profile says to send them
again. The user messages around them stay, so that two user messages may follow each other. Both
encoders accept that, as they do after an interrupted run. The resume window is then applied to the
remaining messages.
"""

from agent_actors.context.resume_window import ResumeWindow
from agent_actors.domain.encoded_message_cache import EncodedMessageCache
from agent_actors.domain.messages import Message, Messages


def messages_to_send(
    history: Messages,
    window: ResumeWindow,
    memo: EncodedMessageCache,
    *,
    resend_refused: bool = False,
    head: int = 0,
) -> Messages:
    """Return the messages to send from a valid history.

    Args:
        history: The conversation, valid and without a system prompt.
        window: The resume window.
        memo: A cache for the sizes of messages.
        resend_refused: True to also send refused and filtered responses.
        head: The number of messages at the beginning that are always sent: the summary of a
            compaction.

    Returns:
        A valid conversation; the same object if all of it is sent.
    """
    return window.apply(history if resend_refused else without_refused(history), memo, head=head)


def without_refused(history: Messages) -> Messages:
    """Return the history without refused responses and the results of their calls.

    Args:
        history: A valid conversation, in which the results of a response's calls directly follow
            the response.
    """
    if not any(message.refused for message in history):
        return history
    kept: list[Message] = []
    leaves_out = False
    for message in history:
        if message.role != "tool":
            leaves_out = message.refused
        if not leaves_out:
            kept.append(message)
    return Messages(kept)

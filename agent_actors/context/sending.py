"""The part of a session's history that is sent with the next request.

Pure. The history itself is not changed. Responses that the endpoint refused or filtered are left
out together with the results of their calls, unless the provider's profile has them sent again.
The user's messages around them stay, so two of them may follow each other: both encoders accept
that, as they do after a run that was interrupted. The resume window is applied to what is left.
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
) -> Messages:
    """Return the messages of a valid history that are sent.

    Args:
        history: The conversation, valid and without a system prompt.
        window: The resume window.
        memo: Caches measurements of messages while the conversation only grows.
        resend_refused: True to send refused and filtered responses, too.

    Returns:
        A valid conversation. The same object if all of it is sent.
    """
    return window.apply(history if resend_refused else without_refused(history), memo)


def without_refused(history: Messages) -> Messages:
    """Return the history without refused responses and the results of their calls.

    Args:
        history: A valid conversation: the results of a response's calls follow it directly.
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

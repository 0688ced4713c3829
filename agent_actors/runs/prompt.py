"""The prompt that starts a run, and its validation.

A prompt is a text, or a sequence of texts, images and files in the order in which the model sees
them. The complete prompt is checked before the run starts. Otherwise, content that the endpoint
rejects would stay in the session's history and make every later run fail. The check is local, so it
does not find out whether the model accepts images.
"""

from collections.abc import Sequence
from typing import TypeAlias

from agent_actors.domain.blocks import ContentBlock, FileBlock, ImageBlock, OpaqueBlock, TextBlock
from agent_actors.domain.media import check_source
from agent_actors.errors import ConfigError, MediaError
from agent_actors.protocol.turn import UserInput

PromptPart: TypeAlias = str | TextBlock | ImageBlock | FileBlock | OpaqueBlock
Prompt: TypeAlias = str | Sequence[PromptPart]
"""A text, or a list or tuple of the parts that the model sees, in order."""


def user_input(prompt: Prompt) -> UserInput:
    """Return the prompt in the form that the turn machine expects.

    Whitespace around a single text is removed. Texts in a sequence are not changed, but blank texts
    are dropped, because endpoints reject them.

    Raises:
        ConfigError: The prompt is blank, or is neither text nor a list or tuple of texts and
            blocks.
        MediaError: No endpoint accepts the source of an image or a file. The message contains its
            position.
    """
    if isinstance(prompt, str):
        text = prompt.strip()
        if not text:
            raise ConfigError("the prompt must not be blank; pass the user's input")
        return UserInput(text)
    if not isinstance(prompt, list | tuple):
        raise ConfigError(
            f"the prompt must be a str, or a list or tuple of texts and blocks; got {_kind(prompt)}"
        )
    parts = [_block(at, part) for at, part in enumerate(prompt)]
    blocks = tuple(part for part in parts if not isinstance(part, TextBlock) or part.text.strip())
    if not blocks:
        raise ConfigError("the prompt must not be blank; pass the user's input")
    text = "".join(block.text for block in blocks if isinstance(block, TextBlock))
    return UserInput(text, blocks)


def _block(at: int, part: PromptPart) -> ContentBlock:
    if isinstance(part, str):
        return TextBlock(part)
    if isinstance(part, ImageBlock | FileBlock):
        try:
            check_source(part.source)
        except MediaError as error:
            raise MediaError(f"prompt[{at}]: {error}") from None
    elif not isinstance(part, TextBlock | OpaqueBlock):  # pyright: ignore[reportUnnecessaryIsInstance] - as above
        raise ConfigError(
            f"prompt[{at}] must be a str, a TextBlock, an ImageBlock, a FileBlock or an "
            f"OpaqueBlock (agent_actors.media reads files); got {_kind(part)}"
        )
    return part


def _kind(value: object) -> str:
    return f"a value of type {type(value).__name__}"

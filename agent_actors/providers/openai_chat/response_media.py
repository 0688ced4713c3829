"""Images and audio in a chat completion response.

An image becomes an `ImageBlock`. There is no block for audio: the transcript is shown as text, and
a notice says that the audio is not kept.
"""

from collections.abc import Iterable, Iterator
from typing import Final, cast

from agent_actors.domain.blocks import ImageBlock
from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.domain.model import ModelDelta, NoticeDelta, ProgressDelta, TextDelta
from agent_actors.errors import MediaError

AUDIO_DROPPED: Final = "the response contains audio, which is not kept; only its transcript is"
"""The notice for a response with audio."""


class ResponseMedia:
    """The images and the audio of one response.

    Attributes:
        images: The images, in order, without duplicates.
        has_audio: True once audio has arrived.
    """

    __slots__ = ("_sources", "has_audio", "images")

    def __init__(self) -> None:
        self.images: list[ImageBlock] = []
        self.has_audio: bool = False
        self._sources: dict[str, None] = {}  # an empty set takes 150 bytes more

    @property
    def size(self) -> int:
        """The number of characters of the images so far."""
        return sum(map(len, self._sources))

    def add_images(self, parts: Iterable[object]) -> Iterator[ModelDelta]:
        """Add images; return the deltas to show: progress, or a notice about an invalid image."""
        for part in parts:
            url = _url_of(part)
            if not url or url in self._sources:
                continue
            self._sources[url] = None
            try:
                self.images.append(ImageBlock.from_url(url))
            except MediaError as error:
                yield NoticeDelta(f"an image in the response is invalid and was dropped: {error}")
            else:
                yield ProgressDelta()

    def add_audio(self, audio: JsonObject) -> Iterator[ModelDelta]:
        """Add a fragment of audio; return the deltas to show, with the transcript as text."""
        transcript = audio.get("transcript")
        if isinstance(transcript, str) and transcript:
            yield TextDelta(transcript)
        elif audio.get("data"):
            yield ProgressDelta()
        if audio.get("data") and not self.has_audio:
            self.has_audio = True
            yield NoticeDelta(AUDIO_DROPPED)


def is_image(part: JsonObject) -> bool:
    """Return whether a content part is an image."""
    return part.get("type") in {"image_url", "image"} or "image_url" in part


def _url_of(part: object) -> str:
    """Return the URL of an image: `{"image_url": {"url": …}}`, or a shorter form of it."""
    found = cast(JsonValue, part)
    for key in ("image_url", "url"):
        if isinstance(found, dict):
            found = found.get(key, found)
    return found if isinstance(found, str) else ""

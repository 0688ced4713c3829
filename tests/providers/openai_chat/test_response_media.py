"""Images and audio in responses of chat completions."""

import base64
import json

import pytest

from agent_actors.domain.blocks import ImageBlock, TextBlock
from agent_actors.domain.model import NoticeDelta, ProgressDelta
from agent_actors.errors import ProviderProtocolError
from agent_actors.providers.openai_chat.response_media import AUDIO_DROPPED
from tests.providers.openai_chat.answers import answer, chunk, read, read_all, sse, text

PNG = b"\x89PNG\r\n\x1a\n" + bytes(16)
URL = "data:image/png;base64," + base64.b64encode(PNG).decode()
IMAGE = ImageBlock(URL, "image/png")


def image(url: object = URL) -> dict[str, object]:
    return {"type": "image_url", "image_url": {"url": url}}


@pytest.mark.parametrize(
    "delta",
    [
        {"images": [image()]},
        {"images": [image(), image()]},
        {"images": [{"image_url": URL}, {"url": URL}, 7, {"type": "image_url"}]},
        {"content": [{"type": "text", "text": "!"}, image()]},
    ],
)
def test_image_becomes_a_block(delta: dict[str, object]) -> None:
    found = answer(text("Look"), chunk(delta), chunk({}, "stop"))
    assert found.blocks[-1] == IMAGE
    assert len(found.blocks) == 2


def test_image_alone_is_a_response() -> None:
    body = sse(chunk({"images": [image()]}), done=False)
    deltas, found = read_all([body])
    assert (found.blocks, found.finish_reason) == ((IMAGE,), "unmarked")
    assert deltas[0] == ProgressDelta()


def test_images_of_a_document_are_read() -> None:
    message = {"role": "assistant", "content": "Look", "images": [image()]}
    whole = {"choices": [{"message": message, "finish_reason": "stop"}]}
    assert read(json.dumps(whole).encode()).blocks == (TextBlock("Look"), IMAGE)


def test_invalid_image_is_reported() -> None:
    deltas, found = read_all([sse(text("Look"), chunk({"images": [image("data:,x")]}, "stop"))])
    assert found.blocks == (TextBlock("Look"),)
    [notice] = [delta.text for delta in deltas if isinstance(delta, NoticeDelta)]
    assert notice.startswith("an image in the response is invalid and was dropped")


def test_transcript_of_audio_is_text() -> None:
    pieces = [{"id": "audio_1", "transcript": "Hel"}, {"data": "AAAA"}, {"data": "AAAA"}]
    deltas, found = read_all(
        [sse(*(chunk({"audio": one}) for one in pieces), chunk({"audio": {"transcript": "lo"}}))]
    )
    assert found.blocks == (TextBlock("Hello"),)
    assert [one.text for one in deltas if isinstance(one, NoticeDelta)] == [AUDIO_DROPPED]
    assert deltas.count(ProgressDelta()) == 2


def test_audio_without_transcript_is_an_error() -> None:
    with pytest.raises(ProviderProtocolError, match="audio without a transcript"):
        answer(chunk({"audio": {"data": "AAAA"}}), chunk({}, "stop"))

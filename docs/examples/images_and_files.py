"""Ask about an image and a text file, and return an image from a tool."""

import os
import tempfile

import trio

from agent_actors import AgentOptions, FileBlock, ImageBlock, Prompt, open_runtime, tool
from agent_actors.errors import MediaError
from agent_actors.media import read_file, read_image

DOT = bytes.fromhex(  # a PNG image of one pixel
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000a49444154789c6300010000050001"
    "0d0a2db40000000049454e44ae426082"
)


@tool
async def screenshot() -> ImageBlock:
    """Take a screenshot."""
    return ImageBlock.from_bytes(DOT)


options = AgentOptions(
    model=os.environ.get("MODEL", "qwen2.5-vl-7b"),
    base_url=os.environ.get("BASE_URL", "http://localhost:1234/v1"),
    tools=[screenshot],
)


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        image = trio.Path(folder, "dot.png")
        await image.write_bytes(DOT)
        prompt: Prompt = [
            "What is this?",
            await read_image(image),
            "How does it differ from this one?",
            ImageBlock.from_url("https://example.org/cat.png", detail="low"),
            "The sizes of others:",
            FileBlock.from_text("name,size\ndot,1\n", name="sizes.csv"),
        ]
        try:
            await read_file(image, "text/plain")
        except MediaError as error:
            print(f"refused: {error}")
    async with open_runtime() as runtime:
        result = await runtime.run(prompt, options)
    print(result.messages[0].pretty())
    print(result.text)


trio.run(main)

"""The openai SDK: a client and a loop over the stream of one completion, without an agent."""

from openai import AsyncOpenAI

from driver import Turn, main


def make(url: str, tools: bool) -> Turn:
    client = AsyncOpenAI(base_url=url, api_key="not-needed", max_retries=0)

    async def turn() -> str:
        pieces = []
        stream = await client.chat.completions.create(
            model="m", messages=[{"role": "user", "content": "Go."}], stream=True
        )
        async for chunk in stream:
            text = chunk.choices[0].delta.content
            if text:
                pieces.append(text)
        return "".join(pieces)

    return turn


main(make)

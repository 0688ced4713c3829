"""An MCP server without the SDK, which behaves as its argument says; it starts quickly.

The tools do what their names say. `cancelled` reports which calls the client has cancelled.
"""

import base64
import json
import os
import signal
import sys
import threading
import time
from typing import Any

ANY: dict[str, Any] = {"type": "object"}
WORD: dict[str, Any] = {
    "type": "object",
    "properties": {"word": {"type": "string"}},
    "required": ["word"],
}
PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
    "YPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)
NAMES = ("exit", "hang", "huge", "flood", "blocks", "progress", "pid", "cancelled", "refuse", "env")
WRITING = threading.Lock()


def tools(mode: str) -> list[dict[str, Any]]:
    if mode == "many":
        return [{"name": f"tool{number}", "inputSchema": ANY} for number in range(5000)]
    if mode == "deep":
        deep: dict[str, Any] = {"type": "object"}
        for _ in range(300):
            deep = {"type": "object", "properties": {"a": deep}}
        return [{"name": "deep", "inputSchema": deep}]
    if mode == "hostile":
        remote = {"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:1/s.json"}}}
        broken = {"type": "object", "properties": {"a": {"type": "no such type"}}}
        return [
            {"name": "remote", "inputSchema": remote},
            {"name": "broken", "inputSchema": broken},
            {"name": "large", "inputSchema": {"type": "object", "title": "x" * 100_000}},
            {"name": "a b/../c\x00", "inputSchema": ANY},
            {"name": "a b/../d\x00", "inputSchema": ANY},
            {"name": "n" * 200, "inputSchema": ANY},
            {"name": "", "inputSchema": ANY},
            {"name": "echo", "inputSchema": WORD},
            {"name": "echo", "inputSchema": ANY, "description": "a second tool with this name"},
        ]
    echo = {"name": "echo", "description": "Echo a word.", "inputSchema": WORD}
    hints = {"readOnlyHint": True, "openWorldHint": False}
    return [echo, *({"name": name, "inputSchema": ANY, "annotations": hints} for name in NAMES)]


def send(message: dict[str, Any]) -> None:
    with WRITING:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def texts(*found: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text} for text in found]}


def call(name: str, message: dict[str, Any], cancelled: list[object]) -> dict[str, Any] | None:
    match name:
        case "echo":
            return texts(message["params"]["arguments"]["word"])
        case "exit":
            os._exit(3)
        case "hang":
            return None
        case "huge":
            return texts("x" * (3 * 2**20))
        case "flood":
            sys.stderr.write("noise " * 100_000)
            return texts("flooded")
        case "pid":
            return texts(str(os.getpid()))
        case "env":
            return texts(os.environ.get("TOKEN", ""), os.environ.get("AGENT_SECRET", "none"))
        case "cancelled":
            return texts(json.dumps(cancelled))
        case "refuse":
            return {**texts("it is closed"), "isError": True}
        case "progress":
            token = message["params"]["_meta"]["progressToken"]
            params = {"progressToken": token, "progress": 1, "total": 2, "message": "half"}
            send({"method": "notifications/progress", "params": params})
            return texts("done")
        case _:
            audio = base64.b64encode(b"RIFF").decode()
            resource = {"uri": "file:///a.txt", "mimeType": "text/plain", "text": "inside"}
            blob = {"uri": "file:///b.pdf", "mimeType": "application/pdf", "blob": "JVBERi0xLjQK"}
            content = [
                {"type": "text", "text": "one"},
                {"type": "image", "data": PIXEL, "mimeType": "image/png"},
                {"type": "image", "data": "AAAA", "mimeType": "image/png"},
                {"type": "audio", "data": audio, "mimeType": "audio/wav"},
                {"type": "resource", "resource": resource},
                {"type": "resource", "resource": blob},
                {"type": "resource_link", "uri": "file:///c", "name": "c", "description": "third"},
            ]
            return {"content": content, "structuredContent": {"n": 1}}


def respond(mode: str, message: dict[str, Any], cancelled: list[object]) -> None:
    method = message["method"]
    if method == "notifications/cancelled":
        cancelled.append(message["params"]["requestId"])
    if "id" not in message:
        return
    result: dict[str, Any] | None
    if method == "initialize":
        info = {"name": "raw", "version": "1"}
        result = {
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": info,
        }
    elif method == "tools/list":
        result = {"tools": tools(mode)}
    elif method == "tools/call":
        result = call(message["params"]["name"], message, cancelled)
    else:
        send({"id": message["id"], "error": {"code": -32601, "message": "unknown method"}})
        return
    if result is not None:
        send({"id": message["id"], "result": result})


def main(mode: str) -> None:
    if mode == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if mode == "garbage":
        sys.stdout.write("starting...\n{not json\n\n[]\n")
    cancelled: list[object] = []
    for line in sys.stdin:
        if mode != "silent":
            respond(mode, json.loads(line), cancelled)
    while mode == "deaf":
        time.sleep(60)


main(sys.argv[1] if len(sys.argv) > 1 else "")

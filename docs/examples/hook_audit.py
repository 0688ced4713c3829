"""An audit log: a line of JSON for each prompt and call, written before the call begins."""

import json
import tempfile
from pathlib import Path

import trio

from agent_actors import AgentOptions, open_runtime, tool
from agent_actors.audit import AuditFile
from agent_actors.hooks.builtin import AuditLog, RedactSecrets
from agent_actors.testing import ScriptedModel, call


@tool
async def pay(to: str, amount: float) -> str:
    """Pay a person."""
    return f"{amount} paid to {to}"


async def main() -> None:
    model = ScriptedModel([call("pay", {"to": "Ada", "amount": 3.5}), "Ada is paid."])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "audit.jsonl"
        # The file must outlive the runtime: closing the runtime ends sessions and logs their ends.
        async with AuditFile(path, durable=True) as file:
            log = AuditLog(file.write, clean=RedactSecrets().clean)
            options = AgentOptions(model="scripted", provider=model, tools=[pay], hooks=log)
            async with open_runtime() as runtime:
                await runtime.run("Pay Ada.", options)
        for line in path.read_text(encoding="utf-8").splitlines():
            entry = json.loads(line)
            details = {key: entry[key] for key in ("tool", "input", "result") if key in entry}
            print(entry["event"], details or "")


trio.run(main)

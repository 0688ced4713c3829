"""Public API of the audit log: the hook that creates the lines, and the file that stores them.

Example:
    ```python
    from agent_actors.audit import AuditFile, AuditLog

    async with AuditFile("audit.jsonl", durable=True) as file:
        options = AgentOptions(model="qwen3", provider="ollama", hooks=AuditLog(file.write))
    ```
"""

from agent_actors.hooks.builtin.audit import AuditLog as AuditLog
from agent_actors.stores.audit_file import AuditFile as AuditFile

"""The OpenAI-compatible files and batches: a batch is done as soon as it is made."""

from __future__ import annotations

import email
import json
from typing import Any

from tests.clients import openai
from tests.clients.faults import Reply, reply


class Batches:
    """Files and batches in memory."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.made: dict[str, dict[str, Any]] = {}

    def respond(self, server: Any, method: str, path: str, headers: Any, content: bytes) -> tuple[int, Any]:
        """The reply to a request for a file or a batch."""
        parts = path.strip("/").split("/")[1:]
        if method == "POST" and parts == ["files"]:
            return 200, self._keep(_uploaded(headers, content))
        if method == "POST" and parts == ["batches"]:
            return 200, self._run(server, json.loads(content))
        if parts[0] == "files" and parts[-1] == "content" and parts[1] in self.files:
            return 200, self.files[parts[1]]
        if parts[0] == "batches" and parts[-1] in self.made:
            return 200, self.made[parts[-1]]
        return 404, {"error": {"message": f"no such object: {path}", "type": "not_found", "code": None}}

    def _keep(self, content: bytes) -> dict[str, Any]:
        name = f"file-{len(self.files)}"
        self.files[name] = content
        return {
            "id": name,
            "object": "file",
            "bytes": len(content),
            "created_at": 1,
            "filename": "b",
            "purpose": "batch",
        }

    def _run(self, server: Any, body: dict[str, Any]) -> dict[str, Any]:
        lines = [
            self._line(server, json.loads(each)) for each in self.files[body["input_file_id"]].splitlines()
        ]
        name = f"batch-{len(self.made)}"
        output = self._keep("\n".join(map(json.dumps, lines)).encode())["id"]
        self.made[name] = {
            **{key: body[key] for key in ("endpoint", "input_file_id", "completion_window")},
            **{
                "id": name,
                "object": "batch",
                "created_at": 1,
                "status": "completed",
                "output_file_id": output,
            },
        }
        return self.made[name]

    def _line(self, server: Any, line: dict[str, Any]) -> dict[str, Any]:
        body = line["body"]
        prompt = "\n\n".join(message["content"] for message in body["messages"])
        number = server.requests
        server.bodies.append(body)
        found = reply(server.mode_of(number), server.write(prompt))
        fault = openai.refused(server, body)
        if fault is not None:
            found = Reply(status=400, error={"message": fault, "type": "invalid_request_error", "code": None})
        done = {"error": found.error} if found.error else openai.completion(server, body, prompt, found)
        response = {"status_code": found.status, "request_id": "r", "body": done}
        return {"id": f"line-{number}", "custom_id": line["custom_id"], "response": response, "error": None}


def _uploaded(headers: Any, content: bytes) -> bytes:
    """The file in a multipart upload."""
    message = email.message_from_bytes(
        b"content-type: " + headers["content-type"].encode() + b"\r\n\r\n" + content
    )
    parts = message.get_payload()
    return next(part.get_payload(decode=True) for part in parts if part.get_filename())

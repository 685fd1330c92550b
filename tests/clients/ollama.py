"""The Ollama-compatible side: chat, embed and show."""

from __future__ import annotations

import json
from typing import Any

from tests.clients.faults import Reply


def chat(server: Any, body: dict[str, Any], handler: Any) -> None:
    """`/api/chat`."""
    if not server.system and any(message["role"] == "system" for message in body["messages"]):
        server.bodies.append(body)
        handler.send(400, {"error": "template: :1: Conversation roles must alternate user/assistant/..."})
        return
    prompt = "\n\n".join(message.get("content") or "" for message in body["messages"])
    schema = body.get("format")
    extra = json.dumps(schema) if isinstance(schema, dict) else ""
    found: Reply | None = server.answer(prompt, extra, body, handler.gone)
    if found is None:
        handler.close_connection = True
        return
    if found.page:
        handler.send(200, b"<html><body>Bad gateway</body></html>")
        return
    if found.error is not None:
        handler.send(found.status, {"error": found.error["message"]}, found.headers)
        return
    text = found.refusal or found.text
    end = {
        "model": body["model"],
        "created_at": "2025-01-01T00:00:00Z",
        "done": True,
        "done_reason": found.finish_reason,
        "prompt_eval_count": server.tokens_in(prompt, extra),
        "eval_count": server.count_tokens(text),
    }
    if body.get("stream", True):
        lines = [
            *(
                {"model": body["model"], "done": False, "message": _message(body, piece)}
                for piece in ([text] if body.get("tools") or body.get("format") else server.pieces(text))
            ),
            {**end, "message": _message(body, "")},
        ]
        if found.broken:
            lines[-1:] = [{"error": "CUDA error"}] if found.then else []
        content = "".join(json.dumps(line) + "\n" for line in lines).encode()
        if found.drop:
            handler.send(200, content, drop=True)
        else:
            handler.send_lines([json.dumps(line) + "\n" for line in lines], "application/x-ndjson")
    else:
        handler.send(200, {**end, "message": _message(body, text)}, drop=found.drop)


def _message(body: dict[str, Any], text: str) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if body.get("tools") and text:
        try:
            arguments = json.loads(text)
        except ValueError:
            return message
        function = {"name": body["tools"][0]["function"]["name"], "arguments": arguments}
        message |= {"content": "", "tool_calls": [{"function": function}]}
    return message


def embed(server: Any, body: dict[str, Any], handler: Any) -> None:
    """`/api/embed`."""
    given = body["input"] if isinstance(body["input"], list) else [body["input"]]
    if status := server.embed_fault(given):
        handler.send(status, {"error": "the input length exceeds the context length"})
        return
    handler.send(200, {"model": body["model"], "embeddings": server.embed(given)})


def show(server: Any, body: dict[str, Any], handler: Any) -> None:
    """`/api/show`."""
    handler.send(200, {"model_info": {"llama.context_length": 8192}, "capabilities": ["completion"]})


PATHS = {"/api/chat": chat, "/api/embed": embed, "/api/show": show}

"""The OpenAI-compatible side: chat completions, completions and embeddings."""

from __future__ import annotations

import json
from typing import Any

from tests.clients.faults import Reply, reply

_NOT_STRICT = {
    "default",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "uniqueItems",
    "patternProperties",
}
_PAGE = b"<!DOCTYPE html><html><body>Please log in to the hotel's network.</body></html>"


def chat(server: Any, body: dict[str, Any], handler: Any) -> None:
    """`/v1/chat/completions`."""
    fault = refused(server, body)
    if fault is not None:
        server.bodies.append(body)
        handler.send(
            400, {"error": {"message": fault, "type": "invalid_request_error", "param": None, "code": None}}
        )
        return
    prompt = "\n\n".join(_text(message["content"]) for message in body["messages"])
    found = server.answer(prompt, extra(body), body, handler.gone)
    if found is None:
        handler.close_connection = True
    elif found.error is not None or found.page:
        _fail(handler, found)
    elif body.get("stream"):
        handler.send_lines(_events(server, body, found), "text/event-stream")
    else:
        handler.send(200, completion(server, body, prompt, found), found.headers, drop=found.drop)


def completion(server: Any, body: dict[str, Any], prompt: str, found: Reply) -> dict[str, Any]:
    """The body of an answer."""
    message: dict[str, Any] = {"role": "assistant", "content": found.text, "refusal": found.refusal}
    if found.refusal is not None:
        message["content"] = None
    reason = found.finish_reason
    if body.get("tools") and found.refusal is None and reason != "content_filter":
        function = {"name": body["tools"][0]["function"]["name"], "arguments": found.text}
        message |= {
            "content": None,
            "tool_calls": [{"id": "call_1", "type": "function", "function": function}],
        }
        reason = "tool_calls" if reason == "stop" else reason
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": body["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": reason, "logprobs": None}],
        "usage": _usage(server, prompt, extra(body), found.text),
    }


def batched(server: Any, line: dict[str, Any]) -> dict[str, Any]:
    """The result of a line of a batch file."""
    body, number = line["body"], server.requests
    prompt = "\n\n".join(message["content"] for message in body["messages"])
    server.bodies.append(body)
    found = reply(server.mode_of(number), server.write(prompt))
    fault = refused(server, body)
    if fault is not None:
        found = Reply(status=400, error={"message": fault, "type": "invalid_request_error", "code": None})
    done = {"error": found.error} if found.error else completion(server, body, prompt, found)
    response = {"status_code": found.status, "request_id": "r", "body": done}
    return {"id": f"line-{number}", "custom_id": line["custom_id"], "response": response, "error": None}


def complete(server: Any, body: dict[str, Any], handler: Any) -> None:
    """`/v1/completions`."""
    found = server.answer(body["prompt"], "", body, handler.gone)
    if found is None:
        handler.close_connection = True
    elif found.error is not None or found.page:
        _fail(handler, found)
    elif body.get("stream"):
        handler.send_lines(_pieces(body, found), "text/event-stream")
    else:
        choice = {"index": 0, "text": found.text, "finish_reason": found.finish_reason, "logprobs": None}
        usage = _usage(server, body["prompt"], "", found.text)
        answer = {"id": "cmpl-1", "object": "text_completion", "created": 1, "model": body["model"]}
        handler.send(200, {**answer, "choices": [choice], "usage": usage}, drop=found.drop)


def embed(server: Any, body: dict[str, Any], handler: Any) -> None:
    """`/v1/embeddings`."""
    given = body["input"] if isinstance(body["input"], list) else [body["input"]]
    given = [each if isinstance(each, str) else " ".join(map(str, each)) for each in given]
    if status := server.embed_fault(given):
        handler.send(
            status, {"error": {"message": "input too large", "type": "invalid_request_error", "code": None}}
        )
        return
    vectors = server.embed(given)
    data = [{"object": "embedding", "index": at, "embedding": vector} for at, vector in enumerate(vectors)]
    usage = {"prompt_tokens": len(given), "total_tokens": len(given)}
    handler.send(200, {"object": "list", "data": data, "model": body["model"], "usage": usage})


def extra(body: dict[str, Any]) -> str:
    """What of a request is read besides the messages: its schema."""
    if "response_format" in body:
        return json.dumps(body["response_format"].get("json_schema", {}).get("schema", {}))
    return "".join(json.dumps(tool["function"]["parameters"]) for tool in body.get("tools") or ())


def refused(server: Any, body: dict[str, Any]) -> str | None:
    """Why the request is a bad one, as real servers say it; None if it is not."""
    tools, wanted = body.get("tools"), body.get("response_format") or {}
    if not server.system and any(message["role"] == "system" for message in body["messages"]):
        return "System role not supported"
    if body.get("tool_choice") and not tools:
        return "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified."
    if tools and "tools" not in server.supports:
        return "This model does not support tools."
    if wanted and "schema" not in server.supports:
        return "'response_format' of type 'json_schema' is not supported with this model."
    schema = wanted.get("json_schema", {})
    if schema.get("strict"):
        fault = not_strict(schema.get("schema", {}))
        return fault and f"Invalid schema for response_format '{schema.get('name')}': {fault}"
    return None


def not_strict(schema: Any) -> str | None:
    """What strict mode refuses in a schema."""
    if isinstance(schema, list):
        return next(filter(None, map(not_strict, schema)), None)
    if not isinstance(schema, dict):
        return None
    for key in sorted(_NOT_STRICT & schema.keys()):
        if not isinstance(schema[key], dict):
            return f"'{key}' is not permitted."
    if "properties" in schema:
        if schema.get("additionalProperties") is not False:
            return "'additionalProperties' is required to be supplied and to be false."
        if set(schema.get("required", ())) != set(schema["properties"]):
            return (
                "'required' is required to be supplied and to be an array including every key in properties."
            )
    return next(filter(None, map(not_strict, schema.values())), None)


def _fail(handler: Any, found: Reply) -> None:
    if found.page:
        handler.send(200, _PAGE)
    else:
        handler.send(found.status, {"error": found.error}, found.headers)


def _usage(server: Any, prompt: str, schema: str, answer: str) -> dict[str, int]:
    given, made = server.tokens_in(prompt, schema), server.count_tokens(answer)
    return {"prompt_tokens": given, "completion_tokens": made, "total_tokens": given + made}


def _events(server: Any, body: dict[str, Any], found: Reply) -> list[str]:
    def event(delta: dict[str, Any], reason: str | None) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": body["model"]}
        return f"data: {json.dumps({**chunk, 'choices': [choice]})}\n\n"

    if found.refusal is not None:
        pieces = [event({"refusal": found.refusal}, None)]
    else:
        pieces = [event({"role": "assistant", "content": piece}, None) for piece in server.pieces(found.text)]
    if found.broken:
        return [*pieces, *(f"data: {each}\n\n" for each in _BREAKS[found.then])]
    return [*pieces, event({}, found.finish_reason), "data: [DONE]\n\n"]


_BREAKS = {"": [], "error": ['{"error": {"message": "CUDA error"}}'], "done": ["[DONE]"]}


def _pieces(body: dict[str, Any], found: Reply) -> list[str]:
    whole = {"id": "c", "object": "text_completion", "created": 1, "model": body["model"]}
    choice = {"index": 0, "finish_reason": found.finish_reason, "logprobs": None}
    words = [{**whole, "choices": [{**choice, "text": word + " "}]} for word in found.text.split()]
    return [*(f"data: {json.dumps(each)}\n\n" for each in words), "data: [DONE]\n\n"]


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content or ())


PATHS = {"/v1/chat/completions": chat, "/v1/completions": complete, "/v1/embeddings": embed}

"""Requests as JSON objects, and in OpenAI's form what is wrong with one (400) or how it failed (500)."""

import json
from typing import Any

from aiohttp import web


def bad_request(message: str) -> web.HTTPBadRequest:
    """A 400 whose body is `{"error": {"message", "type", "code"}}`."""
    error = {"message": message, "type": "BadRequestError", "param": None, "code": 400}
    return web.HTTPBadRequest(text=json.dumps({"error": error}), content_type="application/json")


def failure(message: str) -> web.HTTPInternalServerError:
    """A 500 in the same form, for a request that the engine gave up."""
    error = {"message": message, "type": "InternalServerError", "param": None, "code": 500}
    return web.HTTPInternalServerError(text=json.dumps({"error": error}), content_type="application/json")


async def read_object(request: web.Request) -> dict[str, Any]:
    """The request's body. Raises the 400 where it is no JSON object."""
    try:
        body = json.loads(await request.read())
    except (ValueError, RecursionError) as error:
        raise bad_request(f"the body is not JSON ({error})") from error
    if not isinstance(body, dict):
        raise bad_request("the body must be a JSON object")
    return body

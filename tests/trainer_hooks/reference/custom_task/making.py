"""The small data for the tests of the search environment."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler

from tests.http_serving import serving_requests
from trainer_hooks.reference.custom_task.bm25 import Bm25Corpus
from trainer_hooks.reference.custom_task.environment import SearchEnvironment
from trainer_hooks.reference.custom_task.questions import TextQuestion

CAPITALS = {
    "France": "Paris",
    "Germany": "Berlin",
    "Italy": "Rome",
    "Spain": "Madrid",
    "Peru": "Lima",
    "Norway": "Oslo",
}
PROMPT = "Q: {question}\n"


def write_lines(path, rows):
    """Write rows as JSON lines, and give the path."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def questions():
    """A question a country."""
    return [
        TextQuestion(f"capital of {country}?", (city,), f"q:{number}")
        for number, (country, city) in enumerate(CAPITALS.items(), start=1)
    ]


def corpus():
    """The contents of the corpus file."""
    return Bm25Corpus([f"The capital of {country} is {city}." for country, city in CAPITALS.items()], topk=1)


def environment_of(tokenizer, tool, **changes):
    """An environment of short prompts."""
    settings = {
        "context": 160, "max_actions": 3, "max_action_tokens": 48, "max_feedback_tokens": 24, "tool_seconds": 5.0,
        "prompt": PROMPT,
    }  # fmt: skip
    return SearchEnvironment(questions(), tool, tokenizer, **(settings | changes))


def say(environment, episode, text):
    """Pass a text token by token, and return the feedback as text; None where the action has not ended."""
    is_due = False
    for token in environment.encode(text):
        is_due = episode.step(token)
    return environment.decode(environment.feedback([episode])[0]) if is_due else None


@contextmanager
def retrieval_server(answer) -> Iterator[str]:
    """Serve POST /retrieve on a free port: ``answer`` maps a request's body to a status and the bytes of its answer."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status, content = answer(self.path, json.loads(body))
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            """Keep quiet."""

    with serving_requests(Handler) as url:
        yield url


def answered(rows):
    """Return an answer of Search-R1's form: a list of texts a query."""
    result = [[{"document": {"id": "0", "contents": text}, "score": 1.5} for text in row] for row in rows]
    return json.dumps({"result": result}).encode()

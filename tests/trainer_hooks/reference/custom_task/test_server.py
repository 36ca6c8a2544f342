"""A retrieval server of Search-R1's form, over real HTTP."""

import json

import pytest

from tests.trainer_hooks.reference.custom_task.making import answered, retrieval_server
from trainer_hooks.reference.custom_task.server import RetrievalServer
from trainer_hooks.reference.custom_task.tool import ToolError


def test_queries_go_out_and_passages_come_back_in_one_request():
    """The body is Search-R1's; no more than topk passages are taken."""
    seen = []

    def answer(path, body):
        seen.append((path, body))
        return 200, answered([["x", "y", "z"], []])

    with retrieval_server(answer) as url:
        tool = RetrievalServer(url, topk=2, timeout_seconds=5)
        assert tool.search(["a", "b"]) == [["x", "y"], []]
        assert RetrievalServer(f"{url}/retrieve/", topk=3, timeout_seconds=5).search(["a", "b"])[0] == ["x", "y", "z"]
    assert seen[0] == ("/retrieve", {"queries": ["a", "b"], "topk": 2, "return_scores": True})
    assert seen[1][0] == "/retrieve"


def test_a_server_that_stumbles_is_asked_again():
    """Two failures of 503, then an answer."""
    answers = [(503, b"busy"), (503, b"busy"), (200, answered([["x"]]))]
    with retrieval_server(lambda *_: answers.pop(0)) as url:
        assert RetrievalServer(url, topk=1, timeout_seconds=5).search(["a"]) == [["x"]]
    assert not answers


@pytest.mark.parametrize(
    ("status", "content", "message"),
    [
        (404, b"no such page", "must answer 200, got 404: no such page"),
        (200, b"<html>", 'must answer {"result":'),
        (200, json.dumps({"result": [[{"contents": "x"}]]}).encode(), "document"),
        (200, json.dumps({"result": [[{"document": {"contents": 7}}]]}).encode(), "contents"),
        (200, json.dumps({"detail": "oops"}).encode(), "result"),
    ],
)
def test_garbage_is_named(status, content, message):
    """The message has the needed answer and the defect of the given one."""
    with retrieval_server(lambda *_: (status, content)) as url, pytest.raises(ToolError) as raised:
        RetrievalServer(url, topk=1, timeout_seconds=5).search(["a"])
    assert message in str(raised.value)


def test_a_server_that_is_down_is_named(unused_port):
    """The message has the address and the remedy."""
    tool = RetrievalServer(f"http://127.0.0.1:{unused_port}", topk=1, timeout_seconds=1, pause_seconds=0.01)
    with pytest.raises(ToolError, match=rf"must answer at http://127.0.0.1:{unused_port}/retrieve.*--resume"):
        tool.search(["a"])

import contextlib
import hashlib
import random
import socket
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import numpy as np
import pytest
import torch

import trainer_hooks

STEPS = 30


@contextlib.contextmanager
def dead():
    """Nothing listens."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{unused.getsockname()[1]}"


@contextlib.contextmanager
def silent():
    """It takes the connection, and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def answering(status, body):
    """Give a collector that always answers the same."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            """Say nothing."""

    @contextlib.contextmanager
    def serving():
        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
            yield f"http://127.0.0.1:{server.server_port}"
            server.shutdown()

    return serving


def train(monitor):
    """Train a small policy; give a fingerprint of its weights, and of every random generator at the end."""
    for seed in (random.seed, np.random.seed, torch.manual_seed):
        seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Dropout(0.5), torch.nn.Linear(16, 4))
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.1)
    mask = torch.ones(6, 5, dtype=torch.bool)
    for step in range(STEPS):
        logits = model(torch.randn(6, 5, 8))
        logprobs = logits.log_softmax(-1)[..., 0]
        rewards = torch.as_tensor(np.random.rand(6) + random.random())  # noqa: NPY002, S311 - the generators that a trainer draws from
        loss = -(logprobs.mean(-1) * rewards).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        rollouts = {"logprobs": logprobs, "mask": mask, "rewards": rewards, "old_logprobs": logprobs - 0.1}
        monitor.log_step(step, {"loss/policy": loss}, rollouts=rollouts)
    weights = b"".join(parameter.detach().numpy().tobytes() for parameter in model.parameters())
    state = (random.getstate(), str(np.random.get_state()), torch.get_rng_state().tolist())  # noqa: NPY002 - as above
    return hashlib.sha256(weights).hexdigest(), state


@pytest.mark.parametrize(
    "collector",
    [dead, silent, answering(500, b"oops"), answering(200, b"<html>log in</html>"), answering(200, b"")],
    ids=["dead", "silent", "500", "garbage", "empty"],
)
@pytest.mark.parametrize("disk", ["writable", "full"])
def test_weights_and_generators_are_the_same_to_the_bit_whatever_fails(collector, disk, tmp_path, monkeypatch):
    """A watched training ends where an unwatched one does, with any collector, and with a disk that takes nothing."""
    spool = tmp_path / "spool"
    if disk == "full":
        spool.write_text("a file in the way: no folder can be made here")
    monkeypatch.setenv("RLVITALS_SPOOL_DIR", str(spool))
    alone = train(trainer_hooks.NullMonitor())
    with collector() as url:
        monitor = trainer_hooks.connect(url, run="r")
        assert train(monitor) == alone
        monitor._close_timeout_seconds = 0.3
        monitor.close()
    assert monitor._tally["internal_errors"] == 0

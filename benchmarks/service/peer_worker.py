"""Sends steps of 60 scalars to a peer's own server by its own client; runs in the environment of the peers.

``python peer_worker.py trackio|mlflow WARM_UP_SECONDS SECONDS PORT`` prints the steps a second that eight threads have
sent, without those of the warm-up.
"""

import contextlib
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor

SENDERS = 8
WRITE_TOKEN = "benchmark"  # noqa: S105 - of a server on the loopback, for some seconds
SCALARS = {f"signal/{place}": 0.5 for place in range(60)}


def mlflow_rate(warm_up: float, seconds: float, port: int) -> float:
    """Return the steps a second of an MLflow server on SQLite, in batches of ten steps."""
    with tempfile.TemporaryDirectory() as folder:
        url = f"http://127.0.0.1:{port}"
        command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port)]
        command += ["--backend-store-uri", f"sqlite:///{folder}/mlflow.db", "--workers", "1"]
        with serving(command, f"{url}/health"):
            from mlflow import MlflowClient  # noqa: PLC0415 - installed beside the peers alone
            from mlflow.entities import Metric  # noqa: PLC0415

            client = MlflowClient(tracking_uri=url)
            experiment = client.create_experiment("bench")
            runs = [client.create_run(experiment).info.run_id for _ in range(SENDERS)]

            def send(place: int, first: int) -> None:
                now = int(time.time() * 1000)
                metrics = [
                    Metric(name, value, now, step)
                    for step in range(first, first + 10)
                    for name, value in SCALARS.items()
                ]
                client.log_batch(runs[place], metrics=metrics)

            return rate(send, warm_up, seconds)


def trackio_rate(warm_up: float, seconds: float, port: int) -> float:
    """Return the steps a second of Trackio's server, in batches of ten steps."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"TRACKIO_DIR": folder, "GRADIO_SERVER_PORT": str(port), "GRADIO_ANALYTICS_ENABLED": "0"}
        os.environ["TRACKIO_WRITE_TOKEN"] = WRITE_TOKEN
        url = f"http://127.0.0.1:{port}/"
        with serving([sys.executable, "-m", "trackio.cli", "show"], url):
            from trackio.remote_client import RemoteClient  # noqa: PLC0415 - as above

            clients = [RemoteClient(url, write_token=WRITE_TOKEN) for _ in range(SENDERS)]

            def send(place: int, first: int) -> None:
                logs = [
                    {"project": "bench", "run": f"r{place}", "metrics": SCALARS, "step": step, "config": None}
                    for step in range(first, first + 10)
                ]
                clients[place].predict(api_name="/bulk_log", logs=logs, hf_token=None)

            return rate(send, warm_up, seconds)


def rate(send, warm_up: float, seconds: float) -> float:  # type: ignore[no-untyped-def]  # noqa: ANN001
    """Return the steps a second that all senders have sent after the warm-up; the error of a sender is raised."""
    begin = time.monotonic() + warm_up
    end = begin + seconds

    def work(place: int) -> int:
        step = counted = 0
        while (now := time.monotonic()) < end:
            send(place, step)
            step += 10
            counted += 10 if now >= begin else 0
        return counted

    with ThreadPoolExecutor(SENDERS) as threads:
        return sum(threads.map(work, range(SENDERS))) / seconds


@contextlib.contextmanager
def serving(command, url):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Run a server until the block ends."""
    with subprocess.Popen(  # noqa: S603 - the peer's own server
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    ) as process:
        try:
            deadline = time.monotonic() + 60
            while True:
                try:
                    with urllib.request.urlopen(url, timeout=1):  # noqa: S310 - loopback
                        break
                except OSError:
                    if time.monotonic() > deadline or process.poll() is not None:
                        raise
                    time.sleep(0.2)
            yield
        finally:
            os.killpg(process.pid, 15)


if __name__ == "__main__":
    name, warm_up, seconds, port = sys.argv[1:]
    print((mlflow_rate if name == "mlflow" else trackio_rate)(float(warm_up), float(seconds), int(port)))

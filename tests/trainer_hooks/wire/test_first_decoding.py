"""The first messages of a process may come in many threads at once."""

import subprocess
import sys

SCRIPT = """
import sys, threading
sys.setswitchinterval(1e-6)
from trainer_hooks import wire

record = wire.encode(wire.Record(step=1, time=0.0, scalars={"a": 1.0}, summaries={"b": wire.Moments(sum=1.0, count=2)}))
alert = wire.AlertNotice(id="1", kind="plateau", severity="info", opened_step=1, summary="")
receipt = wire.encode(wire.Receipt(run_id="r", accepted=1, rejected=[], judged_step=1, alerts=[alert]))

def work(begin, decode, body):
    begin.wait()
    for _ in range(50):
        decode(body)

for message in ((wire.decode_record, record), (wire.decode_receipt, receipt)):
    begin = threading.Event()
    threads = [threading.Thread(target=work, args=(begin, *message)) for _ in range(32)]
    for thread in threads:
        thread.start()
    begin.set()
    for thread in threads:
        thread.join()
"""


def test_the_first_messages_are_decoded_by_many_threads_at_once():
    """In eight processes; where the decoders were not made on import, two of five died of a segmentation fault."""
    for _ in range(8):
        assert subprocess.run([sys.executable, "-c", SCRIPT], check=False, timeout=60).returncode == 0

"""Fixtures for the tests of adapters: the steps that have arrived, and modules that stand in for a trainer's."""

import importlib
import sys
from pathlib import Path

import pytest
from accelerate.state import AcceleratorState

from trainer_hooks.callbacks.shared.post_import import after_import
from trainer_hooks.wire import decode_record, merge

sys.path.insert(0, str(Path(__file__).parent))  # tests are no package, and torchrun starts a file in this folder


@pytest.fixture
def steps(collector):
    """Return a function that reads the signals of each step that has arrived, with the ranks merged."""

    def read():
        by_step = {}
        for batch in collector.batches:
            for raw in batch.records:
                by_step.setdefault(decode_record(raw).step, []).append((-batch.rank, decode_record(raw)))
        ordered = {step: sorted(records, key=lambda pair: pair[0]) for step, records in sorted(by_step.items())}
        return {step: merge(record for _, record in records) for step, records in ordered.items()}

    return read


@pytest.fixture
def imported(tmp_path, monkeypatch):
    """Return a function that imports a trainer's module, given its source, while an adapter waits for that import."""
    monkeypatch.syspath_prepend(str(tmp_path))
    names = []

    def imported(source, then):
        names.append(f"trainers_module_{len(names)}")
        (tmp_path / f"{names[-1]}.py").write_text(source)
        after_import(names[-1], then)
        return importlib.import_module(names[-1])

    yield imported
    for name in names:
        sys.modules.pop(name, None)


@pytest.fixture
def full_precision(monkeypatch):
    """Reset the precision, because Accelerate and transformers 4 keep the first one of a process."""
    monkeypatch.delenv("ACCELERATE_MIXED_PRECISION", raising=False)
    AcceleratorState._reset_state()
    yield
    AcceleratorState._reset_state()

"""A slow reader of a run to which everything happens receives the run as it was, or no whole file."""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor_server.api.export import json_lines, run_pages
from monitor_server.api.export.json_lines import export_jsonl
from monitor_server.errors import Unavailable, UnknownRun
from tests.monitor_server.simulated_collectors import random_examples
from tests.monitor_server.step_processing.random_lives import Life

OF_PEOPLE = ("acknowledged_at", "acknowledged_by", "note")  # somebody may read a resolved alert while it is exported


def _content(lines):
    """Return the heading, the keys of the steps, and the phases and alerts of a file."""
    items = [json.loads(line) for line in b"".join(lines).splitlines()]
    steps = [(item["attempt"], item["step"]) for item in items if "step" in item]
    alerts = [
        {key: each for key, each in item["alert"].items() if key not in OF_PEOPLE} for item in items if "alert" in item
    ]
    return items[0], steps, [item for item in items if "phase" in item], alerts


class ExportedLife(Life):
    """A life in which files of the run are begun, and read part by part while it goes on."""

    def __init__(self, *of_life):
        super().__init__(*of_life)
        self.files = []  # the content at the beginning, what was read, the rest, and the disturbances until then
        self.disturbances = 0

    def settle_and_check(self):
        """Read on in the files, and begin one."""
        super().settle_and_check()
        self.files = [file for file in self.files if self.read_on(file, parts=self.draw.choice((0, 1, 3)))]
        store = self.collectors[0].store
        whole = list(export_jsonl(store, [self.cut_id]))
        if whole and self.draw.random() < 0.7:
            others = export_jsonl(store, [self.cut_id])
            self.files.append((_content(whole), [next(others)], others, self.disturbances))

    def read_on(self, file, *, parts):
        """Read some parts or all, and return whether the file has not broken off."""
        _, read, others, disturbances = file
        try:
            read.extend(itertools.islice(others, parts))
        except (UnknownRun, Unavailable):
            assert self.disturbances > disturbances, "a file has broken off for no reason"
            return False
        return True

    def finish(self):
        """Read the rest of each file: it is whole, or it breaks off."""
        for file in self.files:
            if self.read_on(file, parts=None):
                heading, steps, *findings = _content(file[1])
                then_heading, then_steps, *then_findings = file[0]
                assert (heading, findings) == (then_heading, then_findings)
                assert set(steps) >= set(then_steps)  # a late record may add a step that no detector reads

    def reset(self):
        """Note that a file may break off."""
        self.disturbances += 1
        super().reset()

    def quarantine(self):
        """Note that a file may break off."""
        self.disturbances += 1
        super().quarantine()

    def delete(self):
        """Note that a file may break off."""
        self.disturbances += 1
        super().delete()


@random_examples(1)
@given(seed=st.integers(0, 2**32 - 1))
@pytest.mark.usefixtures("small_parts")
def test_a_file_that_is_whole_is_the_run_at_its_beginning(two_stores, scripted, clock, monkeypatch, seed):
    """Rewinds, silence, acknowledgements, resets, quarantines and deletions come between the parts of the file."""
    monkeypatch.setattr(run_pages, "STEPS_PER_PAGE", 3)
    monkeypatch.setattr(json_lines, "ALERTS_PER_PAGE", 2)
    life = ExportedLife(seed, two_stores, scripted, clock)
    life.live(50)
    life.finish()

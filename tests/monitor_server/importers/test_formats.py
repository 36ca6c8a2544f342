"""Files of text and JSON become steps: documents, lists, lines, tables, notebooks, and folders of them."""

import csv
import json
import math
import sqlite3
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from monitor_server.importers.formats.delimited import MAX_COLUMNS
from monitor_server.importers.formats.table_layout import find_layout
from monitor_server.importers.mapping import NameMapping, parse_overrides
from monitor_server.importers.protocol import LogError, ReadReport
from monitor_server.importers.search.logs import find_logs
from monitor_server.importers.signal_names import read_row
from monitor_server.importers.steps import observe

ROWS = [{"step": step, "reward": 0.1 * step, "grad_norm": math.nan if step == 3 else 1.0} for step in range(1, 6)]


def steps_of(log, overrides=None):
    """Return a log's steps."""
    return list(observe(log.read(ReadReport()), NameMapping(overrides, log.aliases).signals))


def only(path):
    """Return the steps and the format of the one run in a place."""
    (log,) = find_logs([path])
    return steps_of(log), log.format


def assert_rows(steps):
    """Compare steps with ROWS."""
    assert [step.step for step in steps] == [1, 2, 3, 4, 5]
    assert [step.signals["reward/mean"] for step in steps] == [row["reward"] for row in ROWS]
    assert math.isnan(steps[2].signals["grad/norm"])


def write_delimited(path, separator, rows=ROWS):
    """Write rows under a heading."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter=separator)
        writer.writeheader()
        writer.writerows(rows)


def columns(rows):
    """Return rows as columns."""
    return {key: [row[key] for row in rows] for key in rows[0]}


DOCUMENTS = {
    "trainer_state.json": (
        {"global_step": 5, "log_history": [*ROWS, {"step": 5, "train_runtime": 1.0}]},
        "Hugging Face",
    ),
    "list.json": (ROWS, "JSON list"),
    "columns.json": (columns(ROWS), "JSON document"),
    "pandas.json": ({key: {str(n): v for n, v in enumerate(c)} for key, c in columns(ROWS).items()}, "JSON document"),
    "history.json": ({"run": "x", "history": {"rows": ROWS}}, "JSON document"),
    "samples.json": ({"samples": [{"prompt": "p", "reward": 1}] * 99, "history": ROWS}, "JSON document"),
}


@pytest.mark.parametrize("name", DOCUMENTS)
@pytest.mark.parametrize("indent", [None, 2])
def test_a_json_document_is_read(tmp_path, name, indent):
    """Hugging Face's state, lists, columns, and rows inside a document; NaN is kept."""
    content, form = DOCUMENTS[name]
    (tmp_path / name).write_text(json.dumps(content, indent=indent))
    steps, found = only(tmp_path / name)
    assert_rows(steps)
    assert found.startswith(form)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ({"train": ROWS, "eval": [{"step": step, "reward": 0.1} for step in range(9)]}, "eval: it is of an evaluation"),
        ({"val_history": columns(ROWS * 2), "train_history": columns(ROWS)}, "val_history: it is of an evaluation"),
        ({"a": {"log": ROWS[:3]}, "b": {"log": ROWS}}, "a/log: of the lists of rows only b/log is read"),
    ],
)
def test_of_several_lists_of_rows_a_training_is_read_and_the_others_are_named(tmp_path, content, problem):
    """An evaluation may have more rows than its training, and a document may hold several runs."""
    (tmp_path / "run.json").write_text(json.dumps(content))
    (log,) = find_logs([tmp_path / "run.json"])
    assert_rows(steps_of(log))
    report = ReadReport()
    list(log.read(report))
    (found,) = report.problems
    assert found.startswith(f"run.json, {problem}")


@pytest.mark.parametrize("has_steps", [False, True])
def test_columns_of_pandas_are_joined_by_their_keys(tmp_path, has_steps):
    """A signal that was logged later has no cell in the rows before; without a column of steps the keys are these."""
    content = {"reward": {"10": 0.1, "20": 0.2, "100": 0.3}, "grad_norm": {"100": 9.0}}
    if has_steps:
        content["step"] = {"10": 1, "20": 2, "100": 3}
    (tmp_path / "run.json").write_text(json.dumps(content))
    steps, _ = only(tmp_path / "run.json")
    assert [(step.step, step.signals.get("grad/norm")) for step in steps] == list(
        zip((1, 2, 3) if has_steps else (10, 20, 100), (None, None, 9.0), strict=True)
    )


@pytest.mark.parametrize(
    "nesting", [lambda row: row, lambda row: {"step": row["step"], "metrics": row}], ids=["flat", "nested"]
)
def test_json_lines_are_read(tmp_path, nesting):
    """At any nesting; a file's name does not matter."""
    (tmp_path / "run.log").write_text("".join(json.dumps(nesting(row)) + "\n" for row in ROWS))
    steps, found = only(tmp_path / "run.log")
    assert_rows(steps)
    assert found == "JSON lines"


def test_a_null_of_verls_file_logger_was_not_finite(tmp_path):
    """Verl writes ``data`` with orjson, which has no NaN."""
    line = {"step": 1, "data": {"critic/score/mean": 0.5, "actor/grad_norm": None}}
    (tmp_path / "verl.jsonl").write_text(json.dumps(line) + "\n")
    (step,), _ = only(tmp_path / "verl.jsonl")
    assert step.signals["reward/mean"] == 0.5
    assert math.isnan(step.signals["grad/norm"])


@pytest.mark.parametrize("separator", [",", "\t", ";"])
def test_a_table_of_text_is_read(tmp_path, separator):
    """An empty cell was not logged; a spelled NaN was."""
    write_delimited(tmp_path / "run.txt", separator)
    steps, found = only(tmp_path / "run.txt")
    assert_rows(steps)
    assert found == "CSV"


def test_a_table_with_decimal_commas_is_read(tmp_path):
    """Spreadsheets of many countries write 0,5 and separate cells by semicolons; a cell that is no number stays."""
    path = tmp_path / "run.csv"
    path.write_text("step;reward;entropy;note\n1;0,5;-1,25e-1;a,b\n2;0,75;,5;1,2,3\n")
    (log,) = find_logs([path])
    rows = list(log.read(ReadReport()))
    assert [read_row(row) for row in rows] == [
        {"reward/mean": 0.5, "entropy/mean": -0.125},
        {"reward/mean": 0.75, "entropy/mean": 0.5},
    ]
    assert [row["note"] for row in rows] == ["a,b", "1,2,3"]


def test_points_between_semicolons_are_decimal_points_where_no_number_has_a_comma(tmp_path):
    """numpy.savetxt writes the step 1.000, which separates thousands only in a table with decimal commas."""
    for reward, first in (("0.5", 1), ("0,5", 1_000)):
        rows = "".join(f"{step}.000;{reward}\n" for step in (1, 2, 3))
        (tmp_path / "run.csv").write_text(f"step;reward\n{rows}")
        steps, _ = only(tmp_path / "run.csv")
        assert [(step.step, step.signals) for step in steps[:1]] == [(first, {"reward/mean": 0.5})]


def test_a_line_of_dashes_that_ends_otherwise_is_read_at_once():
    """The time of the search for lines that draw a table grows with the length of the line, and not with its square."""
    assert find_layout("-" * 500_000 + " x\nstep reward\n1 0.5\n", is_cut=False) is None


TABLES = {
    "tabs with decimal commas": [
        "step\treward\tgrad_norm",
        "1\t0,1\t1,0",
        "2\t0,25\t1234,5",
        "3\t0,5\tNaN",
    ],
    "comments and blank lines": [
        "# made by a loop",
        "  ",
        "# step,reward,grad_norm",
        "1,0.1,1",
        "  ",
        "2,0.25,1234.5",
        "3,0.5,nan",
    ],
    "announced": [
        "sep=;",
        "step;reward;grad_norm",
        "1;0,1;1,0",
        "2;0,25;1.234,5",
        "3;0,5;NaN",
    ],
    "aligned": [
        "  step  reward grad_norm",
        "     1     0.1       1.0",
        "     2    0.25    1234.5",
        "     3     0.5       nan",
    ],
    "aligned with commas": [
        "step reward grad_norm",
        "1 0,1 1,0",
        "2 0,25 1234,5",
        "3 0,5 nan",
    ],
    "aligned names with blanks": [
        "Step  Reward  Grad Norm",
        "1     0.1     1.0",
        "2     0.25    1234.5",
        "3     0.5     nan",
    ],
    "a comment": [
        "# my run, 2026",
        "step,reward,grad_norm",
        "1,0.1,1",
        "2,0.25,1234.5",
        "3,0.5,nan",
    ],
    "comments and numpy": [
        "# my run",
        "# step,reward,grad_norm",
        "1,0.1,1",
        "2,0.25,1234.5",
        "3,0.5,nan",
    ],
    "numpy": [
        "# step reward grad_norm",
        "1 0.1 1.0",
        "2 0.25 1234.5",
        "3 0.5 nan",
    ],
    "pandas": [
        "   step  reward  grad_norm",
        "0     1    0.10        1.0",
        "1     2    0.25     1234.5",
        "2     3    0.50        NaN",
    ],
    "markdown": [
        "| step | reward | grad_norm |",
        "|---:|:---|---|",
        "| 1 | 0.1 | 1 |",
        "| 2 | 0.25 | 1,234.5 |",
        "| 3 | 0.5 | nan |",
    ],
    "a grid": [
        "+----+------+---------+",
        "|step|reward|grad_norm|",
        "+====+======+=========+",
        "|1|0.1|1|",
        "|2|0.25|1234.5|",
        "|3|0.5|nan|",
    ],
    "thousands between tabs": [
        "step\treward\tgrad_norm",
        "1\t0.1\t1.0",
        "2\t0.25\t1,234.5",
        "3\t0.5\tnan",
    ],
}


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_tables_as_people_and_spreadsheets_write_them_are_read(tmp_path, table, encoding):
    """With decimal commas, aligned by blanks, drawn by pipes, and in the encodings of Excel and PowerShell."""
    (tmp_path / "run.txt").write_bytes("".join(line + "\r\n" for line in TABLES[table]).encode(encoding))
    steps, found = only(tmp_path / "run.txt")
    assert found == "CSV"
    assert [step.step for step in steps] == [1, 2, 3]
    assert [step.signals["reward/mean"] for step in steps] == [0.1, 0.25, 0.5]
    assert [step.signals["grad/norm"] for step in steps[:2]] == [1.0, 1234.5]
    assert math.isnan(steps[2].signals["grad/norm"])


@pytest.mark.parametrize(
    "text",
    [
        "a reward of\n1 2 3\nwas found\n",
        "step reward\n1 done\n",
        "----\n| rollout/    |     |\n| ep_rew_mean | 0.5 |\n----\n",
        "reward was low\n1 2\n",
    ],
)
def test_text_with_blanks_and_pipes_is_no_table(tmp_path, text):
    """Such text is the output of a trainer, in which tables of two columns are blocks of a step."""
    (tmp_path / "run.txt").write_text(text)
    (log,) = find_logs([tmp_path / "run.txt"])
    assert log.format == "console log"


def test_a_row_without_a_step_belongs_to_the_step_before(tmp_path):
    """A loop logs a step in two rows; a row that repeats a signal is another step, numbered by its place."""
    rows = [{"step": 3, "reward": 0.1}, {"entropy": 0.5}, {"step": 4, "reward": 0.2}, {"entropy": 0.6, "grad_norm": 1}]
    (tmp_path / "run.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    steps, _ = only(tmp_path / "run.jsonl")
    assert [(step.step, step.attempt, step.signals) for step in steps] == [
        (3, 1, {"reward/mean": 0.1, "entropy/mean": 0.5}),
        (4, 1, {"reward/mean": 0.2, "entropy/mean": 0.6, "grad/norm": 1.0}),
    ]
    (tmp_path / "run.jsonl").write_text('{"step": 0, "lr": 0.1}\n{"reward": 0.5}\n{"reward": 0.6}\n{"reward": 0.7}\n')
    steps, _ = only(tmp_path / "run.jsonl")
    assert [step.step for step in steps] == [0, 2, 3]


@pytest.mark.parametrize(
    ("name", "heading", "row", "other"),
    [
        ("x.jsonl", "", '{{"step": {}, "reward": 0.5}}\n', '{"step": null, "eval_loss": 1}\n'),
        ("x.csv", "step,reward\n", "{},0.5\n", "step,reward\n"),
    ],
    ids=["null", "heading"],
)
def test_a_row_whose_step_is_no_number_belongs_to_the_step_before(tmp_path, name, heading, row, other):
    """An evaluation without a step, or the heading of a resumed loop, would be a rewind if it had its place as step."""
    rows = [row.format(step) for step in range(300, 400, 10)]
    (tmp_path / name).write_text(heading + "".join([*rows[:8], other, *rows[8:]]))
    steps, _ = only(tmp_path / name)
    assert [(step.step, step.attempt) for step in steps] == [(step, 1) for step in range(300, 400, 10)]
    assert {frozenset(step.signals) for step in steps} == {frozenset({"reward/mean"})}


@pytest.mark.parametrize("heading", ["kl,reward,step", "step,kl,entropy,reward", "step, reward, kl"])
def test_a_heading_in_the_middle_names_the_columns_after_it(tmp_path, heading):
    """A resumed loop may write other columns, or the same ones in another order: the reward would be the KL."""
    names = [name.strip() for name in heading.split(",")]
    row = {"step": "2", "reward": "0.5", "kl": "0.25", "entropy": "1.0"}
    rows = ["step,reward,kl", *["1,0.5,0.25"] * 8, heading, ",".join(row[name] for name in names)]
    (tmp_path / "x.csv").write_text("\n".join(rows) + "\n")
    steps, _ = only(tmp_path / "x.csv")
    assert [step.step for step in steps] == [1, 2]
    assert all(step.signals.items() >= {"reward/mean": 0.5, "kl/ref": 0.25}.items() for step in steps)


def test_the_number_of_a_row_without_a_usable_step_is_no_rewind(tmp_path):
    """The place of a row in the log is lower than the steps of a loop that logs every tenth one."""
    steps = [300, 310.5, None, 320, float("nan"), 330]
    rows = [json.dumps({"step": step, "reward": place / 10}) for place, step in enumerate(steps)]
    (tmp_path / "x.jsonl").write_text("\n".join(rows))
    found, _ = only(tmp_path / "x.jsonl")
    assert [(step.step, step.attempt) for step in found] == [(step, 1) for step in (300, 301, 302, 320, 321, 330)]


def test_a_row_with_a_step_below_zero_is_left_out_and_named(tmp_path):
    """A trainer's SDK drops it as well, and the step after it is no rewind."""
    rows = [json.dumps({"step": step, "reward": 0.5}) for step in (-1, 0, 1, -2, 2)]
    (tmp_path / "x.jsonl").write_text("\n".join(rows))
    (log,) = find_logs([tmp_path / "x.jsonl"])
    report = ReadReport()
    found = list(observe(log.read(report), NameMapping().signals, report))
    assert [(step.step, step.attempt) for step in found] == [(0, 1), (1, 1), (2, 1)]
    (note,) = report.notes
    assert note.startswith("2 rows have a step below 0, first row 1 with -1; such a row is left out")


@pytest.mark.parametrize("damaged", [1, 3, 4])
def test_a_damaged_row_at_the_beginning_of_a_table_costs_itself(tmp_path, damaged):
    """Such a table was in no known format, and left out of a searched folder; the last row is often cut."""
    rows = [f"{step},0.5,1.0" for step in range(5)]
    rows[damaged] = "3,0."
    (tmp_path / "run.csv").write_text("step,reward,grad_norm\n" + "\n".join(rows))
    (log,) = find_logs([tmp_path])
    report = ReadReport()
    assert [int(row["step"]) for row in log.read(report)] == [step for step in range(5) if step != damaged]
    assert report.problems == [f"run.csv, line {damaged + 2}: it has 2 cells, not 3"]


def test_a_quote_that_does_not_end_in_its_row_costs_that_row(tmp_path):
    """A row is cut within a text where the trainer ended; a text of several lines is one cell."""
    rows = [f'{step},"a, text",0.5' if step % 50 == 0 else f"{step},text,0.5" for step in range(300)]
    rows[20] = '20,"a te'
    rows[60] = '60,"two\nlines, of 3",0.5'
    rows[290] = '290,"a te'
    (tmp_path / "run.csv").write_text("step,text,reward\n" + "\n".join(rows))
    (log,) = find_logs([tmp_path / "run.csv"])
    report = ReadReport()
    read = list(log.read(report))
    assert [int(row["step"]) for row in read] == [step for step in range(300) if step not in (20, 290)]
    assert str(read[59]["text"]).endswith("lines, of 3")
    assert [problem.partition(":")[0] for problem in report.problems] == ["run.csv, line 22", "run.csv, line 293"]


@pytest.mark.parametrize("text", ["Add up:\n1,2,3,4\n5,6,7,8\n", 'Is it ""4""?\n1,2,3,4', "1,2,3,4\n" * 9])
@pytest.mark.parametrize("heading", ["step,prompt,answer,reward", "step,reward,answer,prompt"])
def test_lines_of_numbers_in_a_quoted_text_are_no_rows(tmp_path, text, heading):
    """Sums and lists in the texts of a task would be read as steps and rewards, or hide the table by their length."""
    cells = {"prompt": f'"{text}"', "answer": '"10\n"', "reward": "0.5"}
    rows = [",".join((cells | {"step": str(step)})[name] for name in heading.split(",")) for step in range(20)]
    (tmp_path / "run.csv").write_text("\n".join([heading, *rows]))
    (log,) = find_logs([tmp_path / "run.csv"])
    report = ReadReport()
    steps = list(observe(log.read(report), read_row, report))
    assert [(step.step, step.signals) for step in steps] == [(step, {"reward/mean": 0.5}) for step in range(20)]
    assert report.remarks == []


def test_rows_of_evaluations_and_of_other_ranks_are_left_out_and_named(tmp_path):
    """They may come before the row of the training at the same step; a LoRA's rank is no rank of a process."""
    rows = [
        {"step": step, "reward": reward, "split": split, "rank": rank}
        for step in range(3)
        for reward, split, rank in ((0.1, "val", 0), (0.5, "train", 0), (0.9, "train", 1))
    ]
    (tmp_path / "run.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (log,) = find_logs([tmp_path / "run.jsonl"])
    report = ReadReport()
    steps = list(observe(log.read(report), read_row, report))
    assert [step.signals for step in steps] == [{"reward/mean": 0.5}] * 3
    (note,) = report.notes
    assert note.startswith("6 rows have the mark of an evaluation")
    assert len(list(observe([{"step": step, "reward": 0.5, "rank": 16} for step in range(3)], read_row))) == 3


def test_a_table_with_too_many_columns_is_read_without_the_last_ones(tmp_path):
    """Its rows are as long as its heading, and none is passed over."""
    wide = MAX_COLUMNS + 5
    lines = ["step,reward," + ",".join(f"x{place}" for place in range(wide))]
    lines += [f"{step},0.5," + ",".join(["1"] * wide) for step in range(3)]
    (tmp_path / "x.csv").write_text("\n".join(lines))
    steps, form = only(tmp_path / "x.csv")
    assert (form, [(step.step, step.signals) for step in steps]) == (
        "CSV",
        [(s, {"reward/mean": 0.5}) for s in range(3)],
    )


@pytest.mark.parametrize(("logged", "entropy"), [([-0.4, -0.1, 0.2], [0.4, 0.1, -0.2]), ([0.4, 0.1, -0.2],) * 2])
def test_the_first_number_decides_the_sign_of_an_entropy_loss(tmp_path, logged, entropy):
    """The entropy of continuous actions may be negative: it crosses zero, and is not folded there."""
    (tmp_path / "run.csv").write_text(
        "step,reward,entropy_loss\n0,0.5,nan\n"
        + "".join(f"{step},0.5,{value}\n" for step, value in enumerate(logged, 1))
    )
    steps, _ = only(tmp_path / "run.csv")
    assert [step.signals["entropy/mean"] for step in steps[1:]] == entropy


def test_a_parquet_file_is_read(tmp_path):
    """The reader is pyarrow, which is an extra."""
    parquet.write_table(pa.table(columns(ROWS)), tmp_path / "run.parquet")
    steps, found = only(tmp_path / "run.parquet")
    assert_rows(steps)
    assert found == "Parquet"


def test_the_trainers_own_step_is_preferred_to_the_count_of_a_history_exported_from_wandb(tmp_path):
    """The row of an evaluation has the count alone, and belongs to the step before."""
    rows = [f"{2 * place},{10 * place},0.5,\n{2 * place + 1},,,0.25\n" for place in range(1, 4)]
    (tmp_path / "history.csv").write_text("_step,train/global_step,train/reward,eval/loss\n" + "".join(rows))
    steps, _ = only(tmp_path / "history.csv")
    assert [(step.step, step.attempt, step.signals) for step in steps] == [
        (step, 1, {"reward/mean": 0.5}) for step in (10, 20, 30)
    ]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        # Own steps from the first row: the others belong to them.
        ([(count, count if count % 10 == 0 else None) for count in range(40)], [0, 10, 20, 30]),
        # Own steps below those that were counted: the count remains, also for rows without it.
        ([(count, None) for count in range(6)] + [(5 + own, own) for own in range(1, 5)], list(range(10))),
        ([(count, None) for count in range(6)] + [(None, own) for own in range(1, 5)], list(range(10))),
        # One row before the training.
        ([(0, None), (1, 1), (2, None), (3, 2)], [0, 1, 2]),
    ],
)
def test_a_trainers_own_step_is_no_rewind_of_the_count_of_wandb(tmp_path, rows, expected):
    """Every row has a reward; the two numberings are not comparable."""
    logged = [{"_step": count, "train/global_step": own, "train/reward": 0.5} for count, own in rows]
    (tmp_path / "history.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in logged))
    steps, _ = only(tmp_path / "history.jsonl")
    assert [(step.step, step.attempt, step.signals) for step in steps] == [
        (step, 1, {"reward/mean": 0.5}) for step in expected
    ]


@pytest.mark.parametrize("keep_unknown", [False, True])
def test_what_was_logged_to_wandb_before_the_training_belongs_to_its_first_step(tmp_path, keep_unknown):
    """These rows have the count alone and no signal; `replay` keeps their numbers."""
    logged: list[dict[str, object]] = [{"_step": count, "eval/score": 0.25} for count in range(6)]
    logged += [{"_step": 5 + own, "train/global_step": own, "train/reward": 0.5} for own in (1, 2, 3)]
    (tmp_path / "history.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in logged))
    (log,) = find_logs([tmp_path / "history.jsonl"])
    steps = list(observe(log.read(ReadReport()), NameMapping(keep_unknown=keep_unknown).signals))
    assert [(step.step, step.attempt, step.signals.get("reward/mean")) for step in steps] == [
        (step, 1, 0.5) for step in (1, 2, 3)
    ]
    assert ("eval/score" in steps[0].signals) is keep_unknown


def test_runs_of_a_chart_from_wandb_may_share_a_name(tmp_path):
    """Transformers names a run after its output folder, so that two runs have the same."""
    heading = [f"out - train/reward{end}" for end in ("", "__MIN", "__MAX")] * 2
    rows = [["Step", *heading], *([str(step), *"111", *"222"] for step in range(3))]
    (tmp_path / "chart.csv").write_text("".join(",".join(row) + "\n" for row in rows))
    logs = find_logs([tmp_path / "chart.csv"])
    assert [log.name for log in logs] == ["out", "out-2"]
    assert [[step.signals["reward/mean"] for step in steps_of(log)] for log in logs] == [[1.0] * 3, [2.0] * 3]


@pytest.mark.parametrize("axis", ["Step", "train/global_step"])
def test_a_chart_exported_from_wandb_holds_a_run_a_column(tmp_path, axis):
    """Its bands are left out, and a step that a run did not log is none of its steps."""
    heading = [axis, *(f"{run} - train/reward{end}" for run in ("a", "b - 2") for end in ("", "__MIN", "__MAX"))]
    lines = [["1", "0.5", "0.5", "0.5", "", "", ""], ["2", "0.6", "0.6", "0.6", "0.1", "0.1", "0.1"]]
    (tmp_path / "wandb.csv").write_text("\n".join(",".join(f'"{cell}"' for cell in row) for row in [heading, *lines]))
    found = {log.name: [(s.step, s.signals) for s in steps_of(log)] for log in find_logs([tmp_path / "wandb.csv"])}
    assert found == {
        "a": [(1, {"reward/mean": 0.5}), (2, {"reward/mean": 0.6})],
        "b - 2": [(2, {"reward/mean": 0.1})],
    }


@pytest.mark.parametrize("heading", ["step,loss - train,loss - val", "step,loss - train,loss - val__MIN"])
def test_a_table_whose_names_have_dashes_is_no_chart_of_wandb(tmp_path, heading):
    """In W&B's chart with an axis other than `Step`, each run has its whole band."""
    (tmp_path / "x.csv").write_text(f"{heading}\n1,0.5,0.6\n2,0.4,0.6\n")
    (log,) = find_logs([tmp_path / "x.csv"])
    assert (log.name, log.format) == ("x", "CSV")


@pytest.mark.parametrize("runs", [1_350, 3_000])
def test_a_chart_of_many_runs_is_read_though_its_heading_is_long(tmp_path, runs):
    """The heading alone fills the part that identifies the format, or nearly all of it."""
    names = [f"grpo-sweep-learning-rate-{number:05}" for number in range(runs)]
    heading = ["Step", *(f"{name} - train/reward" for name in names)]
    lines = [[str(step), *(["0.5"] * runs)] for step in (1, 2)]
    (tmp_path / "wandb.csv").write_text("\n".join(",".join(f'"{cell}"' for cell in row) for row in [heading, *lines]))
    logs = find_logs([tmp_path / "wandb.csv"])
    assert [log.name for log in logs] == names
    assert [(step.step, step.signals) for step in steps_of(logs[-1])] == [
        (1, {"reward/mean": 0.5}),
        (2, {"reward/mean": 0.5}),
    ]


def test_a_notebooks_cells_are_runs(tmp_path):
    """The table that transformers shows, and the lines that a cell printed."""
    cells = "".join(f"<tr><td>{row['step']}</td><td>{row['reward']}</td><td>No log</td></tr>" for row in ROWS)
    table = f"<table><thead><tr style='x'><th>Step</th><th>reward</th><th>kl</th></tr></thead>{cells}</table>"
    printed = ["step 1: {'reward': 0.5}\n", "step 2: {'reward': 0.6}\n"]
    notebook = {
        "cells": [
            {"cell_type": "markdown", "source": "<table><tr><th>Step</th><th>reward</th></tr></table>"},
            {"cell_type": "code", "outputs": [{"output_type": "display_data", "data": {"text/html": [table]}}]},
            {"cell_type": "code", "outputs": [{"output_type": "stream", "text": printed}]},
        ],
        "nbformat": 4,
    }
    (tmp_path / "train.ipynb").write_text(json.dumps(notebook))
    logs = find_logs([tmp_path / "train.ipynb"])
    assert [log.name for log in logs] == ["train.cell1", "train.cell2"]
    assert [step.signals["reward/mean"] for step in steps_of(logs[0])] == [row["reward"] for row in ROWS]
    assert [(step.step, step.signals) for step in steps_of(logs[1])] == [
        (1, {"reward/mean": 0.5}),
        (2, {"reward/mean": 0.6}),
    ]


def test_of_a_trainers_checkpoints_the_newest_is_read(tmp_path):
    """Each holds the whole history; the run is named after the folder of the checkpoints."""
    for number in (5, 10, 9):
        folder = tmp_path / "out" / f"checkpoint-{number}"
        folder.mkdir(parents=True)
        (folder / "trainer_state.json").write_text(json.dumps({"log_history": [{"step": number, "reward": 1.0}]}))
    (log,) = find_logs([tmp_path])
    assert (log.name, [step.step for step in steps_of(log)]) == ("out", [10])


@pytest.mark.parametrize("written", [None, "", '{"global_step": 10}', '{"global_step": 10, "log_history": [{"ste'])
def test_a_checkpoint_in_whose_saving_the_trainer_ended_hides_no_run(tmp_path, written):
    """The history is written after weights and optimizer."""
    for number in (5, 10):
        (tmp_path / f"checkpoint-{number}").mkdir()
    (tmp_path / "checkpoint-10/model.safetensors").write_bytes(bytes(8))
    if written is not None:
        (tmp_path / "checkpoint-10/trainer_state.json").write_text(written)
    (tmp_path / "checkpoint-5/trainer_state.json").write_text('{"log_history": [{"step": 5, "reward": 1.0}]}')
    reasons = []
    (log,) = find_logs([tmp_path], passed_over=reasons.append)
    assert [step.step for step in steps_of(log)] == [5]
    (reason,) = reasons
    assert "checkpoint-10 was passed over" in reason


def write_mlflow(folder, metrics):
    """Write a run of MLflow's file store: metric → its times and steps."""
    for key, numbers in metrics.items():
        path = folder / "metrics" / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{time} 0.5 {step}\n" for time, step in numbers))
    (folder / "meta.yaml").write_text("run_name: a\n")


def test_a_run_has_the_name_of_its_folder_however_that_is_given(tmp_path, monkeypatch):
    """Two runs that are named `..` would be one run of a collector, and a run without a name is refused."""
    state = '{"log_history": [{"step": 5, "reward": 1.0}]}'
    files = {
        "state/trainer_state.json": state,
        "saved/checkpoint-5/trainer_state.json": state,
        "rows/data.jsonl": '{"step": 5, "reward": 1.0}\n',
        "run-20260101_101010-abc/files/output.log": "step=5 reward=1.0\n",
    }
    for place, content in files.items():
        (tmp_path / place).parent.mkdir(parents=True)
        (tmp_path / place).write_text(content)
    write_mlflow(tmp_path / "mlflow", {"reward": [(1000, 5)]})
    (tmp_path / "mlflow/meta.yaml").write_text("run_uuid: a\n")
    names = [place.partition("/")[0] for place in files]
    for place, name in zip([*files, "mlflow/metrics"], [*names, "mlflow"], strict=True):
        below = (tmp_path / place).parent / "below"
        below.mkdir()
        monkeypatch.chdir(below)
        is_file = name not in {"rows", "mlflow"}  # which are runs as whole folders
        assert [log.name for log in find_logs([Path("..") / (place.rpartition("/")[2] if is_file else "")])] == [name]
        monkeypatch.chdir("..")
        assert [log.name for log in find_logs([Path()])] == [name]


@pytest.mark.parametrize("is_timed", [True, False])
def test_a_run_of_mlflow_that_was_resumed_has_an_attempt_a_launch(tmp_path, is_timed):
    """Each metric has a file of its own, in which the steps go back; a copied store may have one time everywhere."""
    steps = [*range(1, 5), *range(3, 7)]
    numbers = [(1000 * place if is_timed else 0, step) for place, step in enumerate(steps)]
    write_mlflow(tmp_path / "run", {"reward": numbers, "grad_norm": numbers, "entropy": numbers[2:]})
    found, form = only(tmp_path / "run")
    assert form == "MLflow run folder"
    assert [(step.step, step.attempt) for step in found] == list(zip(steps, [1] * 4 + [2] * 4, strict=True))
    assert [len(step.signals) for step in found] == [2, 2, *[3] * 6]


def test_the_load_of_the_machine_in_a_run_of_mlflow_is_no_step(tmp_path):
    """Its step counts samples, of which there are far more than steps."""
    samples = [(100 * place, place) for place in range(50)]
    write_mlflow(tmp_path / "run", {"reward": [(1000, 1), (2000, 2)], "system/cpu_utilization_percentage": samples})
    with closing(sqlite3.connect(tmp_path / "mlflow.db")) as connection, connection:
        connection.execute("CREATE TABLE runs (run_uuid, name, lifecycle_stage, start_time)")
        connection.execute("CREATE TABLE metrics (key, value, step, is_nan, run_uuid, timestamp)")
        connection.execute("INSERT INTO runs VALUES ('a', 'a', 'active', 0), ('b', 'only sampled', 'active', 1)")
        connection.executemany(
            "INSERT INTO metrics VALUES (?, 0.5, ?, 0, ?, ?)",
            [("reward", 1, "a", 1000), ("reward", 2, "a", 2000)]
            + [("system/cpu_utilization_percentage", step, run, time) for time, step in samples for run in "ab"],
        )
    for name in ("run", "mlflow.db"):
        found, _ = only(tmp_path / name)
        assert [(step.step, step.signals) for step in found] == [(step, {"reward/mean": 0.5}) for step in (1, 2)]


def test_a_deleted_run_of_mlflow_is_read_where_it_is_named(tmp_path):
    """The file store keeps its folder; the database marks it, and it is left out there, too."""
    for run, stage in (("a", "active"), ("b", "deleted")):
        write_mlflow(tmp_path / run, {"reward": [(1000, 1)]})
        (tmp_path / run / "meta.yaml").write_text(f"lifecycle_stage: {stage}\nrun_name: {run}\n")
    assert [log.name for log in find_logs([tmp_path])] == ["a"]
    assert [log.name for log in find_logs([tmp_path / "b"])] == ["b"]


def test_a_folder_is_searched_for_logs_and_for_nothing_else(tmp_path):
    """Tables and text count where they name a signal; links are not followed; equal names are numbered."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    for folder in ("a", "b"):
        write_delimited(tmp_path / folder / "metrics.csv", ",")
    (tmp_path / "a" / "labels.csv").write_text("run,label\nx,1\n")
    (tmp_path / "a" / "notes.txt").write_text("step by step\n")
    (tmp_path / "a" / "config.json").write_text('{"learning_rate": 0.1}')
    (tmp_path / "b" / "loop").symlink_to(tmp_path)
    assert [log.name for log in find_logs([tmp_path])] == ["metrics", "metrics-2"]
    assert [log.name for log in find_logs([tmp_path], keys=["label"])] == ["labels", "metrics", "metrics-2"]


def test_a_signal_may_be_read_from_a_key_of_the_users(tmp_path):
    """`--map` comes before every known name, and names the keys that no row had."""
    (tmp_path / "run.jsonl").write_text('{"step": 1, "my_reward": 0.5, "reward": 9.0, "own": 3}\n')
    (log,) = find_logs([tmp_path / "run.jsonl"])
    mapping = NameMapping(parse_overrides(["reward/mean=my_reward", "grad/norm=absent"]))
    (step,) = observe(log.read(ReadReport()), mapping.signals)
    assert step.signals == {"reward/mean": 0.5}
    assert mapping.keys_of_signals() == {"reward/mean": "my_reward"}
    assert mapping.unknown() == ["own"]
    assert mapping.unused_overrides() == {"grad/norm": "absent"}


def test_of_two_keys_of_a_signal_the_one_that_is_read_is_named_first(tmp_path):
    """The report would name the reward with the penalty, which verl logs first."""
    (tmp_path / "run.jsonl").write_text('{"step": 1, "critic/rewards/mean": 0.1, "critic/score/mean": 0.5}\n')
    (log,) = find_logs([tmp_path / "run.jsonl"])
    mapping = NameMapping()
    (step,) = observe(log.read(ReadReport()), mapping.signals)
    assert step.signals == {"reward/mean": 0.5}
    assert mapping.keys_of_signals() == {"reward/mean": "critic/score/mean, critic/rewards/mean"}


@pytest.mark.parametrize("name", ["iteration", "Iter", "train/iteration", "global_steps"])
def test_an_iteration_is_a_step_where_there_is_no_other(tmp_path, name):
    """A table with one row for each ten iterations would have a tenth of the steps."""
    (tmp_path / "run.csv").write_text(f"{name},reward\n10,0.5\n20,0.6\n")
    (log,) = find_logs([tmp_path / "run.csv"])
    mapping = NameMapping()
    assert [step.step for step in observe(log.read(ReadReport()), mapping.signals)] == [10, 20]
    assert mapping.unknown() == []
    (tmp_path / "both.jsonl").write_text(f'{{"step": 7, "{name}": 1}}\n{{"{name}": 2, "reward": 0.5}}\n')
    (log,) = find_logs([tmp_path / "both.jsonl"])
    assert [step.step for step in observe(log.read(ReadReport()), NameMapping().signals)] == [7]


def test_rows_that_lack_the_key_of_the_users_have_no_number_of_another(tmp_path):
    """Two metrics are not one signal; in a log without the key the known name counts."""
    (tmp_path / "run.jsonl").write_text('{"step": 1, "mine": 0.5, "reward": 9.0}\n{"step": 2, "reward": 9.0}\n')
    (tmp_path / "other.jsonl").write_text('{"step": 1, "reward": 9.0}\n')
    for name, rewards in (("run", [{"reward/mean": 0.5}, {}]), ("other", [{"reward/mean": 9.0}])):
        (log,) = find_logs([tmp_path / f"{name}.jsonl"])
        mapping = NameMapping({"reward/mean": "mine"})
        assert [step.signals for step in observe(log.read(ReadReport()), mapping.signals)] == rewards


@pytest.mark.parametrize("text", ["reward/mean", "=x", "reward/mean=", "reward/man=x"])
def test_a_mapping_that_names_no_signal_is_refused(text):
    """The message has the needed form, or the similar names."""
    with pytest.raises(LogError, match=r"--map must (look like|name a signal).*reward/mean"):
        parse_overrides([text])


@given(st.lists(st.floats(width=64) | st.integers(-(2**53), 2**53), min_size=1, max_size=20))
def test_every_number_is_read_back_from_every_text_format(tmp_path_factory, values):
    """Python reads the numbers that Python prints: JSON lines, a list, CSV, and a printed dict."""
    folder = tmp_path_factory.mktemp("numbers")
    rows = [{"step": step, "reward": value, "kl": 0.0} for step, value in enumerate(values)]
    (folder / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "b.json").write_text(json.dumps(rows))
    write_delimited(folder / "c.csv", ",", rows)
    (folder / "d.log").write_text(
        "".join(f"step {row['step']}: {{'reward': {row['reward']}, 'kl': 0.0}}\n" for row in rows)
    )
    for name in ("a.jsonl", "b.json", "c.csv", "d.log"):
        steps, _ = only(folder / name)
        found = [step.signals["reward/mean"] for step in steps]
        assert [(step.step, repr(value)) for step, value in zip(steps, found, strict=True)] == [
            (row["step"], repr(float(row["reward"]))) for row in rows
        ]


@pytest.mark.parametrize(
    ("heading", "row"),
    [
        ("step,reward,completion_length", '7,0.5,"1,234.5"'),
        ("step,reward,completion_length", '7,50%,"1,234.50"'),
        ("step,reward,completion_length", '7,"0,5","1.234,5"'),
        ("step,reward,completion_length", '7,"0,500","1234,500"'),
        ("step;reward;completion_length", "7;0,5;1.234,5"),
        ("step;reward;completion_length", "7; 50 %;1234,5"),
        ("step,reward,completion_length,reward", "7,0.5,1234.5,0.9"),
    ],
)
def test_numbers_as_spreadsheets_write_them_are_read(tmp_path, heading, row):
    """Thousands are grouped, shares have a percent sign, and a name may occur twice: the first column counts."""
    (tmp_path / "x.csv").write_text(f"{heading}\n{row}\n")
    (log,) = find_logs([tmp_path / "x.csv"])
    (step,) = observe(log.read(ReadReport()), NameMapping().signals)
    assert (step.step, step.signals) == (7, {"reward/mean": 0.5, "length/mean": 1234.5})


@pytest.mark.parametrize("first", ['ard": 0.5}', '{"config": "' + "x" * 100_000 + '"}'])
def test_json_lines_are_recognised_after_a_first_line_that_is_cut_off_or_long(tmp_path, first):
    """As a console log, the numbers of the evaluation would have the names of the training."""
    row = '{"step": 7, "eval": {"reward": 0.9}, "train": {"reward": 0.5}}\n'
    (tmp_path / "x.jsonl").write_text(f"{first}\n{row}{row}")
    (log,) = find_logs([tmp_path / "x.jsonl"])
    assert log.format == "JSON lines"
    assert [step.signals for step in observe(log.read(ReadReport()), NameMapping().signals)][-1] == {"reward/mean": 0.5}


def test_a_row_between_the_steps_that_has_neither_a_step_nor_a_signal_is_no_step(tmp_path):
    """Numbered by its place, it would go back and begin a new attempt, in which nothing was learnt."""
    rows = [f'{{"step": {step}, "reward": 0.5}}\n{{"eval_loss": 0.25}}\n' for step in range(100, 110)]
    (tmp_path / "x.jsonl").write_text("".join(rows))
    (log,) = find_logs([tmp_path / "x.jsonl"])
    steps = list(observe(log.read(ReadReport()), NameMapping().signals))
    assert [(step.step, step.attempt) for step in steps] == [(step, 1) for step in range(100, 110)]


def test_rows_in_the_opposite_order_of_their_steps_are_named(tmp_path):
    """Each begins a new attempt, so that no detector can find anything in them."""
    log = tmp_path / "x.jsonl"
    log.write_text("".join(f'{{"step": {step}, "reward": 0.5}}\n' for step in range(40, 0, -1)))
    (found,) = find_logs([log])
    report = ReadReport()
    assert len(list(observe(found.read(report), NameMapping().signals, report))) == 40
    (note,) = report.notes
    assert note.startswith("39 rows have a lower step than the previous row")


def test_a_run_that_was_resumed_a_few_times_goes_without_a_note(tmp_path):
    """Three resumptions are no disorder."""
    steps = [*range(40), *range(30, 60), *range(50, 80), *range(70, 99)]
    (tmp_path / "x.jsonl").write_text("".join(f'{{"step": {step}, "reward": 0.5}}\n' for step in steps))
    (found,) = find_logs([tmp_path / "x.jsonl"])
    report = ReadReport()
    assert list(observe(found.read(report), NameMapping().signals, report))[-1].attempt == 4
    assert report.notes == []


def test_a_mean_number_of_attempts_at_a_problem_begins_no_attempt_of_the_run(tmp_path):
    """It rises and falls from step to step, and every rise would be a restart."""
    (tmp_path / "x.csv").write_text("step,reward,attempt\n1,0.5,1.0\n2,0.5,1.25\n3,0.5,1.5\n4,0.5,2\n")
    steps, _ = only(tmp_path / "x.csv")
    assert [(step.step, step.attempt) for step in steps] == [(1, 1), (2, 1), (3, 1), (4, 2)]


def test_shares_in_percent_are_named(tmp_path):
    """A detector would say that 5,500 % of the responses are cut; a NaN is no percentage."""
    log = tmp_path / "x.jsonl"
    log.write_text(
        '{"step": 1, "clip_frac": NaN, "reward": 40}\n{"step": 2, "clip_frac": 12.0}\n{"step": 3, "clip_frac": 1.0}\n'
    )
    (found,) = find_logs([log])
    report = ReadReport()
    list(observe(found.read(report), NameMapping().signals, report))
    (note,) = report.notes
    assert note.startswith("1 shares of the log are not between 0 and 1, first row 2 with ratio/clip_frac = 12")


def test_characters_beyond_ascii_are_whole_wherever_the_file_is_divided(tmp_path):
    """A list of some megabytes is read in pieces, and a piece may end within a character of four bytes."""
    key = "𝄞" * 500
    path = tmp_path / "history.json"
    path.write_text(json.dumps([{"step": step, key: 1.0} for step in range(1700)], ensure_ascii=False))
    (log,) = find_logs([path])
    rows = list(log.read(ReadReport()))
    assert len(rows) == 1700
    assert {tuple(row) for row in rows} == {("step", key)}

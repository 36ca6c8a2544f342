"""Exports that people and programs have changed: only the damaged part is lost, and it is named with its place."""

import json

import pyarrow as pa
import pytest
from pyarrow import parquet

from monitor_server.commands.main import main
from monitor_server.importers.protocol import LogError, ReadReport
from monitor_server.importers.search.logs import find_logs

HEADING = {"rlvitals_export": 1, "run": "a", "project": "p", "config": {}}


def step(number, **fields):
    """Return the line of a step."""
    return {"step": number, "attempt": 1, "time": 10.0 + number, "signals": {"reward/mean": 0.5}} | fields


def written(path, rows, **options):
    """Write JSON lines."""
    path.write_text("".join(json.dumps(row, **options) + "\n" for row in rows))
    return path


def table(path, *, names=("a",), version=1, **columns):
    """Write a Parquet file in the form of an export, with other columns in place of its own."""
    own = {
        "rlvitals.run": ["a", "a"], "rlvitals.attempt": [1, 1], "rlvitals.step": [1, 2], "rlvitals.time": [1.0, 2.0],
        "rlvitals.data_version": ["v", "v"], "rlvitals.acknowledged": [[], ["kind"]], "reward/mean": [0.5, 0.25],
    } | {name.replace("_", ".", 1): column for name, column in columns.items()}  # fmt: skip
    runs = {"rlvitals_export": json.dumps({"version": version, "runs": names})}
    made = pa.table({name: column for name, column in own.items() if column is not None})
    parquet.write_table(made.replace_schema_metadata(runs), path)
    return path


@pytest.mark.parametrize(
    "fields",
    [
        {"step": None}, {"step": "first"}, {"step": -1}, {"step": 1.5}, {"step": 2**70}, {"attempt": 0},
        {"attempt": []}, {"time": "noon"}, {"acknowledged": 1}, {"acknowledged": [{}]},
        {"signals": {"reward/mean": None}}, {"signals": {"reward/mean": "high"}}, {"signals": {"reward/mean": True}},
        {"signals": []}, {"step": "\ud800"},
    ],
    ids=str,
)  # fmt: skip
def test_a_line_that_is_no_step_is_passed_over_and_named(tmp_path, fields):
    """The steps before and behind it are read."""
    (log,) = find_logs([written(tmp_path / "run.jsonl", [HEADING, step(1), step(2, **fields), step(3)])])
    report = ReadReport()
    assert [row.step for row in log.read(report)] == [1, 3]
    (problem,) = report.problems
    assert problem.startswith("run.jsonl, line 3: it is no step of an export: ")


def test_a_run_whose_heading_another_program_has_sorted_is_read(tmp_path):
    """The heading of a run is recognised by its content, for any order of its fields: `jq -S` sorts them."""
    rows = [HEADING, step(1), HEADING | {"run": "b"}, step(2), step(3)]
    logs = find_logs([written(tmp_path / "runs.jsonl", rows, sort_keys=True)])
    found = {log.name: [(row.step, dict(row)) for row in log.read(ReadReport())] for log in logs}
    assert found == {"a": [(1, {"reward/mean": 0.5})], "b": [(each, {"reward/mean": 0.5}) for each in (2, 3)]}


def test_a_run_that_was_cut_is_refused_and_the_whole_ones_are_read(tmp_path):
    """A download that broke off at the end of a line reads as a run in which nothing happened, or as fewer runs."""
    end = {"rlvitals_export_end": 2}
    first, second = [HEADING | {"place": 1}, step(1), step(2)], [HEADING | {"place": 2, "run": "b"}, step(3)]

    def read(*rows, **options):
        found = {}
        for log in find_logs([written(tmp_path / "runs.jsonl", rows)]):
            try:
                found[log.name] = [row.step for row in log.read(ReadReport(**options))]
            except LogError as error:
                found[log.name] = str(error)
        return found

    assert read(*first, *second, end) == {"a": [1, 2], "b": [3]}
    cut = read(*first, *second)
    assert cut["a"] == [1, 2]
    assert "runs.jsonl must hold the whole run 'b': after line 5, neither" in cut["b"]
    assert "the whole run 'a': after line 2, neither" in read(*first[:2])["a"]
    assert "the whole run 'a': after line 2, neither" in read(*first[:2], second[0] | {"place": 1}, step(3), end)["a"]
    assert read(*first, is_growing=True) == {"a": [1, 2]}
    assert read(*second, end, *first, {"rlvitals_export_end": 1}) == {"b": [3], "a": [1, 2]}  # as the error advises


def test_an_export_that_was_appended_to_a_cut_one_is_not_read_as_its_rest(tmp_path):
    """A download that broke off within a line and was repeated into the same file holds two beginnings of runs."""
    whole = b"".join(json.dumps(row).encode() + b"\n" for row in (HEADING | {"place": 1}, step(1), step(2)))
    file = tmp_path / "run.jsonl"
    file.write_bytes(whole[:-9] + whole + b'{"rlvitals_export_end": 1}\n')
    (log,) = find_logs([file])
    with pytest.raises(LogError, match="the whole run 'a': after line 3, neither"):
        list(log.read(ReadReport()))


def test_an_export_of_a_later_version_is_refused(tmp_path):
    """Its lines and columns may mean something else."""
    (log,) = find_logs([written(tmp_path / "run.jsonl", [HEADING | {"rlvitals_export": 2}, step(1)])])
    with pytest.raises(LogError, match=r"run\.jsonl must be an export of version 1, got 2; read it with"):
        list(log.read(ReadReport()))
    with pytest.raises(LogError, match=r"run\.parquet must be an export of version 1, got 2; read it with"):
        find_logs([table(tmp_path / "run.parquet", version=2)])


def test_a_replay_ends_a_run_as_it_had_ended(tmp_path):
    """A run that a person stopped has not finished, and a run that trained gets no further steps."""
    names = {"finished": "finished", "stopped": "stopped", None: "stopped"}
    rows = [row for ended in names for row in (HEADING | {"run": str(ended), "ended": ended}, step(1))]
    headings = {str(ended): {"ended": ended} for ended in names}
    for file in (written(tmp_path / "run.jsonl", rows), table(tmp_path / "run.parquet", names=headings)):
        assert {log.name: log.end for log in find_logs([file])} == {str(ended): end for ended, end in names.items()}


def test_a_run_keeps_a_name_that_looks_like_a_file(tmp_path):
    """Only the ending of a file's name tells a format."""
    (log,) = find_logs([written(tmp_path / "run.jsonl", [HEADING | {"run": "lr1e-6.log"}, step(1)])])
    assert log.name == "lr1e-6.log"


def test_runs_that_share_a_name_get_none_of_a_third(tmp_path):
    """`a`, `a` and `a-2` are three runs: a replay would mix two of one name."""
    names = ["a", "a", "a-2", "a"]
    logs = find_logs(
        [written(tmp_path / f"{place}.jsonl", [HEADING | {"run": name}, step(1)]) for place, name in enumerate(names)]
    )
    assert [log.name for log in logs] == ["a", "a-3", "a-2", "a-4"]


def test_a_row_of_parquet_that_is_no_step_is_passed_over_and_named(tmp_path):
    """Its place is that among the rows of its run."""
    (log,) = find_logs([table(tmp_path / "run.parquet", rlvitals_step=[None, 2])])
    report = ReadReport()
    assert [(row.step, row.acknowledged, dict(row)) for row in log.read(report)] == [
        (2, ("kind",), {"reward/mean": 0.25})
    ]
    assert report.problems[0].startswith("run.parquet, row 1 of 'a': it is no step of an export: ")


def test_a_curriculum_with_a_long_name_is_read_back_from_parquet(tmp_path):
    """Other columns of long texts are samples, and left out."""
    versions = ["a" * 40_000, "b" * 40_000]
    (log,) = find_logs([table(tmp_path / "run.parquet", rlvitals_data_version=versions)])
    assert [row.data_version for row in log.read(ReadReport())] == versions


def test_a_run_of_many_is_read_without_the_others(tmp_path):
    """A project of a thousand runs is read once, and not once for each of its runs."""
    path = tmp_path / "runs.parquet"
    names = [f"r{number}" for number in range(20)]
    schema = parquet.read_schema(table(tmp_path / "one.parquet"))
    headed = schema.with_metadata({"rlvitals_export": json.dumps({"version": 1, "runs": names})})
    with parquet.ParquetWriter(path, headed) as writer:
        for name in names:
            (tmp_path / "one.parquet").unlink()
            rows = parquet.read_table(table(tmp_path / "one.parquet", names=[name], rlvitals_run=[name, name]))
            writer.write_table(rows.replace_schema_metadata(headed.metadata))
    (alone,) = find_logs([tmp_path / "one.parquet"])
    logs = find_logs([path])
    assert [log.name for log in logs] == names
    reports = [ReadReport() for _ in [alone, *logs]]
    for log, report in zip([alone, *logs], reports, strict=True):
        assert [row.step for row in log.read(report)] == [1, 2]
    assert max(report.bytes_read for report in reports) < 2 * reports[0].bytes_read


@pytest.mark.parametrize("columns", [{"rlvitals_run": None}, {"rlvitals_run": [1.5, 2.5]}], ids=str)
def test_parquet_without_the_column_of_runs_is_refused_in_words(tmp_path, columns):
    """The message names the file."""
    (log,) = find_logs([table(tmp_path / "run.parquet", **columns)])
    with pytest.raises(LogError, match=r"run\.parquet must be a readable file of `rlvitals export`"):
        list(log.read(ReadReport()))


def test_parquet_with_a_damaged_page_is_refused_in_words(tmp_path, capsys):
    """Its footer is whole, so that the damage is found while the rows are read."""
    path = table(tmp_path / "run.parquet")
    damaged = bytearray(path.read_bytes())
    damaged[4:200] = b"\xff" * 196
    path.write_bytes(damaged)
    assert main(["check", str(path)]) == 1
    assert f"{path} must be a readable file of `rlvitals export`" in capsys.readouterr().err


@pytest.mark.parametrize("names", [5, [["a"] * 3], None])
def test_metadata_of_another_shape_end_in_no_traceback(tmp_path, names, capsys):
    """The names of the runs are texts."""
    assert main(["check", str(table(tmp_path / "run.parquet", names=names))]) in {0, 1}
    assert "Traceback" not in capsys.readouterr().err

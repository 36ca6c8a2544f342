"""A model, questions and a search tool of one's own, through the command line."""

import json

import pytest

from tests.trainer_hooks.reference.custom_task.making import answered, retrieval_server
from trainer_hooks.reference.__main__ import main


@pytest.fixture
def options(search_config, taught_folder):
    """The settings of a small run as a command line, without its search tool."""
    names = (
        "questions prompt cache questions_per_step group_size minibatches epochs held_out context max_actions "
        "max_action_tokens max_feedback_tokens topk tool_timeout lr steps"
    )
    return [f"--model={taught_folder}"] + [
        f"--{name.replace('_', '-')}={getattr(search_config, name)}" for name in names.split()
    ]


def test_a_model_is_trained_on_questions_and_a_corpus(options, corpus_file, collector, tmp_path, capsys):
    """Two steps of LLDS, NTHR, KL and the probe stream and are logged with the signals of the built-in environment."""
    log = tmp_path / "log.jsonl"
    losses = ["--method", "llds-ma", "--kl", "0.01", "--probe-every", "1"]
    run = ["--corpus", str(corpus_file), "--log", str(log), "--url", collector.url, "--run", "own-model"]
    assert main([*options, *losses, *run]) == 0
    assert "18 questions to train on" in capsys.readouterr().out
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    assert [row["step"] for row in rows] == [1, 2]
    seen = set(rows[0]) | set(rows[1])
    assert {"likelihood/correct", "loss/llds", "kl/ref", "entropy/paired_delta", "tools/valid_frac"} <= seen
    assert max(row["reward/mean"] for row in rows) > 0
    assert max(row["tools/valid_frac"] for row in rows) > 0.5
    assert [record.step for record in collector.records if record.step] == [1, 2]


def test_a_model_gets_a_critic_under_ppo(options, corpus_file, tmp_path):
    """The value head stands on a copy of any model, without the output layer, on which no value depends."""
    log = tmp_path / "log.jsonl"
    assert main([*options, "--method", "ppo", "--corpus", str(corpus_file), "--log", str(log)]) == 0
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    assert all("loss/value" in row for row in rows)
    assert any("value/explained_var" in row for row in rows)


def test_a_run_with_a_retrieval_server_resumes_to_the_last_bit(options, tmp_path, capsys):
    """Steps 1 to 3, and steps 1, 2, stop, 3: the same numbers at step 3; the server's address may change."""

    def answer(_, body):
        return 200, answered([[f"The capital of {query} is Paris."] for query in body["queries"]])

    logs = []
    for name, parts in (("whole", [["--steps=3"]]), ("cut", [["--steps=2"], ["--steps=3", "--resume"]])):
        log = tmp_path / f"{name}.jsonl"
        for part in parts:
            with retrieval_server(answer) as url:
                kept = [f"--checkpoints={tmp_path / name}", "--checkpoint-every=2"]
                assert main([*options, f"--retriever={url}", f"--log={log}", *kept, *part]) == 0
        logs.append([json.loads(line) for line in log.read_text().splitlines()])
    assert "resumed from" in capsys.readouterr().out
    assert logs[0][-1] == logs[1][-1]


def test_a_server_that_is_down_at_the_start_is_an_error_of_one_line(options, unused_port, capsys):
    """Exit code 2 and the address."""
    assert main([*options, f"--retriever=http://127.0.0.1:{unused_port}"]) == 2
    assert f"must answer at http://127.0.0.1:{unused_port}/retrieve" in capsys.readouterr().err


@pytest.mark.parametrize(("taught", "code"), [([], 1), (["--protocol-steps=2"], 2)])
def test_a_server_that_dies_on_the_way_stops_the_run_before_the_update(options, taught, code, capsys):
    """Exit code 1, or 2 in the supervised start; the reason in one line, and nothing trained on silent zeros."""
    asked = []

    def answer(_, body):
        asked.append(body)
        if len(asked) > 1:
            return 200, b"garbage"
        return 200, answered([["x"] for _ in body["queries"]])

    with retrieval_server(answer) as url:
        assert main([*options, f"--retriever={url}", *taught]) == code
    printed = capsys.readouterr()
    assert "error: " in printed.err
    assert "step    1" not in printed.out


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"--questions": "none.jsonl"}, "none.jsonl must be a readable UTF-8 file"),
        ({"--questions-per-step": "20", "--minibatches": "4"}, "must hold at least questions_per_step (20)"),
        ({"--context": "300"}, "above the model's 256 positions, got 300"),
        ({"--prompt": "none.txt"}, "none.txt must be a readable UTF-8 file"),
    ],
)
def test_what_cannot_be_used_is_reported_before_training(options, corpus_file, changed, message, capsys):
    """Exit code 2 and one line."""
    assert main([*options, f"--corpus={corpus_file}", *(f"{name}={value}" for name, value in changed.items())]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model", "m"], "model and questions go together"),
        (["--model", "m", "--questions", "q"], "exactly one search tool"),
        (["--model", "m", "--questions", "q", "--corpus", "c", "--retriever", "u"], "exactly one search tool"),
        (["--corpus", "c"], "a tool needs questions"),
    ],
)
def test_options_that_do_not_go_together_are_refused(arguments, message, capsys):
    """The parser's exit code and message."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert message in capsys.readouterr().err

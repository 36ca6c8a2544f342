"""The questions about people who share their names."""

import json

import pytest

from trainer_hooks.reference.custom_task.bm25 import Bm25Corpus
from trainer_hooks.reference.custom_task.questions import read_questions
from trainer_hooks.reference.experiments.__main__ import main
from trainer_hooks.reference.experiments.namesake_questions import write_corpus_and_questions


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The corpus and the questions."""
    return write_corpus_and_questions(tmp_path_factory.mktemp("namesakes"))


def test_a_search_with_the_question_finds_the_person_and_mostly_the_namesake(files):
    """The answer is in the first of two passages, unless the question is after the country."""
    corpus, questions = Bm25Corpus.from_file(files[0], topk=2), read_questions(files[1])
    namesakes = countries = 0
    for question, passages in zip(questions, corpus.search([each.question for each in questions]), strict=True):
        names = [passage.split(" was ")[0] for passage in passages]
        assert names[0] in question.question
        is_country = "country" in question.question
        assert (question.golden_answers[0] in passages[0]) != is_country
        namesakes += names[0] == names[1]
        countries += is_country
    assert namesakes > 0.8 * len(questions)
    assert 0.15 < countries / len(questions) < 0.35


def test_the_country_is_found_by_a_second_search_for_the_city(files):
    """Each city of a person has a passage with its country."""
    corpus = [json.loads(line)["contents"] for line in files[0].read_text().splitlines()]
    countries = dict(passage.rstrip(".").split(" is a city in ") for passage in corpus if " is a city in " in passage)
    births = [passage.split(" born in ")[1].split(" in ")[0] for passage in corpus if " born in " in passage]
    assert len(births) == 480
    assert set(births) == set(countries)


def test_the_files_are_the_same_at_every_call_and_are_mended_where_they_were_changed(files, tmp_path):
    """A supervised start that was kept for them depends on their times."""
    again = write_corpus_and_questions(tmp_path)
    assert [file.read_bytes() for file in again] == [file.read_bytes() for file in files]
    times = [file.stat().st_mtime_ns for file in again]
    assert [file.stat().st_mtime_ns for file in write_corpus_and_questions(tmp_path)] == times
    again[0].write_text("cut")
    assert write_corpus_and_questions(tmp_path)[0].read_bytes() == files[0].read_bytes()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ([], "--preset pretrained must be given with --model"),
        (["--model", "nowhere"], "nowhere must be a folder with a model"),
    ],
)
def test_a_pretrained_regime_without_a_model_is_refused_in_one_line(options, reason, tmp_path, capsys):
    """The message names the missing option."""
    with pytest.raises(SystemExit):
        main(["fair", "--preset", "pretrained", "--cache", str(tmp_path), "--out", str(tmp_path), *options])
    assert reason in capsys.readouterr().err.splitlines()[-1]

"""Question sets and corpora: the contents that are read, and the places in messages."""

import pytest

from tests.trainer_hooks.reference.custom_task.making import write_lines
from trainer_hooks.reference.custom_task.bm25 import Bm25Corpus
from trainer_hooks.reference.custom_task.json_lines import FileError
from trainer_hooks.reference.custom_task.questions import read_questions


def test_both_forms_of_question_sets_are_read(tmp_path):
    """golden_answers or answer, a list or one text; other fields and empty lines are left alone."""
    path = write_lines(
        tmp_path / "q.jsonl",
        [
            {"id": "1", "question": "who?", "golden_answers": ["Ada", "Ada Lovelace"], "metadata": {}},
            {"question": "where?", "answer": "Rome", "type": "bridge", "level": "hard"},
            {"question": "when?", "golden_answers": "1843"},
            {"question": "why?", "answer": ["love", "money"]},
        ],
    )
    path.write_text(path.read_text().replace("\n", "\n\n"))
    found = read_questions(path)
    assert [item.golden_answers for item in found] == [
        ("Ada", "Ada Lovelace"), ("Rome",), ("1843",), ("love", "money"),
    ]  # fmt: skip
    assert found[1].question == "where?"
    assert found[1].place == f"{path}:3"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"question": "who?"', r":2: must be one JSON object a line"),
        ('["who?", "Ada"]', r":2: must be one JSON object a line, got a list"),
        ("[" * 100_000, r":2: must be one JSON object a line"),
        ('{"golden_answers": ["Ada"]}', r":2: field 'question' must be there, got 'golden_answers'"),
        ('{"question": " ", "answer": "Ada"}', r":2: field 'question' must be a text that is not empty, got ' '"),
        ('{"question": "who?", "answer": 7}', r":2: field 'answer' must be a text that is not empty, got 7"),
        ('{"question": "who?"}', r":2: field 'answer' must be there"),
        ('{"question": "who?", "golden_answers": []}', r":2: field 'golden_answers' must hold at least one text"),
        ('{"question": "who?", "golden_answers": ["", "a"]}', r":2: field 'golden_answers' must hold at least one"),
    ],
)
def test_a_malformed_line_is_located(tmp_path, line, message):
    """File, line and field stand in the message."""
    path = tmp_path / "q.jsonl"
    path.write_text('{"question": "where?", "answer": "Rome"}\n' + line + "\n")
    with pytest.raises(FileError, match=f"q.jsonl{message}"):
        read_questions(path)


def test_half_of_a_surrogate_pair_is_read_as_its_escape(tmp_path):
    """A cut emoji in a question, an answer or a passage; the tokenizer and the tool's queries are UTF-8."""
    cut = "Rome \ud83d"
    [question] = read_questions(write_lines(tmp_path / "q.jsonl", [{"question": cut, "golden_answers": [cut]}]))
    assert (question.question, question.golden_answers) == ("Rome \\ud83d", ("Rome \\ud83d",))
    passages = write_lines(tmp_path / "c.jsonl", [{"contents": cut}])
    assert Bm25Corpus.from_file(passages, topk=1).search(["Rome"]) == [["Rome \\ud83d"]]


def test_a_file_that_cannot_be_read_says_so(tmp_path):
    """Missing, empty and binary files each have their message."""
    with pytest.raises(FileError, match="must be a readable UTF-8 file"):
        read_questions(tmp_path / "none.jsonl")
    (tmp_path / "empty.jsonl").write_text("\n")
    with pytest.raises(FileError, match="must hold at least one JSON object"):
        read_questions(tmp_path / "empty.jsonl")
    (tmp_path / "binary.jsonl").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FileError, match="must be a readable UTF-8 file"):
        read_questions(tmp_path / "binary.jsonl")


def test_a_corpus_is_read_and_its_mistakes_are_located(tmp_path):
    """Passages need contents; a corpus without a word cannot be searched."""
    good = write_lines(tmp_path / "good.jsonl", [{"id": "0", "contents": "Rome is in Italy."}])
    assert Bm25Corpus.from_file(good, topk=3).search(["Italy"]) == [["Rome is in Italy."]]
    bad = write_lines(tmp_path / "bad.jsonl", [{"id": "0", "text": "Rome"}])
    with pytest.raises(FileError, match=r"bad.jsonl:1: field 'contents' must be there, got 'id', 'text'"):
        Bm25Corpus.from_file(bad, topk=3)
    wordless = write_lines(tmp_path / "wordless.jsonl", [{"contents": "..."}])
    with pytest.raises(FileError, match="at least one passage with a word"):
        Bm25Corpus.from_file(wordless, topk=3)

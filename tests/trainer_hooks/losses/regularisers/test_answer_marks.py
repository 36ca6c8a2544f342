import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from trainer_hooks.losses.regularisers.answer_marks import ENOUGH_RESPONSES, AnswerMarks


def found(pieces, begin, end, actions=None):
    """Find the answers in rows of texts, each text one token."""
    vocabulary = sorted({piece for row in pieces for piece in row})
    tokens = torch.tensor([[vocabulary.index(piece) for piece in row] for row in pieces])
    marks = AnswerMarks(lambda ids: "".join(vocabulary[token] for token in ids), begin, end)
    actions = torch.ones_like(tokens) if actions is None else torch.tensor(actions)
    return marks.mask(tokens, actions.bool()).int().tolist()


def test_the_answer_is_found_however_it_is_cut():
    """The last answer is found with its marks, however they are split; an open answer reaches the end."""
    rows = [
        ["so ", "<answ", "er>4", "2</", "answer> ", "ok"],
        ["<answ", "er>4", "so ", "<answ", "er>4", "ok"],
        ["so ", "so ", "so ", "ok", "ok", "ok"],
    ]
    assert found(rows, "<answer>", "</answer>") == [[0, 1, 1, 1, 1, 0], [0, 0, 0, 1, 1, 1], [0] * 6]


def test_marks_in_feedback_and_padding_are_not_looked_at():
    """A tool response that contains the marks neither opens an answer nor closes one, and is never part of one."""
    note = "[put it between <answer> and </answer>]"
    rows = [
        ["<answer>", "4", "</answer>", note, "."],
        ["<answer>", "4", note, "2", "</answer>"],
        ["<answ", note, "er>", "4", "<answer>"],
    ]
    actions = [[1, 1, 1, 0, 1], [1, 1, 0, 1, 1], [1, 0, 1, 1, 0]]
    assert found(rows, "<answer>", "</answer>", actions) == [[1, 1, 1, 0, 0], [1, 1, 0, 1, 1], [0] * 5]


def sentence_pieces():
    """Return a tokenizer where a space is part of the token after it, and lost where that token is decoded alone."""
    core = Tokenizer(models.Unigram([(piece, -1.0) for piece in PIECES], unk_id=0, byte_fallback=False))
    core.pre_tokenizer, core.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    return core


def byte_level():
    """Return a tokenizer like that of GPT-2, where a space is a character of the token."""
    vocabulary = {piece.replace("▁", "Ġ"): index for index, piece in enumerate(PIECES)}
    core = Tokenizer(models.WordLevel(vocabulary, unk_token=PIECES[0]))
    core.decoder = decoders.ByteLevel()
    return core


def words():
    """Return a tokenizer of whole words, which puts spaces between them."""
    return Tokenizer(models.WordLevel({piece: index for index, piece in enumerate(WORDS)}, unk_token=WORDS[0]))


PIECES = ["<unk>", "▁so", "▁Final", "▁answer", ":", "▁42", "▁."]
WORDS = ["<unk>", "so", "Final", "answer:", ":", "42", "."]


@pytest.mark.parametrize("kind", [sentence_pieces, byte_level, words])
def test_a_mark_of_several_words_is_found_with_every_kind_of_tokenizer(kind):
    """The answer from `Final answer:` to the full stop is found, as the tokenizer's own text has it."""
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=kind(), unk_token=PIECES[0])
    tokens = [1, 2, 3, 5, 6, 1] if kind is words else [1, 2, 3, 4, 5, 6, 1]
    assert "Final answer: 42 ." in tokenizer.decode(tokens, clean_up_tokenization_spaces=False)
    marks = AnswerMarks(tokenizer.decode, "Final answer:", ".")
    mask = marks.mask(torch.tensor([tokens]), torch.ones(1, len(tokens), dtype=torch.bool))
    assert mask.tolist() == [[False, *[True] * (len(tokens) - 2), False]]


@pytest.mark.parametrize("written", ["", "<answer>", "</answer>", "<answer></answer>"])
def test_a_mark_that_is_never_seen_is_reported_once(written, caplog):
    """After a hundred responses one warning names the missing mark; before that, and for marks seen, there is none."""
    marks = AnswerMarks(lambda ids: written * len(ids), "<answer>", "</answer>")
    half = torch.zeros(ENOUGH_RESPONSES // 2, 1, dtype=torch.long)
    marks.mask(half, half == 0)
    assert not caplog.records
    for _ in range(4):
        marks.mask(half, half == 0)
    unseen = [repr(mark) for mark in ("<answer>", "</answer>") if mark not in written]
    assert [" and ".join(unseen) in record.message for record in caplog.records] == [True] * bool(unseen)

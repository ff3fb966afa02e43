"""Instances against an independent builder, written from the specification."""

from __future__ import annotations

import random

import pytest

import pretraining_corpora as corpora
from tasks.pretraining import instances, masking


@pytest.fixture
def run(tmp_path, capsys, caplog) -> corpora.Run:
    return corpora.Run(tmp_path, capsys, caplog)


class Oracle:
    """The builder of the specification, token by token, as plainly as it can be written."""

    def __init__(self, documents: list[list[list[str]]], seed: int, **flags):
        self.draws = random.Random(seed)
        self.flags = flags
        self.documents = documents

    def build(self) -> list[tuple]:
        self.draws.shuffle(self.documents)
        made = []
        for _ in range(self.flags["dupe_factor"]):
            for index in range(len(self.documents)):
                made += self.from_document(index)
        self.draws.shuffle(made)
        return made

    def from_document(self, index: int) -> list[tuple]:
        draws, document = self.draws, self.documents[index]
        room = self.flags["max_seq_length"] - 3
        target = room
        if draws.random() < self.flags["short_seq_prob"]:
            target = draws.randint(2, room)
        made, chunk, k = [], [], 0
        while k < len(document):
            chunk.append(document[k])
            if k == len(document) - 1 or sum(map(len, chunk)) >= target:
                a_end = 1 if len(chunk) < 2 else draws.randint(1, len(chunk) - 1)
                a = sum(chunk[:a_end], [])
                is_random = len(chunk) == 1 or draws.random() < 0.5
                if is_random:
                    b = self.other_text(index, target - len(a))
                    k -= len(chunk) - a_end
                else:
                    b = sum(chunk[a_end:], [])
                made.append(self.finish(a, b, is_random, room))
                chunk = []
            k += 1
        return made

    def other_text(self, index: int, wanted: int) -> list[str]:
        draws = self.draws
        for _ in range(10):
            other = draws.randint(0, len(self.documents) - 1)
            if other != index:
                break
        assert other != index, "choose another seed: this is where the toolkit differs on purpose"
        b: list[str] = []
        for sentence in self.documents[other][draws.randint(0, len(self.documents[other]) - 1) :]:
            b += sentence
            if len(b) >= wanted:
                break
        return b

    def finish(self, a: list[str], b: list[str], is_random: bool, room: int) -> tuple:
        a, b = list(a), list(b)
        while len(a) + len(b) > room:
            longer = a if len(a) > len(b) else b
            longer.pop(0 if self.draws.random() < 0.5 else -1)
        tokens = ["[CLS]", *a, "[SEP]", *b, "[SEP]"]
        return (*self.hide(tokens), len(a) + 2, is_random)

    def hide(self, tokens: list[str]) -> tuple[list[str], dict[int, str]]:
        draws = self.draws
        groups: list[list[int]] = []
        for at, token in enumerate(tokens):
            if token in ("[CLS]", "[SEP]"):
                continue
            if self.flags["whole_words"] and groups and token.startswith("##"):
                groups[-1].append(at)
            else:
                groups.append([at])
        draws.shuffle(groups)
        quota = min(self.flags["predictions"], max(1, round(len(tokens) * self.flags["share"])))
        shown, labels = list(tokens), {}
        for group in groups:
            if len(labels) >= quota:
                break
            if len(labels) + len(group) > quota:
                continue
            for at in group:
                labels[at] = tokens[at]
                if draws.random() < 0.8:
                    shown[at] = "[MASK]"
                elif draws.random() >= 0.5:
                    shown[at] = corpora.CHARACTERS[draws.randint(0, len(corpora.CHARACTERS) - 1)]
        return shown, dict(sorted(labels.items()))


def built_here(text: str, tmp_path, **flags) -> list[instances.Instance]:
    """The instances of one shard, made without processes; encoding them is left out."""
    number = {token: k for k, token in enumerate(corpora.CHARACTERS)}
    whole_words = flags.get("whole_words", False)
    recipe = instances.InstanceConfig(
        max_seq_length=flags["max_seq_length"],
        max_predictions_per_seq=flags["predictions"],
        short_seq_prob=flags["short_seq_prob"],
        single_segment=flags.get("single", False),
        words="pieces" if whole_words else "",
        cls_id=2,
        sep_id=3,
        masking=masking.MaskingConfig(
            share=flags["share"],
            limit=flags["predictions"],
            mask_share=0.8,
            keep_share=0.5,
            mask_id=4,
            pool=range(len(corpora.CHARACTERS)),
            never=frozenset({0, 2, 3, 4}),
            whole_words=whole_words,
        ),
    )
    documents = instances.read_documents(
        "\n\n".join(block.strip() for block in text.split("\n\n")),
        lambda line: [number[token] for token in corpora.pieces(line)[0][0]],
        recipe.words,
        bytes(token.startswith("##") for token in corpora.CHARACTERS),
    )
    generator = instances.shard_generator(flags["seed"], 0)
    generator.shuffle(documents)
    made = []
    for _ in range(flags["dupe_factor"]):
        made += instances.one_pass(documents, recipe, generator)
    masking.shuffle(made, generator)
    return made


SMALL = {
    "max_seq_length": 40,
    "predictions": 6,
    "share": 0.15,
    "short_seq_prob": 0.1,
    "dupe_factor": 2,
}


@pytest.mark.parametrize("whole_words", [False, True])
@pytest.mark.parametrize(
    ("corpus", "changes"),
    [
        ((12, 9, 9), {}),
        ((12, 9, 9), {"short_seq_prob": 1.0}),
        ((12, 9, 9), {"short_seq_prob": 0.0, "max_seq_length": 200, "predictions": 30}),
        ((9, 1, 6), {}),  # one sentence a document
        ((9, 5, 60), {"max_seq_length": 16}),  # sentences longer than an example
        ((9, 9, 3), {"max_seq_length": 5, "short_seq_prob": 0.5}),
        ((9, 9, 2), {"max_seq_length": 512, "predictions": 77}),  # a document is one chunk
        ((9, 9, 9), {"share": 0.6, "predictions": 3}),
        ((9, 9, 9), {"share": 0.0}),
    ],
)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_against_the_oracle(tmp_path, seed, corpus, changes, whole_words):
    flags = {**SMALL, **changes, "whole_words": whole_words}
    text = corpora.random_corpus(seed, *corpus)
    found = built_here(text, tmp_path, seed=seed, **flags)
    expected = Oracle(corpora.pieces(text), seed, **flags).build()
    assert len(found) == len(expected) > 10
    for instance, (shown, labels, boundary, is_random) in zip(found, expected, strict=True):
        if instance is None:  # nothing could be hidden: the original wrote an empty example
            assert whole_words and not labels
            continue
        assert [corpora.CHARACTERS[token] for token in instance.tokens] == shown
        assert instance.positions == list(labels)
        assert [corpora.CHARACTERS[token] for token in instance.labels] == list(labels.values())
        assert (instance.boundary, instance.is_random_next) == (boundary, is_random)


def test_records_hold_what_the_oracle_says(run):
    text = corpora.random_corpus(5, 20, 9, 9)
    run.write(text)
    rows = run(max_seq_length=40, max_predictions_per_seq=6, dupe_factor=2, random_seed=99)
    expected = Oracle(corpora.pieces(text), 99, **SMALL, whole_words=False).build()
    assert len(rows) == len(expected)
    for row, (shown, labels, boundary, is_random) in zip(rows, expected, strict=True):
        corpora.check(row, 40, 6)
        real = len(shown)
        assert [corpora.CHARACTERS[token] for token in row["input_ids"][:real]] == shown
        assert sum(row["input_mask"]) == real == boundary + sum(row["segment_ids"])
        assert row["masked_lm_positions"][: len(labels)] == list(labels)
        assert row["next_sentence_labels"] == [int(is_random)]

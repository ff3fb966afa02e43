"""Instances against an independent builder, written from the specification."""

import random

import pytest

import create_pretraining_data
import pretraining_corpora as corpora
from tasks.pretraining import instances, masking, options


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

    def other_text(self, index: int, length: int) -> list[str]:
        draws = self.draws
        for _ in range(10):
            other = draws.randint(0, len(self.documents) - 1)
            if other != index:
                break
        assert other != index, "choose another seed: this is where the toolkit differs on purpose"
        b: list[str] = []
        for sentence in self.documents[other][draws.randint(0, len(self.documents[other]) - 1) :]:
            b += sentence
            if len(b) >= length:
                break
        return b

    def finish(self, a: list[str], b: list[str], is_random: bool, room: int) -> tuple:
        a, b = list(a), list(b)
        while len(a) + len(b) > room:
            longer = a if len(a) > len(b) else b
            longer.pop(0 if self.draws.random() < 0.5 else -1)
        tokens = ["[CLS]", *a, "[SEP]", *b, "[SEP]"]
        return (*self.mask(tokens), len(a) + 2, is_random)

    def mask(self, tokens: list[str]) -> tuple[list[str], dict[int, str]]:
        draws = self.draws
        groups: list[list[int]] = []
        for position, token in enumerate(tokens):
            if token in ("[CLS]", "[SEP]"):
                continue
            if self.flags["whole_words"] and groups and token.startswith("##"):
                groups[-1].append(position)
            else:
                groups.append([position])
        draws.shuffle(groups)
        limit = min(self.flags["predictions"], max(1, round(len(tokens) * self.flags["share"])))
        masked, labels = list(tokens), {}
        for group in groups:
            if len(labels) >= limit:
                break
            if len(labels) + len(group) > limit:
                continue
            for position in group:
                labels[position] = tokens[position]
                if draws.random() < 0.8:
                    masked[position] = "[MASK]"
                elif draws.random() >= 0.5:
                    masked[position] = corpora.CHARACTERS[
                        draws.randint(0, len(corpora.CHARACTERS) - 1)
                    ]
        return masked, dict(sorted(labels.items()))


IDS = masking.TokenIds(
    cls=2,
    sep=3,
    mask=4,
    unknown=1,
    never_masked=frozenset({0, 2, 3, 4}),
    replacements=range(len(corpora.CHARACTERS)),
    is_continuation=bytes(token.startswith("##") for token in corpora.CHARACTERS),
)


def build(text: str, **flags) -> list[instances.Instance]:
    """The instances of one shard, made in this process and not encoded."""
    number = {token: k for k, token in enumerate(corpora.CHARACTERS)}
    data = options.PretrainingDataOptions(
        max_seq_length=flags["max_seq_length"],
        max_predictions_per_seq=flags["predictions"],
        short_seq_prob=flags["short_seq_prob"],
        masked_lm_prob=flags["share"],
        do_whole_word_mask=flags["whole_words"],
    )
    documents = instances.read_documents(
        [block.strip().split("\n") for block in text.split("\n\n")],
        lambda line: [number[token] for token in corpora.pieces(line)[0][0]],
        data,
        IDS,
    )
    generator = instances.shard_generator(flags["seed"], 0)
    generator.shuffle(documents)
    builder = instances.InstanceBuilder(documents, data, IDS, generator)
    made = [instance for _ in range(flags["dupe_factor"]) for instance in builder.one_pass()]
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
def test_against_the_oracle(seed, corpus, changes, whole_words):
    flags = {**SMALL, **changes, "whole_words": whole_words}
    text = corpora.random_corpus(seed, *corpus)
    built = build(text, seed=seed, **flags)
    expected = Oracle(corpora.pieces(text), seed, **flags).build()
    assert len(built) == len(expected) > 10
    for instance, (masked, labels, boundary, is_random) in zip(built, expected, strict=True):
        if instance is None:  # nothing could be masked: the original wrote an empty example
            assert whole_words and not labels
            continue
        assert [corpora.CHARACTERS[token] for token in instance.tokens] == masked
        assert instance.positions == list(labels)
        assert [corpora.CHARACTERS[token] for token in instance.labels] == list(labels.values())
        assert (instance.boundary, instance.is_random_next) == (boundary, is_random)


# The functions that create_pretraining_data.py had in the original release.


@pytest.mark.parametrize("whole_words", [False, True])
def test_create_masked_lm_predictions_against_the_oracle(whole_words):
    tokens = ["[CLS]", *"ab", "##c", *"de", "[SEP]", "##f", "g", "[MASK]", "[SEP]"]
    for seed in range(50):
        oracle = Oracle([], seed, predictions=20, share=0.4, whole_words=whole_words)
        expected, labels = oracle.mask(tokens)
        generator = random.Random(seed)
        assert create_pretraining_data.create_masked_lm_predictions(
            tokens, 0.4, 20, corpora.CHARACTERS, generator, whole_words
        ) == (expected, list(labels), list(labels.values()))
        assert generator.getstate() == oracle.draws.getstate()


def test_truncate_seq_pair_against_the_oracle():
    for seed in range(50):
        a, b = list(corpora.LETTERS[: seed % 20 + 1]), list(corpora.LETTERS[:15])
        oracle = Oracle([], seed, predictions=1, share=0, whole_words=False)
        masked, labels, boundary, _ = oracle.finish(a, b, False, 12)
        for position, token in labels.items():
            masked[position] = token
        create_pretraining_data.truncate_seq_pair(a, b, 12, random.Random(seed))
        assert (a, b) == (masked[1 : boundary - 1], masked[boundary:-1])

"""The graph gives the ids of ``FullTokenizer`` and the rows of ``tasks.classifier.features``."""

import functools
import gzip
import json
import random
import sys
import unicodedata

import numpy as np
import pytest
import tensorflow as tf

import tokenization
from command_line import options
from serving import graph_tokenizer
from tasks.classifier import examples
from tasks.classifier import features as classifier_features
from tasks.classifier import options as classifier_options

LOWER_CASE = {"uncased": True, "cased": False, "multi_cased": False, "chinese": True}
LETTERS = "aBσΣςßİıÅéǅẞ가ㅎΐﬁ"
OTHERS = (
    " \t\n\u2028\x00\x0b\x85\u00ad\u200d\ufeff\ufffd.,'’:·#$`_-\u0301\u0345ˇⒶ😀今\uf900々かｶ"
    "\U0001d165\U000e0001"
)


@pytest.fixture(scope="module", autouse=True)
def shared_tables():
    """Builds the tables of all code points once per set of rules: a second or two each."""

    tables = {}

    def call(build, basic):
        rules = basic.do_lower_case, basic.strip_accents, basic._cleaning.space_symbols
        key = (build.__name__, *rules)
        return dict(tables.get(key) or tables.setdefault(key, build(basic)))

    with pytest.MonkeyPatch.context() as patch:
        for name in ("_replacements", "_case_classes"):
            build = getattr(graph_tokenizer, name)
            patch.setattr(graph_tokenizer, name, functools.partial(call, build))
        yield


@pytest.fixture
def make(tmp_path):
    """Builds a GraphTokenizer of given tokens, [UNK] first."""

    def build(tokens, **flags) -> graph_tokenizer.GraphTokenizer:
        path = tmp_path / "vocab.txt"
        path.write_bytes("".join(f"{token}\n" for token in ["[UNK]", *tokens]).encode())
        text = options.TokenizerOptions(vocab_file=str(path), **flags)
        return graph_tokenizer.GraphTokenizer(text)

    return build


@functools.lru_cache(1)  # building the graph takes seconds
def _graph(tokenizer: graph_tokenizer.GraphTokenizer):
    return tf.function(tokenizer).get_concrete_function(tf.TensorSpec([None], tf.string))


def run(tokenizer: graph_tokenizer.GraphTokenizer, texts) -> list[list[int]]:
    return _graph(tokenizer)(tf.constant(texts, tf.string, [len(texts)])).to_list()


def characters(text: str, lower: bool = True) -> list[str]:
    """The tokens with which a vocabulary tells all characters of a text apart, in any position."""
    words = []
    for strip in (False, True):
        basic = tokenization.BasicTokenizer(lower, strip_accents=strip)
        words += basic.tokenize(" ".join(text)) + basic.tokenize(f"ΑΣ {text}")
    letters = sorted(set("".join(words)))
    return letters + [f"##{char}" for char in letters]


@pytest.mark.slow
@pytest.mark.parametrize("name", LOWER_CASE)
def test_tokens_equal_those_of_the_original(name, shared):
    path = str(shared / "data/vocab" / name / "vocab.txt")
    text = options.TokenizerOptions(vocab_file=path, do_lower_case=LOWER_CASE[name])
    tokenizer = graph_tokenizer.GraphTokenizer(text)
    with gzip.open(shared / "golden/tokenization/golden.jsonl.gz", "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    assert len(rows) > 500
    for row, ids in zip(rows, run(tokenizer, [row["text"] for row in rows]), strict=True):
        assert [tokenizer.tokenizer.tokens[index] for index in ids] == row[name]


def test_pieces_by_hand(make):
    tokens = ["un", "##aff", "##able", "##a", "want", ",", "##b", "[MASK]"]
    tokenizer = make(tokens, protected_tokens="[MASK]")
    texts = ["UNaffable,want", "unaffablex a", "", " \t", "wantab", "affable"]
    assert run(tokenizer, texts) == [[1, 2, 3, 6, 5], [0, 0], [], [], [5, 4, 7], [0]]
    assert run(tokenizer, []) == []
    names = {node.op for node in _graph(tokenizer).graph.as_graph_def().node}
    assert "UnicodeDecodeWithOffsets" in names or "UnicodeDecode" in names
    # Operations of TensorFlow only, so that a SavedModel needs no other package.
    assert not any("Wordpiece" in name or "Normalize" in name or ">" in name for name in names)


@pytest.mark.slow
def test_the_longest_word(make):
    tokenizer = make(["a", "##a"])
    texts = ["a" * 200, "a" * 201, "a" * 5000, "á" * 200]
    assert [len(ids) for ids in run(tokenizer, texts)] == [200, 1, 1, 200]
    assert run(tokenizer, texts)[1] == [0]


@pytest.mark.slow
@pytest.mark.parametrize("flags", [
    {},
    {"do_lower_case": False},
    {"strip_accents": False},
    {"do_lower_case": False, "strip_accents": True},
    {"space_symbols": True},
    {"protected_tokens": "a.,Σ,a.Bσ,Bσ,今"},
], ids=str)  # fmt: skip
def test_random_texts_equal_python(make, flags):
    """Final sigmas, marks, control characters, white space of all kinds, overlapping tokens."""
    lower = flags.get("do_lower_case", True)
    tokens = [*characters(LETTERS + OTHERS, lower), "ab", "##ab", "##bσς", "##σς", "a b"]
    protected = [token for token in flags.get("protected_tokens", "").split(",") if token]
    tokenizer = make([*tokens, *set(protected) - set(tokens)], **flags)
    rng = random.Random(7)
    texts = ["ΑΣ", "ΑΣ.", "Σ", "ΑΣ.Α", "a.Bσ", "aa.a.BσBσ今Bσ", "ΑΣ\u00adΑ ΑΣ\u00ad"]
    for _ in range(4000):
        chars = rng.choices(LETTERS + "Σ" * 5, k=9) + rng.choices(OTHERS, k=6)
        texts.append("".join(rng.sample(chars, rng.randrange(1, 16))))
    expected = [tokenizer.tokenizer.encode(text) for text in texts]
    assert len({index for ids in expected for index in ids}) > 25
    assert run(tokenizer, texts) == expected


@pytest.mark.slow
def test_bytes_that_are_not_text_equal_python(make):
    tokenizer = make(characters("aé今😀"))
    rng = random.Random(3)
    good = "aé今😀".encode()
    texts = [b"\xe2\x28\xa1", b"\xf0\x9f\x98", b"\xed\xa0\x80a", b"\xc0\xafa", b"\xf4\x90\x80\x80a"]
    for _ in range(3000):
        noise = rng.choices(good, k=5) + rng.choices(range(256), k=3)
        texts.append(bytes(rng.sample(noise, 8)))
    assert run(tokenizer, texts) == tokenizer.tokenizer.encode_batch(texts)


@pytest.mark.slow
@pytest.mark.parametrize("lower", [True, False])
def test_every_code_point_equals_python(make, lower):
    codes = [code for code in range(sys.maxunicode + 1) if not 0xD800 <= code < 0xE000]
    # One in a hundred of those that are unassigned or for private use.
    codes = [c for c in codes if c % 101 == 0 or unicodedata.category(chr(c)) not in ("Cn", "Co")]
    for first in range(0, len(codes), 200_000):
        part = codes[first : first + 200_000]
        tokenizer = make(characters("".join(map(chr, part)) + "ab", lower), do_lower_case=lower)
        texts = [f"a{chr(code)}b Α{chr(code)}Σ ΑΣ{chr(code)}Α" for code in part]
        assert run(tokenizer, texts) == tokenizer.tokenizer.encode_batch(texts)


@pytest.mark.slow
def test_layout_equals_that_of_training(make):
    tokenizer = make(["[CLS]", "[SEP]", "a", "b"])
    texts = [("a " * m, "b " * n) for m in range(9) for n in range(9)] + [("a", " \u00ad ")]
    ids_a, ids_b = (
        tf.ragged.constant(run(tokenizer, column), dtype=tf.int32, ragged_rank=1)
        for column in zip(*texts, strict=True)
    )
    for most in range(3, 20):
        packed = graph_tokenizer.pack(ids_a, ids_b, 1, 2, most)
        rows = [examples.InputExample(str(k), *pair, "x") for k, pair in enumerate(texts)]
        flags = classifier_options.ClassifierOptions(max_seq_length=most)
        features = classifier_features.encode(rows, ["x"], flags, tokenizer.tokenizer)
        for k in range(len(rows)):
            length = features.input_ids.lengths[k]
            zeros = [0] * (packed.input_ids.shape[1] - length)
            expected = [*features.input_ids.row(k), *zeros], [*features.segment_ids.row(k), *zeros]
            assert packed.input_ids[k].numpy().tolist() == expected[0]
            assert packed.segment_ids[k].numpy().tolist() == expected[1]
            assert packed.input_mask[k].numpy().tolist() == [1] * length + zeros
        assert packed.input_ids.shape[1] == np.max(np.sum(packed.input_mask, 1))

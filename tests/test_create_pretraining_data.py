"""From the command line to records: golden digests, statistics, odd corpora, mistakes."""

import collections
import gzip
import hashlib
import os

import pytest

import pretraining_corpora as corpora


@pytest.fixture
def run(tmp_path, capsys, caplog) -> corpora.Run:
    return corpora.Run(tmp_path, capsys, caplog)


# --------------------------------------------------------------------------------------------------
# The same records as the original release
# --------------------------------------------------------------------------------------------------

GOLDEN = {
    False: (
        284,
        162,
        2766,
        17778,
        "ba583fcf94fa0d8bb29d6cba8aa55bb2e3a942ba2f7142961d32fee3a832e987",
    ),
    True: (
        274,
        147,
        2523,
        17077,
        "eb339aca4f7fac5fb187a1a1c6e5ed964d4e17fd8688e510eb7e4a25bf299806",
    ),
}
GOLDEN_FLAGS = {"max_seq_length": 64, "max_predictions_per_seq": 10, "dupe_factor": 3}


@pytest.mark.parametrize("whole_words", [False, True])
@pytest.mark.parametrize("workers", [1, 2])
def test_golden_digests(run, whole_words, workers):
    text = corpora.golden_corpus()
    vocabulary = (run.folder / "vocab.txt").read_bytes()
    assert hashlib.sha256(vocabulary).hexdigest().startswith("d95aa630baf4e73c2b3a8b0e")
    assert hashlib.sha256(text.encode()).hexdigest().startswith("896d38068709146b7d9a2bcb")
    run.write(text)
    rows = run(
        "a,b", **GOLDEN_FLAGS, do_whole_word_mask=whole_words, num_workers=workers, log_examples=1
    )
    found = (
        len(rows),
        sum(row["next_sentence_labels"][0] for row in rows),
        int(sum(sum(row["masked_lm_weights"]) for row in rows)),
        sum(sum(row["input_mask"]) for row in rows),
        corpora.digest(rows),
    )
    assert found == GOLDEN[whole_words]
    assert f"Wrote {len(rows)} total instances" in run.log
    example = next(line for line in run.log if line.startswith("*** Example ***"))
    if not whole_words:
        assert "input_ids: 2 35 51 20 101 56 21 41 35 4 " in example
        assert "masked_lm_positions: 4 9 12 26 29 34 41 45 50 59\n" in example
        assert "masked_lm_ids: 38 22 23 33 38 53 35 7 50 39\n" in example
        assert "tokens: [CLS] ##e ##u p ] ##z q ##k ##e [MASK] " in example


# --------------------------------------------------------------------------------------------------
# Statistics
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flags", [{}, {"mask_token_share": 0.4, "random_token_share": 0.5}])
def test_shares(run, flags):
    # Long documents of short sentences: few chunks have one sentence, whose pairs are all random.
    run.write(corpora.random_corpus(6, 6, 1500, 4, least_sentences=1500))
    rows = run(dupe_factor=4, **flags)
    hidden = real = 0
    shown = collections.Counter()
    labels = [row["next_sentence_labels"][0] for row in rows]
    for row in rows:
        corpora.check(row, 128, 20)
        count = int(sum(row["masked_lm_weights"]))
        length = sum(row["input_mask"])
        assert count == min(20, max(1, round(length * 0.15)))
        hidden, real = hidden + count, real + length
        for at, label in list(zip(row["masked_lm_positions"], row["masked_lm_ids"], strict=True))[
            :count
        ]:
            shown[{4: "mask", label: "keep"}.get(row["input_ids"][at], "random")] += 1
    assert abs(hidden / real - 0.15) < 0.002
    masked = flags.get("mask_token_share", 0.8)
    others = flags.get("random_token_share", 0.1)
    vocabulary = len(corpora.CHARACTERS)
    # A random token may happen to be [MASK], or the token that was there.
    assert corpora.within(shown["mask"], hidden, masked + others / vocabulary)
    assert corpora.within(shown["keep"], hidden, 0.1 + others / vocabulary)
    assert len(labels) > 1500
    assert corpora.within(sum(labels), len(labels), 0.5)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_novels(run, shared, workers):
    flags = {
        "vocab_file": shared / "data/vocab/uncased/vocab.txt",
        "input_file": shared / "data/text/pretrain/*.txt",
        "dupe_factor": 5,
        "num_workers": workers,
    }
    rows = run(**flags)
    # The four files in a row give 32,563; a file's end closes a document here.
    assert abs(len(rows) - 32563) < 700
    hidden = sum(int(sum(row["masked_lm_weights"])) for row in rows)
    real = sum(sum(row["input_mask"]) for row in rows)
    assert abs(hidden / real - 0.15) < 0.002
    masked = sum(row["input_ids"].count(103) for row in rows)
    assert corpora.within(masked, hidden, 0.8)
    kept = sum(
        row["input_ids"][at] == label
        for row in rows
        for at, label, used in zip(
            row["masked_lm_positions"],
            row["masked_lm_ids"],
            row["masked_lm_weights"],
            strict=True,
        )
        if used
    )
    assert corpora.within(kept, hidden, 0.1)
    assert corpora.within(hidden - masked - kept, hidden, 0.1)
    labels = [row["next_sentence_labels"][0] for row in rows]
    assert 0.5 < sum(labels) / len(labels) < 0.6


# --------------------------------------------------------------------------------------------------
# Corpora of every shape
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "\n\n \n\t\n", "\u200b\n\n\u200b\n", "\u3000\n"])
def test_no_text(run, text):
    run.write(text)
    assert "no usable text in " in run.fail()
    (run.folder / "out").write_bytes(b"precious")
    run.fail()
    assert (run.folder / "out").read_bytes() == b"precious"


def test_an_empty_line_after_every_sentence(run):
    run.write("a b\n\nc d\n\ne f\n")
    rows = run()
    assert len(rows) == 30
    assert all(row["next_sentence_labels"] == [1] for row in rows)
    assert len(run.warnings("3 of 3 documents (100%) have a single sentence")) == 1
    assert not any(row["next_sentence_labels"][0] for row in run(no_nsp=True))
    assert not run.warnings("single sentence")


def follows(document: list[str], row: dict) -> bool:
    """Whether the second segment has the sentence that comes after the first one; for documents
    without equal sentences of one letter each."""
    a, b = map(corpora.spell, corpora.segments(row))
    text = "".join(document)
    after = text.index(a) + len(a)
    return text[after : after + 1] != "" and text[after] in b


@pytest.mark.parametrize("sentences", [2, 3, 9, 26])
@pytest.mark.parametrize("length", [5, 8, 128])
def test_a_single_document(run, sentences, length):
    document = list(corpora.LETTERS[:sentences])
    run.write("".join(letter + "\n" for letter in document))
    rows = run(
        dupe_factor=40, max_seq_length=length, short_seq_prob=0.5, max_predictions_per_seq=20
    )
    for row in rows:
        corpora.check(row, length, 20)
        a, b = corpora.segments(row)
        assert not set(a) & set(b)
        assert follows(document, row) == (row["next_sentence_labels"] == [0])
    labels = {row["next_sentence_labels"][0] for row in rows}
    # Of two sentences, nothing is left for a random pair.
    assert labels == ({0} if sentences == 2 else {0, 1})
    assert len(run.warnings("single document")) == 1


def test_a_single_sentence(run):
    run.write("a b c d\n")
    assert "a single sentence has no next one" in run.fail(dupe_factor=3)
    assert len(run(dupe_factor=3, no_nsp=True)) == 3


def test_text_that_the_vocabulary_does_not_know(run):
    run.write("a b c\n\nd e f\n")
    run()
    assert not run.warnings("[UNK]")
    run.write("\u043c\u0438\u0440 a\n\nb \u0434\u0430\n")
    run()
    assert "50% of the words are [UNK]" in run.warnings("[UNK]")[0]


def test_tokens_that_a_long_line_loses_are_counted(run):
    run.write("a b c\n" + "d " * 40 + "\n\ne f\na b\n")
    run(max_seq_length=20)
    (line,) = run.warnings("more tokens than an example holds")
    assert "1 lines have" in line and "is 23 of 47 tokens (48.9%)" in line
    run.write("a b c\n" + "d " * 17 + "\n\ne f\na b\n")
    run(max_seq_length=20)
    assert not run.warnings("more tokens than an example holds")


@pytest.mark.parametrize("lines", ["a b c d\n\ne f a b\n", "a b\n\n\u200b\n\nc d\n\nd e f\n"])
def test_no_text_is_paired_with_itself(run, lines):
    run.write(lines)
    for record in run(dupe_factor=3000, log_examples=0):
        ids, segments = record["input_ids"], record["segment_ids"]
        masked = zip(record["masked_lm_positions"], record["masked_lm_ids"], strict=True)
        for position, label in masked:
            if position:
                ids[position] = label
        length = sum(record["input_mask"])
        a = [i for i, s in zip(ids[:length], segments, strict=False) if not s][1:-1]
        b = [i for i, s in zip(ids[:length], segments, strict=False) if s][:-1]
        assert a != b


def test_outputs_that_are_not_ordinary_files(run):
    run.write("a b c\n\nd e f\n")
    fifo = run.folder / "fifo"
    os.mkfifo(fifo)
    assert "is not an ordinary file" in run.fail(status=2, output="fifo")
    (run.folder / "target").write_bytes(b"old")
    (run.folder / "link").symlink_to("target")
    assert "twice" in run.fail(status=2, output="link,./target")
    run(output="link")
    assert (run.folder / "link").is_symlink()
    assert len(corpora.read([run.folder / "target"])) > 0


def test_an_actual_pair_never_has_one_sentence_twice(run):
    document = list(corpora.LETTERS)
    run.write("\n\n".join("\n".join(letter * k for letter in document) for k in (1, 2, 3)))
    for row in run(max_seq_length=12, dupe_factor=5):
        a, b = corpora.segments(row)
        assert row["next_sentence_labels"] == [1] or a != b


def test_the_end_of_a_file_ends_a_document(run):
    run.write("a\nb", "1.txt")
    run.write("c\nd", "2.txt")
    rows = run(input_file=run.folder / "[12].txt", dupe_factor=20)
    pairs = {corpora.spell(a + b) for a, b in map(corpora.segments, rows)}
    assert not run.warnings("single document")
    actual = {
        corpora.spell(sum(corpora.segments(row), []))
        for row in rows
        if row["next_sentence_labels"] == [0]
    }
    assert actual == {"ab", "cd"} < pairs


def test_compressed_input(run):
    text = corpora.random_corpus(2, 5, 5, 5)
    run.write(text)
    plain = run(max_seq_length=32)
    run.write(gzip.compress(text.encode()), "corpus.txt.gz")
    assert run(max_seq_length=32, input_file=run.folder / "corpus.txt.gz") == plain


def test_unicode_separators_do_not_end_a_line(run):
    run.write("a\u2028b\x0cc\x85d\r\n\ne f\n")
    rows = run(dupe_factor=1)
    texts = {corpora.spell(corpora.segments(row)[0]) for row in rows}
    assert texts == {"ab##c##d", "ef"}


def test_bytes_that_are_not_utf8(run):
    run.write(b"a b\nc\xe9 d\n\ne\xff\xfef\ng h\n")
    rows = run(dupe_factor=3)
    (warning,) = run.warnings("not UTF-8")
    assert "corpus.txt:2: " in warning
    assert "3 such bytes dropped in 2 lines" in warning
    run.write("a b\nc d\n\nef\ng h\n")
    assert run(dupe_factor=3) == rows
    assert not run.warnings("UTF-8")


# --------------------------------------------------------------------------------------------------
# Flags
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"max_seq_length": 4}, "--max_seq_length=4: expected at least 5"),
        ({"max_predictions_per_seq": 0}, "--max_predictions_per_seq=0: expected at least 1"),
        ({"masked_lm_prob": 1.5}, "--masked_lm_prob=1.5"),
        ({"dupe_factor": 0}, "--dupe_factor=0"),
        ({"mask_token_share": 0.9}, "sum is 1.1"),
        ({"whole_word_one_decision": True}, "without --do_whole_word_mask"),
    ],
)
def test_wrong_flags(run, flags, message):
    run.write("a b c\nd e f\n")
    assert message in run.fail(status=2, **flags)


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("", "is a directory"),
        ("a,a", "twice"),
        ("corpus.txt", "also read"),
        ("vocab.txt", "also read"),
    ],
)
def test_wrong_outputs(run, output, message):
    run.write("a b c\nd e f\n")
    assert message in run.fail(status=2, output=output)


@pytest.mark.parametrize(("limit", "warns"), [(5, True), (19, True), (20, False)])
def test_limit_below_the_share(run, limit, warns):
    run.write(corpora.random_corpus(1, 6, 30, 12))
    rows = run(max_predictions_per_seq=limit, dupe_factor=1)
    assert max(sum(row["masked_lm_weights"]) for row in rows) <= limit
    assert len(run.warnings("fewer masked tokens")) == warns


def test_a_vocabulary_without_special_tokens(run):
    run.write("a b\nc d\n")
    run.write_vocab(["<unk>", *corpora.LETTERS])
    message = run.fail()
    assert "[PAD], [UNK], [CLS], [SEP], [MASK]" in message
    assert "vocab.txt" in message


def test_no_nsp(run):
    text = corpora.random_corpus(3, 8, 30, 9)
    run.write(text)
    rows = run(no_nsp=True, max_seq_length=32, short_seq_prob=0.0, dupe_factor=2)
    corpus = [sum(document, []) for document in corpora.pieces(text)]
    flat = [" ".join(document) + " " for document in corpus]
    full = 0
    for row in rows:
        corpora.check(row, 32, 20, single=True)
        assert row["next_sentence_labels"] == [0]
        (a, b) = corpora.segments({**row, "segment_ids": [0] * 32})
        assert not b
        words = " ".join(corpora.CHARACTERS[token] for token in a) + " "
        assert any(words in document for document in flat)
        full += sum(row["input_mask"]) == 32
    assert full > 0.7 * len(rows)
    # Nothing is left out but what cutting to 30 tokens takes.
    assert len(rows) >= 2 * sum(len(document) for document in corpus) / 60


def test_protected_tokens_in_the_text(run):
    text = "a [MASK] b [SEP] c\n[CLS] d [PAD] e\n\n[MASK]\nf g [UNK] h\n"
    run.write(text)
    rows = run(
        protected_tokens="[MASK],[SEP],[CLS],[PAD],[UNK]", dupe_factor=20, short_seq_prob=0.5
    )
    labels = {label for row in rows for label in row["masked_lm_ids"] if label}
    assert labels == {corpora.CHARACTERS.index(token) for token in [*"abcdefgh", "[UNK]"]}
    assert any(row["input_ids"].count(3) > 2 for row in rows)
    rows = run(dupe_factor=20)
    assert not any({0, 2, 3, 4} & {*a, *b} for a, b in map(corpora.segments, rows))


# Whole words.


def test_words_that_cannot_be_masked(run):
    run.write("abcdefghi\n")
    message = run.fail(do_whole_word_mask=True, dupe_factor=2, no_nsp=True)
    assert "not one of the 2 instances has a token that may be masked" in message
    run.write("abcdefghi\n\nab cd ef gh ij kl mn op\n")
    rows = run(do_whole_word_mask=True, dupe_factor=2, no_nsp=True)
    assert len(rows) == 2
    assert all(sum(row["masked_lm_weights"]) for row in rows)
    assert len(run.warnings("2 instances dropped")) == 1


def groups(row: dict) -> set[int]:
    return {
        at
        for at, weight in zip(row["masked_lm_positions"], row["masked_lm_weights"], strict=True)
        if weight
    }


def test_whole_words_without_pieces(run):
    run.write_vocab([*corpora.CHARACTERS, *"我爱北京天安门"])
    run.write("我爱 北京\n天安门 北京\n\n北京 天安门 爱 我\n我 爱\n")
    rows = run(do_whole_word_mask=True, max_seq_length=32, masked_lm_prob=0.3)
    assert len(run.warnings("no word has more than one piece; --whole_word_from_spaces")) == 1
    assert rows == run(max_seq_length=32, masked_lm_prob=0.3)
    rows = run(
        do_whole_word_mask=True, whole_word_from_spaces=True, max_seq_length=32, masked_lm_prob=0.3
    )
    assert not run.warnings("no word has more")
    together = 0
    capital = tuple(len(corpora.CHARACTERS) + "我爱北京天安门".index(char) for char in "北京")
    for row in rows:
        hidden = groups(row)
        labels = dict(zip(row["masked_lm_positions"], row["masked_lm_ids"], strict=True))
        for at in hidden:
            if labels[at] == capital[0]:
                # Cutting may have parted the word only at the end of a segment; nothing is cut
                # here.
                assert labels[at + 1] == capital[1]
                together += 1
    assert together > 10

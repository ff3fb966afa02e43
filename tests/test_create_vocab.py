"""The vocabulary that create_vocab.py learns."""

import collections
import gzip
import random
import re

import pytest

import create_vocab
import tokenization
from system import inputs

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def run(*arguments: str) -> int:
    return create_vocab.main(["create_vocab.py", *arguments])


def read(path) -> list[str]:
    text = path.read_bytes().decode()
    assert text.endswith("\n")
    return text[:-1].split("\n")


def stems(seed: int = 0) -> str:
    """Words of 60 stems and 6 endings, with rising frequency, on lines of ten."""
    draw = random.Random(seed)
    made = ["".join(draw.choices("bdfgklmnprst", k=2)) + draw.choice("aeiou") for _ in range(60)]
    words = [draw.choice(made[: draw.randint(1, 60)]) for _ in range(6000)]
    words = [word + draw.choice(["", "", "ing", "ed", "ness", "ly"]) for word in words]
    return "\n".join(" ".join(words[k : k + 10]) + "." for k in range(0, len(words), 10))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    path = tmp_path_factory.mktemp("corpus") / "corpus.txt"
    path.write_text(stems())
    return path


# --------------------------------------------------------------------------------------------------
# From the command line to the file
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [80, 150, 200])
def test_exact_size_unique_and_deterministic(corpus, tmp_path, size):
    output = tmp_path / "new" / "folder" / "vocab.txt"
    flags = [f"--input_file={corpus}", f"--output_file={output}", f"--vocab_size={size}"]
    assert run(*flags) == 0
    vocab = read(output)
    assert len(vocab) == len(set(vocab)) == size
    assert vocab[:5] == SPECIAL
    first = output.read_bytes()
    assert run(*flags) == 0
    assert output.read_bytes() == first
    assert [path.name for path in output.parent.iterdir()] == ["vocab.txt"]

    tokenizer = tokenization.FullTokenizer(str(output))
    tokenization.check_vocab(tokenizer, str(output), vocab_size=size)
    assert "[UNK]" not in tokenizer.tokenize(corpus.read_text())
    assert "[UNK]" not in tokenizer.tokenize("tinkerbell")  # any word of the corpus' letters


def test_frequent_words_and_endings_become_pieces(corpus, tmp_path):
    output = tmp_path / "vocab.txt"
    assert run(f"--input_file={corpus}", f"--output_file={output}", "--vocab_size=150") == 0
    vocab = set(read(output))
    assert {"##ing", "##ed", "##ness", "##ly"} <= vocab
    counts = collections.Counter(corpus.read_text().replace(".", " ").split())
    assert {word for word, _ in counts.most_common(20)} <= vocab
    assert "##." not in vocab and "." in vocab  # punctuation is always a word of its own


def test_more_entries_mean_fewer_pieces(corpus, tmp_path):
    lengths = []
    for size in (50, 100, 200):
        output = tmp_path / f"vocab{size}.txt"
        assert run(f"--input_file={corpus}", f"--output_file={output}", f"--vocab_size={size}") == 0
        tokenizer = tokenization.FullTokenizer(str(output))
        lengths.append(len(tokenizer.tokenize(corpus.read_text())))
    assert lengths[0] > lengths[1] > lengths[2]


def test_a_corpus_that_is_too_small_gives_a_warning(tmp_path, caplog):
    (tmp_path / "a.txt").write_text("tea tea pot pot once\n")
    output = tmp_path / "vocab.txt"
    flags = [f"--input_file={tmp_path}/a.txt", f"--output_file={output}", "--vocab_size=100"]
    assert run(*flags) == 0
    vocab = read(output)
    assert f"the text gives {len(vocab)} entries, --vocab_size=100" in caplog.text
    assert caplog.messages[-1].endswith("give more text or --min_count=1")
    assert {"tea", "pot"} <= set(vocab) and "once" not in vocab
    assert run(*flags, "--min_count=1") == 0
    assert "once" in read(output)
    assert caplog.messages[-1].endswith("give more text")
    (tmp_path / "a.txt").write_text("tea tea pot pot t\n")  # the rare word is an entry already
    assert run(*flags) == 0
    assert caplog.messages[-1].endswith("give more text")


def test_case_accents_and_unused_tokens(tmp_path):
    (tmp_path / "a.txt").write_text("Café Été été Zoé Zoé " * 9)
    output = tmp_path / "vocab.txt"
    flags = [f"--input_file={tmp_path}/a.txt", f"--output_file={output}", "--vocab_size=40"]
    assert run(*flags, "--unused_tokens=2") == 0
    vocab = read(output)
    assert vocab[5:7] == ["[unused0]", "[unused1]"]
    assert {"cafe", "ete", "zoe"} <= set(vocab)
    assert run(*flags, "--strip_accents=false") == 0
    assert {"café", "été", "zoé"} <= set(read(output))
    assert run(*flags, "--do_lower_case=false") == 0
    assert {"Café", "Été", "été", "Zoé"} <= set(read(output))


def test_several_inputs_and_gzip(tmp_path):
    (tmp_path / "a.txt").write_text("tea tea\n")
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(b"pot pot\npot\n"))
    output = tmp_path / "vocab.txt"
    flags = [f"--output_file={output}", "--vocab_size=30"]
    assert run(f"--input_file={tmp_path}/a.*,{tmp_path}/*.gz", *flags) == 0
    assert {"tea", "pot"} <= set(read(output))


def test_bytes_that_are_not_utf8_are_dropped_with_a_warning(tmp_path, caplog):
    (tmp_path / "a.txt").write_bytes(b"tea tea\nt\xe9ea\nt\xffea\n")
    output = tmp_path / "vocab.txt"
    assert run(f"--input_file={tmp_path}/a.txt", f"--output_file={output}", "--vocab_size=12") == 0
    assert "a.txt:2: not UTF-8; 2 such bytes dropped in 2 lines" in caplog.text
    assert read(output) == [*SPECIAL, "a", "e", "t", "##a", "##e", "##t", "tea"]


def test_words_too_long_for_the_learner_are_learned_in_parts(tmp_path, caplog):
    """Clauses of a script without spaces, none of which occurs twice."""
    caplog.set_level("INFO")
    draw = random.Random(3)
    words = ["กรุง", "เทพ", "เป็น", "เมือง", "หลวง", "ของ", "ไทย"]
    lines = ["".join(draw.choices(words, k=20)) for _ in range(60)]
    lines += ["".join(draw.choices(words, k=80)) for _ in range(6)]
    (tmp_path / "a.txt").write_text("\n".join(lines), encoding="utf-8")
    flags = [f"--input_file={tmp_path}/a.txt", f"--output_file={tmp_path}/v", "--vocab_size=80"]
    assert run(*flags, "--strip_accents=false") == 0
    assert "of the characters are in words of more than 50 characters, which are learned" in (
        caplog.text
    )
    assert re.search(r"\d+\.\d% of the characters are in words of more than 200", caplog.text)
    assert "marks, which are stripped" not in caplog.text
    found = {piece.removeprefix("##") for piece in read(tmp_path / "v")}
    assert len(found & set(words)) >= 5
    caplog.clear()
    assert run(*flags) == 0
    assert re.search(r"\d+% of the characters are accents, vowel or tone marks, which", caplog.text)


@pytest.mark.parametrize(
    "text, warns",
    [("une tasse de café noir sans sucre", False), ("हिन्दी में किताबें", True), ("Zażółć", True)],
)
def test_stripping_of_marks_is_told_where_it_takes_much(tmp_path, caplog, text, warns):
    (tmp_path / "a.txt").write_text(f"{text} la vie est belle et longue\n" * 3, encoding="utf-8")
    if warns:
        (tmp_path / "a.txt").write_text(f"{text}\n" * 3, encoding="utf-8")
    flags = [f"--input_file={tmp_path}/a.txt", f"--output_file={tmp_path}/v", "--vocab_size=60"]
    for more, told in (
        ([], warns),
        (["--strip_accents=false"], False),
        (["--nodo_lower_case"], False),
    ):
        caplog.clear()
        assert run(*flags, *more) == 0
        assert ("--strip_accents=false keeps them" in caplog.text) is told


@pytest.mark.parametrize("ending", ["txt", "txt.gz"])
def test_texts_in_json_lines(tmp_path, capsys, ending):
    text = '{"id": 7, "text": "tea pot tea\\npot tea"}\n{"id": 8, "text": "tea"}\n'
    data = gzip.compress(text.encode()) if ending.endswith("gz") else text.encode()
    (tmp_path / f"a.{ending}").write_bytes(data)
    flags = [f"--input_file={tmp_path}/a.{ending}", f"--output_file={tmp_path}/v"]
    assert run(*flags, "--vocab_size=20") == 1
    assert "1: a JSON object, and so are the lines after it; --text_key=text takes" in (
        capsys.readouterr().err
    )
    assert run(*flags, "--vocab_size=20", "--text_key=text") == 0
    assert {"tea", "pot"} <= set(read(tmp_path / "v")) and "id" not in read(tmp_path / "v")


@pytest.mark.parametrize(
    ("flags", "status", "message"),
    [
        (["--input_file={0}/none*", "--output_file={0}/v"], 1, "no file matches"),
        (["--input_file={0}/blank.txt", "--output_file={0}/v"], 1, "no text"),
        (["--input_file={0}/a.txt", "--output_file={0}"], 2, "--output_file={0} is a directory"),
        (["--input_file={0}/a.txt", "--output_file={0}/./a.txt"], 2, "is also read"),
        (["--input_file={0}/a.txt", "--output_file={0}/a.txt/v"], 2, "a.txt is not a directory"),
        (["--input_file={0}/a.txt"], 2, "--output_file is missing"),
        (
            ["--input_file={0}/a.txt", "--output_file={0}/v", "--unused_tokens=30518"],
            2,
            "leaves no room",
        ),
    ],
)
def test_mistakes_end_in_one_line(tmp_path, capsys, flags, status, message):
    (tmp_path / "a.txt").write_text("tea tea\n")
    (tmp_path / "blank.txt").write_text("\n \u200b\n\n")
    assert run(*(flag.format(tmp_path) for flag in flags)) == status
    lines = [line for line in capsys.readouterr().err.splitlines() if "error:" in line]
    assert len(lines) == 1 and message.format(tmp_path) in lines[0]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "blank.txt"]


# --------------------------------------------------------------------------------------------------
# Its parts
# --------------------------------------------------------------------------------------------------


def test_counts_equal_a_count_of_the_whole_text(tmp_path, monkeypatch):
    monkeypatch.setattr(create_vocab, "_MOST_WAITING_CHUNKS", 7)
    text = "Tea, tea\tPOT!\u2003pot  na\u0308i\x0bve\u2028天气tea \n\npot (tea)\n" * 3 + stems(1)
    path = tmp_path / "a.txt"
    path.write_text(text)
    basic = tokenization.BasicTokenizer()
    words = create_vocab.count_words([str(path)], basic)
    assert words == collections.Counter(basic.tokenize(text))


def test_counting_shows_progress(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(create_vocab, "_SECONDS_BETWEEN_LINES", 1e-9)
    (tmp_path / "a.txt").write_text("x" * 600_000 + "\n" + "y" * 399_999 + "\n")
    with caplog.at_level("INFO"):
        create_vocab.count_words([str(tmp_path / "a.txt")] * 3, tokenization.BasicTokenizer())
    lines = [line for line in caplog.messages if line.startswith("counting words:")]
    assert [line.split(", ")[0].split(": ")[1] for line in lines] == [
        *("1 of 3 MB", "1 of 3 MB", "2 of 3 MB", "2 of 3 MB", "3 of 3 MB", "3 of 3 MB")
    ]
    assert lines[-1].endswith(", 0 s left")
    assert create_vocab._progress(5_000_000, 20_000_000, 2.0).endswith("2.5 MB/s, 6 s left")


def test_rarest_words_are_forgotten_when_there_are_too_many(tmp_path, monkeypatch):
    monkeypatch.setattr(create_vocab, "_MOST_WAITING_CHUNKS", 50)
    monkeypatch.setattr(create_vocab, "_MOST_COUNTED_WORDS", 20)
    lines = [f"often seldom{k} often" for k in range(200)]
    (tmp_path / "a.txt").write_text("\n".join(lines))
    basic = tokenization.BasicTokenizer()
    words = create_vocab.count_words([str(tmp_path / "a.txt")], basic)
    assert words["often"] == 400 and len(words) <= 20 + 50


def test_alphabet(caplog):
    words = collections.Counter({"abé": 3, "z": 1, "天": 5, "!": 9, "ba": 1})
    basic = tokenization.BasicTokenizer(False)
    # a and b occur 4 times, é 3, z once; the ideograph and the mark never continue a word.
    assert create_vocab.choose_alphabet(words, basic, 99, 2) == [
        *("!", "a", "b", "é", "天", "##a", "##b", "##é")
    ]
    assert create_vocab.choose_alphabet(words, basic, 99, 1)[-1] == "##é"
    assert "##z" not in create_vocab.choose_alphabet(words, basic, 99, 2)
    assert not caplog.records
    assert create_vocab.choose_alphabet(words, basic, 5, 2) == ["!", "a", "天", "##a"]
    assert "no room for 2 of 5 characters" in caplog.text


def test_one_in_a_million_is_rare():
    words = collections.Counter({"a": 4_000_000, "b": 5, "c": 3})
    alphabet = create_vocab.choose_alphabet(words, tokenization.BasicTokenizer(), 99, 2)
    assert alphabet == ["a", "b", "##a", "##b"]


@pytest.mark.parametrize("guess", [1, 2, 40, 10**6])
@pytest.mark.parametrize("wanted", [1, 90, 100, 5000])
def test_search_finds_enough_and_hardly_more(guess, wanted):
    passes = []

    def learn(threshold: int) -> list[str]:  # falls faster than assumed
        passes.append(threshold)
        return [""] * (1_000_000 // threshold // threshold)

    found = len(create_vocab.search(learn, wanted, guess))
    least = min(n for n in (1_000_000 // t // t for t in range(1, 1001)) if n >= wanted)
    assert least <= found <= max(1.02 * wanted, least)
    assert len(set(passes)) == len(passes) <= 20


def test_search_ends_when_there_is_not_enough():
    assert create_vocab.search(lambda threshold: ["x"] * (9 // threshold), 10, 5) == ["x"] * 9


def test_trim_prefers_short_pieces_at_the_cut():
    pieces = ["the", "##ing", "an", "abacus", "ear", "zoology", "aa"]
    # "an" to "zoology" stand in no alphabetical order; "abacus" to "zoology" do.
    assert create_vocab.trim(pieces, 4) == ["the", "##ing", "an", "ear"]
    assert create_vocab.trim(pieces, 5) == ["the", "##ing", "an", "abacus", "ear"]
    assert create_vocab.trim(pieces, 7) == create_vocab.trim(pieces, 9) == pieces


@pytest.mark.slow
def test_real_text(shared, tmp_path):
    output = tmp_path / "vocab.txt"
    pattern = str(shared / "data/text/pretrain/*.txt")
    assert run(f"--input_file={pattern}", f"--output_file={output}", "--vocab_size=8000") == 0
    vocab = read(output)
    assert len(vocab) == len(set(vocab)) == 8000
    tokenizer = tokenization.FullTokenizer(str(output))
    tokens = collections.Counter(
        token
        for path in inputs.expand("input_file", pattern)
        for line in inputs.read_lines(path)
        for token in tokenizer.tokenize(line)
    )
    assert tokens["[UNK]"] < 1e-4 * tokens.total()
    assert tokens.total() < 1.15 * 575339  # words, as an independent count finds them

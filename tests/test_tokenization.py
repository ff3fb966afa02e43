"""Golden values of the original release, an independent oracle, offsets, vocabularies."""

import gzip
import json
import logging
import os
import pathlib
import pickle
import random
import subprocess
import sys
import unicodedata

import pytest

import tokenization
from command_line import errors

ROOT = pathlib.Path(__file__).resolve().parents[1]
LOWER_CASE = {"uncased": True, "cased": False, "multi_cased": False, "chinese": True}


@pytest.fixture
def make(tmp_path):
    """Builds a FullTokenizer over the given tokens, [UNK] first."""

    def build(*tokens: str, **arguments) -> tokenization.FullTokenizer:
        path = tmp_path / "vocab.txt"
        path.write_bytes("".join(f"{token}\n" for token in ("[UNK]", *tokens)).encode())
        return tokenization.FullTokenizer(str(path), **arguments)

    return build


@pytest.fixture(scope="module", params=LOWER_CASE)
def golden(request, shared):
    """A released vocabulary's tokenizer, and texts with the original's tokens."""
    name = request.param
    path = str(shared / "data/vocab" / name / "vocab.txt")
    tokenizer = tokenization.FullTokenizer(path, LOWER_CASE[name])
    with gzip.open(shared / "golden/tokenization/golden.jsonl.gz", "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    return tokenizer, [(row["text"], row[name]) for row in rows]


# --------------------------------------------------------------------------------------------------
# Golden values
# --------------------------------------------------------------------------------------------------


def test_tokens_and_ids_equal_the_original(golden):
    tokenizer, rows = golden
    assert len(rows) > 500
    for text, tokens in rows:
        assert tokenizer.tokenize(text) == tokens
        assert tokenizer.tokenize(text.encode()) == tokens
        expected = tokenizer.convert_tokens_to_ids(tokens)
        assert [tokenizer.tokens[index] for index in expected] == tokens
        assert tokenizer.encode(text) == expected  # first from the rules, then from memory
        assert tokenizer.encode(text) == expected
    texts = [text for text, _ in rows]
    assert tokenizer.encode_batch(texts) == [tokenizer.encode(text) for text in texts]


def test_the_tests_of_the_original_release_pass(shared):
    """As they were released; `tf.test` still has all that they use."""
    path = shared / "original_tests/tokenization_test.py"
    if not path.is_file():
        pytest.skip(f"the original release's tests are absent: no {path}")
    done = subprocess.run(
        [sys.executable, str(path)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Ran 10 tests" in done.stderr


def test_offsets_cut_what_a_piece_was_made_of(golden):
    tokenizer, rows = golden
    basic = tokenizer.basic_tokenizer
    for text, tokens in rows:
        ids, starts, ends = tokenizer.encode_with_offsets(text)
        assert ids == tokenizer.encode(text)
        assert starts == sorted(starts) and ends == sorted(ends)
        words = iter(basic.tokenize(text))
        for token, start, end in zip(tokens, starts, ends, strict=True):
            assert 0 <= start < end <= len(text)
            source = same_sigma("".join(basic.tokenize(text[start:end])))
            if not token.startswith("##"):
                word = next(words)
            if token == "[UNK]":
                assert source == same_sigma(word)
            else:
                piece = same_sigma(token.removeprefix("##"))
                # A Hangul syllable has one place, but each of its letters is a piece.
                assert source == piece or (piece in source and len(text[start:end]) == 1)


def same_sigma(text: str) -> str:
    """Cut from its word, a final sigma is none."""
    return text.replace("ς", "σ")


# --------------------------------------------------------------------------------------------------
# An oracle that goes character by character
# --------------------------------------------------------------------------------------------------

IDEOGRAPHS = [
    *(range(0x4E00, 0xA000), range(0x3400, 0x4DC0), range(0x20000, 0x2A6E0)),
    *(range(0x2A700, 0x2B740), range(0x2B740, 0x2B820), range(0x2B820, 0x2CEB0)),
    *(range(0xF900, 0xFB00), range(0x2F800, 0x2FA20)),
]


def oracle_words(text: str, lower: bool) -> list[str]:
    cleaned = []
    for char in text:
        if char in " \t\n\r" or unicodedata.category(char) == "Zs":
            cleaned.append(" ")
        elif char in "\x00\ufffd" or unicodedata.category(char) in {"Cc", "Cf"}:
            continue
        elif any(ord(char) in block for block in IDEOGRAPHS):
            cleaned += [" ", char, " "]
        else:
            cleaned.append(char)
    output = []
    for token in "".join(cleaned).split():
        if lower:
            decomposed = unicodedata.normalize("NFD", token.lower())
            token = "".join(c for c in decomposed if unicodedata.category(c) != "Mn")
        for char in token:
            is_ascii_mark = "!" <= char <= "~" and not char.isalnum()
            if is_ascii_mark or unicodedata.category(char)[0] == "P":
                output += [" ", char, " "]
            else:
                output.append(char)
        output.append(" ")
    return "".join(output).split()


def oracle_pieces(word: str, vocab) -> list[str]:
    if len(word) > 200:
        return ["[UNK]"]
    pieces, rest, prefix = [], word, ""
    while rest:
        fitting = [n for n in range(1, len(rest) + 1) if prefix + rest[:n] in vocab]
        if not fitting:
            return ["[UNK]"]
        pieces.append(prefix + rest[: max(fitting)])
        rest, prefix = rest[max(fitting) :], "##"
    return pieces


ODD = (
    "abcXYZ019 \t\n\r\x00\x01\x0b\x0c\x1c\x1d\x1e\x1f\x7f\x85\xa0\xad\u1680\u180e\u2003\u2028\u2029"
    "\u200b\u200d\u202f\u205f\u3000\ufeff\ufffd\ue000\udc80éèçñÅİıßẞςσΣΟΔéœʼn\u0301\u0327\u0345\u0f71"
    "\u302e\u302f\U0001d165\U0001d16d한국ᄒ\u1161가ガ゙я天气\U00020000\uf900\U0002f800.,!?$^`~'\"-–—…«»"
    "。、「」؟\u037e\u1fef\u0e33\u0e31\u0915\u093f👍🏽€№½²ﬁΩ𝐀Ǆǅ"
)


def random_texts(seed: int, count: int):
    draw = random.Random(seed)
    for _ in range(count):
        length = draw.choice((1, 2, 3, 5, 8, 13, 34))
        yield "".join(
            draw.choice(ODD) if draw.random() < 0.7 else chr(draw.randrange(sys.maxunicode + 1))
            for _ in range(length)
        )


@pytest.mark.parametrize("lower", [True, False])
def test_random_text_equals_the_oracle(make, lower):
    letters = "abcxyzXYZ019eσςοδ한.,!$天气é\u0301яガᄒ"
    tokens = [*letters, *(f"##{c}" for c in letters), "abc", "##yz", "ab", "##01"]
    tokenizer = make(*tokens, do_lower_case=lower)
    for text in random_texts(seed=7, count=4000):
        words = oracle_words(text, lower)
        assert tokenizer.basic_tokenizer.tokenize(text) == words, ascii(text)
        pieces = [piece for word in words for piece in oracle_pieces(word, tokenizer.vocab)]
        assert tokenizer.tokenize(text) == pieces, ascii(text)
        ids = [tokenizer.vocab[piece] for piece in pieces]
        assert tokenizer.encode(text) == ids, ascii(text)
        found, starts, ends = tokenizer.encode_with_offsets(text)
        assert found == ids, ascii(text)
        assert starts == sorted(starts) and ends == sorted(ends), ascii(text)
        assert all(0 <= s < e <= len(text) for s, e in zip(starts, ends, strict=True)), ascii(text)


@pytest.mark.parametrize("lower", [True, False])
def test_every_character_is_cut_as_the_oracle_does(lower):
    basic = tokenization.BasicTokenizer(lower)
    for code in range(0x30000):
        text = f"a{chr(code)}b"
        if code < 0x3000 or unicodedata.category(chr(code)) not in ("Cn", "Lo"):
            assert basic.tokenize(text) == oracle_words(text, lower), hex(code)


@pytest.mark.parametrize("options", [{}, {"do_lower_case": False}, {"strip_accents": False}])
def test_alignment_has_a_place_for_every_character(options):
    basic = tokenization.BasicTokenizer(**options)
    for text in random_texts(seed=8, count=2000):
        starts, ends = basic.align(text)
        assert len(starts) == len(ends) == len("".join(basic.tokenize(text))), ascii(text)


# --------------------------------------------------------------------------------------------------
# Rules by hand
# --------------------------------------------------------------------------------------------------


def test_the_small_vocabulary_of_the_original_tests(make):
    words = "[CLS] [SEP] want ##want ##ed wa un runn ##ing ,"
    tokenizer = make(*words.split())
    tokens = tokenizer.tokenize("UNwant\u00e9d,running")
    assert tokenizer.convert_tokens_to_ids(tokens) == [7, 4, 5, 10, 8, 9]
    assert tokenizer.convert_ids_to_tokens([7, 4, 5, 10, 8, 9]) == tokens
    wordpiece = tokenization.WordpieceTokenizer(tokenizer.vocab)
    assert wordpiece.tokenize("") == []
    assert wordpiece.tokenize("unwanted\u2003running") == ["un", "##want", "##ed", "runn", "##ing"]
    assert wordpiece.tokenize(b"unwantedX running") == ["[UNK]", "runn", "##ing"]


@pytest.mark.parametrize(
    ("text", "lower", "words"),
    [
        ("ah\u535a\u63a8zz", False, "ah 博 推 zz"),
        (" \tHeLLo!how  \n Are yoU?  ", True, "hello ! how are you ?"),
        (" \tHeLLo!how  \n Are yoU?  ", False, "HeLLo ! how Are yoU ?"),
        ("H\u00e9llo", True, "hello"),
        ("note\nbook note\tbook note\rbook", True, "note book note book note book"),
        ("page\x0cbreak page\x0bbreak\x85 a\x1fb", True, "pagebreak pagebreak ab"),
        ("a+b=$5|x~y^z", True, "a + b = $ 5 | x ~ y ^ z"),
        ("\u200b \xad \ufffd \u0301", True, ""),
        ("\u0301", False, "\u0301"),
        ("na\u00efve nai\u0308ve", False, "na\u00efve nai\u0308ve"),
        ("na\u00efve nai\u0308ve", True, "naive naive"),
        ("ガ й ç", True, "カ и c"),
        ("ΟΔΟΣ, ΟΔΟΣ.Α", True, "οδος , οδοσ . α"),
        ("\ue000 nice \U000fe4fa", True, "\ue000 nice \U000fe4fa"),
        ("i will [MASK] there", True, "i will [ mask ] there"),
        ("ice\u2028tea\u3000pot", False, "ice tea pot"),
        ("a👍b 👍👍", True, "a👍b 👍👍"),
    ],
)
def test_words(text, lower, words):
    assert tokenization.BasicTokenizer(lower).tokenize(text) == words.split()


def test_strip_accents_is_independent_of_case():
    def words(text, **options):
        return tokenization.BasicTokenizer(**options).tokenize(text)

    assert words("Й 한 Ça I\u0307", strip_accents=False) == ["й", "한", "ça", "i\u0307"]
    assert words("Й Ça", do_lower_case=False, strip_accents=True) == ["И", "Ca"]


def test_symbols_with_spaces_around_them():
    basic = tokenization.BasicTokenizer(space_symbols=True)
    assert basic.tokenize("nice👍 👍👍 a©b") == ["nice", "👍", "👍", "👍", "a", "©", "b"]
    # The mark of category Sk, which colours the thumb, is no symbol of its own.
    assert basic.tokenize("5€+x") == ["5€", "+", "x"]


def test_unknown_words_are_one_unk(make):
    tokenizer = make("po", "##k", "a", "nice", ",")
    assert tokenizer.tokenize("pok pok€ a,pok€") == ["po", "##k", "[UNK]", "a", ",", "[UNK]"]
    assert tokenizer.tokenize("\ue000 nice") == ["[UNK]", "nice"]


def test_length_limit_counts_characters_after_cleaning(make):
    tokenizer = make("x", "##x", "ก", "##ก")
    assert tokenizer.tokenize("x" * 200) == ["x"] + ["##x"] * 199
    assert tokenizer.tokenize("x" * 201) == ["[UNK]"]
    assert tokenizer.tokenize("x\u200b" * 200) == ["x"] + ["##x"] * 199
    assert len(tokenizer.tokenize("ก" * 150)) == 150
    short = tokenization.WordpieceTokenizer({"?": 0, "x": 1, "##x": 2}, "?", 3)
    assert short.tokenize("xxx xxxx") == ["x", "##x", "##x", "?"]


def test_cost_of_a_long_word_is_not_quadratic():
    class Counting(dict):
        looked_up = 0

        def __contains__(self, key):
            Counting.looked_up += 1
            return super().__contains__(key)

    wordpiece = tokenization.WordpieceTokenizer(
        Counting({"x": 0, "##x": 1, "##abcdef": 2}), max_input_chars_per_word=10**6
    )
    assert len(wordpiece.split("x" * 10000)) == 10000
    assert Counting.looked_up < 10 * 10000


def test_protected_tokens(make):
    tokens = ("[", "]", "mask", "a", "##b", "##ing", "[MASK]", "[MASK]s", "ab", "²x")
    tokenizer = make(*tokens, protected_tokens=["[MASK]", "[MASK]s", "##ing", "²x"])
    assert tokenizer.tokenize("a[MASK]b [mask]") == ["a", "[MASK]", "[UNK]", "[", "mask", "]"]
    assert tokenizer.tokenize("[MASK]s[MASK]") == ["[MASK]s", "[MASK]"]
    assert tokenizer.tokenize("A##ing ²X²x") == ["a", "##ing", "²x", "²x"]
    text = "xé[MASK] A##ing²x"
    ids, starts, ends = tokenizer.encode_with_offsets(text)
    assert tokenizer.convert_ids_to_tokens(ids) == ["[UNK]", "[MASK]", "a", "##ing", "²x"]
    assert [text[s:e] for s, e in zip(starts, ends, strict=True)] == [
        *("xé", "[MASK]", "A", "##ing", "²x")
    ]
    assert tokenizer.encode(text) == ids
    assert make(*tokens).tokenize("[MASK]") == ["[", "mask", "]"]


@pytest.mark.parametrize("token", ["", "a b", "a\u2028b"])
def test_protected_tokens_with_white_space_are_refused(token):
    with pytest.raises(errors.UserError, match="--protected_tokens"):
        tokenization.BasicTokenizer(protected_tokens=[token])


def test_protected_tokens_must_be_in_the_vocabulary(make):
    with pytest.raises(errors.UserError, match=r"--protected_tokens: \[MASK\] not in --vocab_file"):
        make("a", protected_tokens=["[MASK]", "a"])


def test_offsets_after_characters_that_change_length(make):
    tokenizer = make("σ", "##α", "##ς", "naive", "cafe", "i", "##x", "ss")
    text = "Σας nai\u0308ve  cafe\u0301 x\u200b\u200b" + "y" * 201 + " \u0130x a\ufffdé!"
    ids, starts, ends = tokenizer.encode_with_offsets(text)
    cut = [text[s:e] for s, e in zip(starts, ends, strict=True)]
    assert tokenizer.convert_ids_to_tokens(ids) == [
        *("σ", "##α", "##ς", "naive", "cafe", "[UNK]", "i", "##x", "[UNK]", "[UNK]")
    ]
    assert cut == [
        *("Σ", "α", "ς", "nai\u0308ve", "cafe\u0301", "x\u200b\u200b" + "y" * 201),
        *("\u0130", "x", "a\ufffdé", "!"),
    ]


def test_text_that_is_no_text_is_refused(make):
    tokenizer = make("a")
    for text in (None, float("nan"), 3):
        for call in (tokenizer.tokenize, tokenizer.encode, tokenizer.encode_with_offsets):
            with pytest.raises(ValueError, match=f"expected text, found {text!r}"):
                call(text)
    assert tokenization.convert_to_unicode(b"caf\xc3\xa9\xff!") == "café!"
    assert tokenization.printable_text("é") == tokenization.printable_text("é".encode()) == "é"


def test_memory_is_bounded_and_does_not_change_results(make, monkeypatch):
    monkeypatch.setattr(tokenization, "_CACHE_ENTRIES", 10)
    tokenizer = make(*"abcdefgh", *(f"##{c}" for c in "abcdefgh"))
    draw = random.Random(3)
    for _ in range(50):
        text = " ".join("".join(draw.choices("abcdefghi", k=3)) for _ in range(40))
        assert tokenizer.encode(text) == tokenizer.convert_tokens_to_ids(tokenizer.tokenize(text))
        assert 0 < len(tokenizer._chunk_ids) <= 10
    tokenizer.encode("x" * 1000)
    assert max(map(len, tokenizer._chunk_ids)) < 1000


def test_a_tokenizer_can_be_sent_to_another_process(make):
    tokenizer = make("a", "##b", protected_tokens=["a"])
    tokenizer.encode("aB")
    assert pickle.loads(pickle.dumps(tokenizer)).encode("aB ab") == tokenizer.encode("aB ab")


# --------------------------------------------------------------------------------------------------
# Vocabularies
# --------------------------------------------------------------------------------------------------


def write(path: pathlib.Path, content: bytes) -> str:
    path.write_bytes(content)
    return str(path)


@pytest.mark.parametrize(
    "content",
    [
        b"a\n\nb\n",
        "a\n\u2028\nb".encode(),
        b"a\r\n\r\nb\r\n",
        b"a\n \x0c\nb \n",
        b"\xef\xbb\xbfa\n\nb\n",
    ],
)
def test_ids_are_line_numbers(tmp_path, content):
    vocab = tokenization.load_vocab(write(tmp_path / "v", content))
    assert list(vocab.items()) == [("a", 0), ("", 1), ("b", 2)]


def test_last_of_equal_lines_wins_with_a_warning(tmp_path, caplog):
    path = write(tmp_path / "v", b"a\nb\nc\nb\n")
    assert list(tokenization.load_vocab(path).items()) == [("a", 0), ("b", 3), ("c", 2)]
    assert "'b' on lines 2 and 4" in caplog.text
    tokenizer = tokenization.FullTokenizer(path)
    assert tokenizer.tokens == ["a", "b", "c", "b"]
    assert tokenizer.inv_vocab == {0: "a", 3: "b", 2: "c"}


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"[PAD]\na\xff\xfe\n", "line 2: not UTF-8"), (b"a\x00b\n", "binary file")],
)
def test_a_file_that_is_no_vocabulary(tmp_path, content, message):
    path = write(tmp_path / "model.ckpt.data-00000-of-00001", content)
    with pytest.raises(errors.UserError, match=message) as error:
        tokenization.load_vocab(path)
    assert f"--vocab_file={path}" in str(error.value) and "WordPiece" in str(error.value)


def test_no_file_and_a_directory(tmp_path):
    with pytest.raises(errors.UserError, match="--vocab_file=.*no such file"):
        tokenization.load_vocab(str(tmp_path / "absent"))
    with pytest.raises(errors.UserError, match="--vocab_file=.*a directory"):
        tokenization.load_vocab(str(tmp_path))


def test_vocabulary_behind_a_url():
    import tensorflow as tf

    with tf.io.gfile.GFile("ram://tokenization_vocab.txt", "wb") as file:
        file.write(b"a\r\n\xe2\x80\xa8\nb\n")
    vocab = tokenization.load_vocab("ram://tokenization_vocab.txt")
    assert list(vocab.items()) == [("a", 0), ("", 1), ("b", 2)]
    with pytest.raises(errors.UserError, match="no such file"):
        tokenization.load_vocab("ram://tokenization_absent.txt")


def test_a_missing_token_is_a_key_error():
    with pytest.raises(KeyError, match="'b'"):
        tokenization.convert_tokens_to_ids({"a": 0}, ["a", "b"])
    assert tokenization.convert_tokens_to_ids({"a": 4}, ["a"]) == [4]
    assert tokenization.convert_ids_to_tokens({4: "a"}, [4]) == ["a"]
    assert tokenization.convert_by_vocab({"a": 4}, "aa") == [4, 4]


SPECIAL = tokenization.SPECIAL_TOKENS


def numbered(*tokens: str) -> dict[str, int]:
    return {token: index for index, token in enumerate(tokens)}


def test_check_vocab_lists_what_is_missing():
    with pytest.raises(errors.UserError) as error:
        tokenization.check_vocab(numbered("<unk>", "[CLS]", "[SEP]", "[PAD]"), "v.txt")
    assert "[UNK], [MASK]" in str(error.value) and "v.txt" in str(error.value)
    assert "[CLS]" not in str(error.value)
    tokenization.check_vocab(numbered("[UNK]", "a"), "v.txt", required=["[UNK]"])


def test_check_vocab_warns_when_padding_is_a_word(caplog):
    tokenization.check_vocab(numbered(*SPECIAL), "v.txt")
    assert not caplog.records
    tokenization.check_vocab(numbered("a", *SPECIAL), "v.txt")
    assert "[PAD] is on line 2" in caplog.text


def test_check_vocab_against_the_model():
    vocab = numbered(*SPECIAL, "a", "b")
    tokenization.check_vocab(vocab, "v.txt", vocab_size=7)
    tokenization.check_vocab(vocab, "v.txt", vocab_size=32000)
    tokenization.check_vocab({**vocab, "": 7}, "v.txt", vocab_size=7)  # an empty last line
    with pytest.raises(errors.UserError, match=r"v\.txt has 7 entries.* is 6"):
        tokenization.check_vocab(vocab, "v.txt", vocab_size=6)


@pytest.mark.parametrize(
    ("words", "lower", "warning"),
    [
        (["the", "of", "##S"], True, None),
        (["the", "of"], False, "--do_lower_case=false, but no word"),
        (["the", "The", "Of"], True, "2 of 3 words"),
        (["the", "The"], False, None),
        (["天", "气"], False, None),
    ],
)
def test_check_vocab_warns_when_case_does_not_fit(make, caplog, words, lower, warning):
    tokenizer = make(*SPECIAL, *words, do_lower_case=lower)
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        tokenization.check_vocab(tokenizer, "v.txt", required=["[UNK]"])
    assert (warning in caplog.text) if warning else not caplog.records


def test_released_vocabularies_fit_one_case_only(golden, caplog):
    tokenizer, _ = golden
    tokenization.check_vocab(tokenizer, "vocab.txt", vocab_size=len(tokenizer.tokens))
    assert not caplog.records
    basic = tokenizer.basic_tokenizer
    basic.do_lower_case = not basic.do_lower_case
    try:
        tokenization.check_vocab(tokenizer, "vocab.txt")
    finally:
        basic.do_lower_case = not basic.do_lower_case
    assert "--do_lower_case" in caplog.text


@pytest.mark.parametrize(
    ("name", "lower"),
    [
        ("uncased_L-24_H-1024_A-16", True),
        ("uncased_L-12_H-768_A-12", True),
        ("multilingual_L-12_H-768_A-12", True),
        ("chinese_L-12_H-768_A-12", True),
        ("cased_L-12_H-768_A-12", False),
        ("cased_L-24_H-1024_A-16", False),
        ("multi_cased_L-12_H-768_A-12", False),
        ("wwm_uncased_L-24_H-1024_A-16", True),
        ("wwm_cased_L-24_H-1024_A-16", False),
        ("uncased_L-2_H-128_A-2", True),
    ],
)
def test_case_of_released_checkpoints(name, lower):
    for path in (f"/m/{name}/bert_model.ckpt", rf"C:\m\{name}\bert_model.ckpt", f"gs://b/{name}"):
        tokenization.validate_case_matches_checkpoint(lower, path)
        with pytest.raises(ValueError) as error:
            tokenization.validate_case_matches_checkpoint(not lower, path)
        assert "--init_checkpoint" in str(error.value)
        assert f"give --do_lower_case={str(lower).lower()}" in str(error.value)


@pytest.mark.parametrize(
    "path",
    [None, "", "bert_model.ckpt", "/my_cased/model.ckpt-3", "/cased_L-1_H-1_A-1/out/model.ckpt"],
)
def test_case_of_other_checkpoints_is_not_judged(path):
    tokenization.validate_case_matches_checkpoint(True, path)
    tokenization.validate_case_matches_checkpoint(False, path)


def test_no_tensorflow_and_no_locale_needed(tmp_path):
    path = write(tmp_path / "v", "[UNK]\né\n天\n".encode())
    code = (
        "import sys, tokenization; t = tokenization.FullTokenizer(sys.argv[1], False);"
        "assert t.encode('天é') == [2, 1]; sys.exit('tensorflow' in sys.modules)"
    )
    environment = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [sys.executable, "-c", code.encode("unicode_escape").decode(), path]
    subprocess.run(command, check=True, cwd=ROOT, env=environment)


@pytest.mark.parametrize(
    "words, strip_accents, warns",
    [
        (["หนึ่ง", "ที่", "a"], None, True),
        (["हिन्दी", "में", "a"], None, True),
        (["หนึ่ง", "ที่", "a"], False, False),
        (["a", "b", "c"], None, False),
    ],
)
def test_entries_with_marks_that_are_stripped_are_told(
    tmp_path, caplog, words, strip_accents, warns
):
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join([*tokenization.SPECIAL_TOKENS, *words]) + "\n", encoding="utf-8")
    tokenizer = tokenization.FullTokenizer(str(path), strip_accents=strip_accents)
    tokenization.check_vocab(tokenizer, str(path))
    assert ("give --strip_accents=false" in caplog.text) is warns

"""From pieces back to the text of a context."""

import itertools
import random

import pytest

import squad_files
import tokenization
from tasks.squad import examples as squad_examples
from tasks.squad import features as squad_features
from tasks.squad import options as squad_options
from tasks.squad import texts as squad_texts

SIZES = {"max_seq_length": 200, "max_query_length": 8, "num_workers": 1}


@pytest.mark.parametrize(
    ("predicted", "original", "lower", "expected"),
    [
        ("steve smith", "Steve Smith's", True, "Steve Smith"),
        ("1895", "(1895-1943).", True, "1895"),
        ("cafe", "Café", True, "Café"),
        ("naive", "naïve approach", True, "naïve"),
        ("10 , 000", "$10,000.", True, "10,000"),
        ("smith", "Mr Smith", False, "Mr Smith"),  # not found in a cased text
        ("tokyo", "東京 Tokyo", True, "Tokyo"),
        ("zoe kravitz", "Zoë Kravitz,", True, "Zoë Kravitz"),
        ("istanbul", "İstanbul'da", True, "İstanbul"),
        ("[UNK] smith", "J\u0416 Smith,", True, "J\u0416 Smith,"),
        ("", "Rome", True, "Rome"),
        # Characters that vanish, or become several.
        ("cafe", "cafe\u0301,", True, "cafe\u0301"),
        ("120 m", "120\u00a0m.", True, "120\u00a0m"),
        ("passport", "pass\u200bport,", True, "pass\u200bport"),
        ("five", "five\ufeff.", True, "five"),
        ("天 津", "北京\u3000天津", True, "天津"),
        ("京 天", "北京\u3000天津", True, "京\u3000天"),
        ("\u1112\u1161\u11ab", "한국", True, "한"),
        ("b", "\u00ada\u00adb\u00ad,", True, "b"),
    ],
)
def test_final_text(predicted, original, lower, expected):
    assert squad_texts.get_final_text(predicted, original, lower) == expected


@pytest.mark.parametrize(
    ("predicted", "original", "expected"),
    [
        # A vowel sign that follows the consonant and is kept (Mc), one that is stripped (Mn).
        ("क", "किताबे\u0902,", "कि"),
        ("त", "किताबे\u0902,", "ता"),
        ("कित", "किताबे\u0902,", "किता"),
        ("ाब", "किताबे\u0902,", "ताबे\u0902"),
        ("กรุง".replace("ุ", ""), "กรุงเทพ\u0e48.", "กรุง"),
        ("\u1112\u1161", "\u1112\u1161\u11ab e\u0301", "\u1112\u1161\u11ab"),
        ("👩", "👩\u200d🚀e\u0301", "👩\u200d🚀"),
        ("e", "xe\u0301\u0302y", "e\u0301\u0302"),
    ],
)
def test_no_character_is_cut(predicted, original, expected):
    assert squad_texts.get_final_text(predicted, original, True) == expected
    # The original release takes all of the words, because lengths differ.
    assert squad_texts.get_final_text(predicted, original, True, as_original=True) == original


def _original_final_text(predicted, original):
    """The rule of the original release, in other words: count what is no space."""
    tokenized = " ".join(tokenization.BasicTokenizer(do_lower_case=True).tokenize(original))
    at = tokenized.find(predicted)
    places = [i for i, char in enumerate(original) if char != " "]
    counted = [i for i, char in enumerate(tokenized) if char != " "]
    if at < 0 or len(places) != len(counted):
        return original
    first, last = counted.index(at), counted.index(at + len(predicted) - 1)
    return original[places[first] : places[last] + 1]


@pytest.mark.parametrize("seed", range(10))
def test_texts_as_original(tmp_path, seed):
    context = _random_context(seed)
    passage, count = _passage(tmp_path, context, VOCABULARY, answer_texts="original")
    tokenizer = squad_files.tokenizer(tmp_path, f"what ? {VOCABULARY}")
    words = squad_examples.words(context)
    pieces = [(piece, k) for k, word in enumerate(words) for piece in tokenizer.tokenize(word)]
    differ = 0
    aligned, _ = _passage(tmp_path, context, VOCABULARY)
    for first, last in itertools.combinations_with_replacement(range(count), 2):
        predicted = " ".join(piece for piece, _ in pieces[first : last + 1])
        predicted = predicted.replace(" ##", "").replace("##", "")
        original = " ".join(words[pieces[first][1] : pieces[last][1] + 1])
        found = passage.text(first, last).text
        assert found == _original_final_text(predicted, original)
        differ += found != aligned.text(first, last).text
    assert differ


def _passage(tmp_path, context, vocabulary, do_lower_case=True, exact=False, verbose=False, **more):
    tokenizer = squad_files.tokenizer(tmp_path, f"what ? {vocabulary}", do_lower_case)
    data = squad_files.data((context, [squad_files.question("q")]))
    examples = squad_examples.parse(data, "f", is_training=False)
    options = squad_options.SquadOptions(
        **SIZES, exact_answer_texts=exact, verbose_logging=verbose, **more
    )
    features = squad_features.build(examples, tokenizer, options)
    passages = squad_texts.Passages(examples.contexts, features, tokenizer, options)
    return squad_texts.Passage(passages, 0), len(features.pieces.values)


def test_pieces_of_words(tmp_path):
    context = "In  1895,\nEinstein's Café opened."
    vocabulary = "in 1895 , ein ##stein ' s cafe open ##ed ."
    passage, count = _passage(tmp_path, context, vocabulary)
    assert count == 11
    assert passage.text(0, 1) == ("In 1895", 0, 8)
    assert passage.text(1, 2) == ("1895,", 4, 9)
    assert passage.text(3, 4) == ("Einstein", 10, 18)
    assert passage.text(3, 6) == ("Einstein's", 10, 20)
    assert passage.text(4, 7) == ("stein's Café", 13, 25)
    assert passage.text(9, 10) == ("ed.", 30, 33)
    assert passage.text(0, count - 1)[0] == " ".join(context.split())


PARTS = ["ab", "Abé", "e\u0301", "\u200b", "北京", "한", "½", ",", "(b)"]
PARTS += ["\u00a0", "\u3000", "  ", "\t", " ", " "]
VOCABULARY = "a ##b b e ##e 北 京 , ( ) ##a abe ab"


def _random_context(seed):
    generator = random.Random(seed)
    return "".join(generator.choice(PARTS) for _ in range(25))


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("exact", [False, True])
def test_every_text_stands_at_its_place(tmp_path, seed, exact):
    context = _random_context(seed)
    passage, count = _passage(tmp_path, context, VOCABULARY, exact=exact)
    for first, last in itertools.combinations_with_replacement(range(count), 2):
        text, start, end = passage.text(first, last)
        assert text and " ".join(squad_examples.words(context[start:end])) == text


@pytest.mark.parametrize("seed", range(20))
def test_a_text_that_stands_where_its_pieces_are_is_found_there(tmp_path, seed):
    context = _random_context(seed)
    as_original, count = _passage(tmp_path, context, VOCABULARY)
    exact, _ = _passage(tmp_path, context, VOCABULARY, exact=True)
    for first, last in itertools.combinations_with_replacement(range(count), 2):
        found, own = as_original.text(first, last), exact.text(first, last)
        assert found.text != own.text or found == own


def _spans(generator, made, paragraph, count):
    """Random runs of pieces of a context: first and last piece, the words they are in, their place
    among them, the characters of the context."""
    context = made.examples.contexts[paragraph]
    words, starts = squad_examples.words(context), squad_examples.word_starts(context)
    pieces = []  # word, piece, start and end in the context
    for word, start in enumerate(starts):
        _, begins, ends = made.tokenizer.encode_with_offsets(words[word])
        tokens = made.tokenizer.tokenize(words[word])
        pieces += [
            (word, token, start + a, start + b)
            for token, a, b in zip(tokens, begins, ends, strict=True)
        ]
    for _ in range(count):
        first = generator.randrange(len(pieces))
        last = min(first + generator.randrange(12), len(pieces) - 1)
        predicted = " ".join(token for _, token, _, _ in pieces[first : last + 1])
        predicted = predicted.replace(" ##", "").replace("##", "")
        original = " ".join(words[pieces[first][0] : pieces[last][0] + 1])
        before = pieces[first][2] - starts[pieces[first][0]]
        yield first, last, predicted, original, before, pieces[first][2], pieces[last][3]


@pytest.mark.parametrize(
    ("name", "count", "repeated"), [("xquad_zh", 50, 20), ("xquad_en_v1", 50, 2)]
)
def test_random_spans_have_the_text_of_the_original_and_their_own_place(
    shared, name, count, repeated
):
    made = squad_files.golden(shared, name)
    generator = random.Random(1)
    options = squad_options.SquadOptions()
    passages = squad_texts.Passages(made.examples.contexts, made.features, made.tokenizer, options)
    elsewhere = 0  # the text is right, and stands in the same words before, too
    for paragraph in sorted({question.paragraph for question in made.examples.questions}):
        passage, context = (
            squad_texts.Passage(passages, paragraph),
            made.examples.contexts[paragraph],
        )
        spans = _spans(generator, made, paragraph, count)
        for first, last, predicted, original, before, start, end in spans:
            found = passage.text(first, last)
            assert found.text == squad_texts.get_final_text(predicted, original, True)
            if found.text == " ".join(squad_examples.words(context[start:end])):
                assert (found.start, found.end) == (start, end)
                elsewhere += original.find(found.text) < before
            words = squad_examples.words(context[found.start : found.end])
            assert " ".join(words) == found.text
    assert elsewhere >= repeated


@pytest.mark.parametrize("seed", range(20))
def test_every_text_is_what_a_search_finds(tmp_path, seed):
    context = _random_context(seed)
    passage, count = _passage(tmp_path, context, VOCABULARY)
    tokenizer = squad_files.tokenizer(tmp_path, f"what ? {VOCABULARY}")
    words = squad_examples.words(context)
    pieces = [(piece, k) for k, word in enumerate(words) for piece in tokenizer.tokenize(word)]
    assert len(pieces) == count
    for first, last in itertools.combinations_with_replacement(range(count), 2):
        predicted = " ".join(piece for piece, _ in pieces[first : last + 1])
        predicted = predicted.replace(" ##", "").replace("##", "")
        original = " ".join(words[pieces[first][1] : pieces[last][1] + 1])
        expected = squad_texts.get_final_text(predicted, original, True)
        assert passage.text(first, last).text == expected


def test_unknown_words_in_scripts_without_spaces(tmp_path):
    context = "第\u9f98三届，在京都举行。"
    vocabulary = "第 三 届 在 京 都 ， 。"
    as_original, count = _passage(tmp_path, context, vocabulary)
    assert count == len(context)
    assert as_original.text(2, 3).text == "三届"
    assert as_original.text(1, 2).text == context  # [UNK] is found nowhere
    exact, _ = _passage(tmp_path, context, vocabulary, exact=True)
    assert exact.text(1, 2) == ("\u9f98三", 1, 3)
    assert exact.text(2, 3) == ("三届", 2, 4)


@pytest.mark.parametrize("exact", [False, True])
def test_repeated_words(tmp_path, exact):
    passage, _ = _passage(tmp_path, "banana", "b ##ana ##na", exact=exact)
    assert passage.text(2, 2) == ("na", 4, 6)
    passage, _ = _passage(tmp_path, "北京在年北京在", "北 京 在 年", exact=exact)
    assert passage.text(4, 5) == ("北京", 4, 6)
    assert passage.text(0, 1) == ("北京", 0, 2)
    passage, _ = _passage(tmp_path, "北京 北京在北京", "北 京 在", exact=exact)
    assert passage.text(5, 6) == ("北京", 6, 8)


def test_repeated_words_of_another_form(tmp_path):
    # The search finds "Na"; what the pieces stand for is "na".
    as_original, _ = _passage(tmp_path, "NaNana", "na ##na")
    assert as_original.text(2, 2) == ("Na", 0, 2)
    exact, _ = _passage(tmp_path, "NaNana", "na ##na", exact=True)
    assert exact.text(2, 2) == ("na", 4, 6)


def test_thai(tmp_path):
    context = "กรุงเทพมหานคร เป็นเมืองหลวง"
    passage, count = _passage(
        tmp_path, context, "กรุงเทพ ##มหานคร เป็น ##เมืองหลวง", do_lower_case=False
    )
    assert count == 4
    assert passage.text(1, 1).text == "มหานคร"
    assert passage.text(3, 3).text == "เมืองหลวง"
    assert passage.text(0, 3) == (context, 0, len(context))


def test_fallbacks_are_logged_on_request(tmp_path, caplog):
    caplog.set_level("INFO")
    passage, _ = _passage(tmp_path, "Zürich!", "!", verbose=True)
    assert passage.text(0, 0).text == "Zürich!"
    assert "'[UNK]' is not found in 'Zürich!'" in caplog.text
    caplog.clear()
    _passage(tmp_path, "Zürich!", "!")[0].text(0, 0)
    assert "is not found" not in caplog.text

"""Where windows begin, which pieces each shows best, and where answers are in pieces."""

import numpy as np
import pytest

import squad_files
from command_line import errors
from tasks.squad import options as squad_options
from tasks.squad import windows as squad_windows


def test_windows_of_a_context_of_500_pieces():
    windows = squad_windows.best_windows(500, 371, 128)
    assert [window[:2] for window in windows] == [(0, 371), (128, 499), (256, 500)]
    owner = {p: k for k, (_, _, first, end) in enumerate(windows) for p in range(first, end)}
    # Worked out by hand: the left neighbour leads up to 249; the last has only 244 pieces.
    for place in (0, 127, 128, 200, 249):
        assert owner[place] == 0
    for place in (250, 256, 312, 316, 370, 371, 400):
        assert owner[place] == 1
    assert owner[499] == 2


@pytest.mark.parametrize("seed", range(40))
def test_best_window_is_the_one_with_most_context(seed):
    generator = np.random.default_rng(seed)
    room = int(generator.integers(1, 400))
    count = int(generator.integers(0, 4 * room + 2))
    stride = int(generator.integers(1, 2 * room + 1))
    windows = squad_windows.best_windows(count, room, stride)
    begins = [0] if count else []
    while begins and begins[-1] + room < count:
        begins.append(begins[-1] + min(stride, room))
    assert [window[0] for window in windows] == begins
    for place in range(0, count, max(1, count // 50)):
        scores = [
            min(place - begin, end - 1 - place) + 0.01 * (end - begin)
            if begin <= place < end
            else -1.0
            for begin, end, _, _ in windows
        ]
        owners = [k for k, window in enumerate(windows) if window[2] <= place < window[3]]
        assert owners == [int(np.argmax(scores))]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"max_seq_length": 64}, "expected more than --max_query_length + 3 = 67"),
        ({"max_seq_length": 67}, "--max_seq_length=67 leaves no room"),
    ],
)
def test_sizes_without_room(flags, message):
    with pytest.raises(errors.FlagError) as caught:
        squad_options.SquadOptions(**flags)
    assert message in str(caught.value)


def _rows(part):
    """The windows of a part, each with the values of COLUMNS."""
    return np.array(part.table).reshape(-1, len(squad_windows.COLUMNS)).tolist()


def _answers(tokenizer, context, *answers):
    """Pieces of each answer in a context that one window takes."""
    work = squad_windows.WindowMaker(
        tokenizer, squad_options.SquadOptions(max_seq_length=40, max_query_length=8)
    )
    places = [(context.index(answer), len(answer)) for answer in answers]
    questions = [(k, "what ?", start, start + size) for k, (start, size) in enumerate(places)]
    part = work([squad_windows.Paragraph(context, questions)])
    found = []
    for row in _rows(part):
        values = dict(zip(squad_windows.COLUMNS, row, strict=True))
        ids = part.ids[sum(part.lengths[: len(found)]) :]
        pieces = ids[values["start_positions"] : values["end_positions"] + 1]
        found.append(" ".join(tokenizer.convert_ids_to_tokens(pieces.tolist())))
    return found, part


def test_answers_narrow_to_their_own_pieces(tmp_path):
    words = "what ? ( 1895 - 1943 ) in japanese towns 北 京 天 津 120 m . zoe"
    tokenizer = squad_files.tokenizer(tmp_path, words)
    context = "(1895-1943) in Japanese towns 北京\u3000天津 120\u00a0m. Zoë."
    wanted = ["1895", "1943", "in", "Japan", "天津", "120\u00a0m", "Zoë", "(1895-1943) in"]
    found, part = _answers(tokenizer, context, *wanted)
    assert found == [
        "1895",
        "1943",
        "in",
        "japanese",  # half a piece: the word stays
        "天 津",
        "120 m",
        "zoe",
        "( 1895 - 1943 ) in",
    ]
    assert part.narrowed == 5


def test_answers_inside_phrases_without_spaces(tmp_path):
    # Alone, the answer would be cut into other pieces than in its phrase.
    vocabulary = "ผม ##ไปกรุง ##เทพ กรุงเทพ ##ครับ 私 は ##ロン ##ドン に ロンドン a ##bc bc ##d"
    tokenizer = squad_files.tokenizer(tmp_path, f"what ? {vocabulary}", do_lower_case=False)
    found, part = _answers(tokenizer, "ผมไปกรุงเทพครับ", "กรุงเทพ")
    assert found == ["##ไปกรุง ##เทพ"]
    assert part.narrowed == 1
    assert _answers(tokenizer, "私はロンドンに", "ロンドン")[0] == ["[UNK]"]
    found, _ = _answers(tokenizer, "ผมไปกรุงเทพabcd", "abcd")
    assert found == ["[UNK]"]
    tokenizer = squad_files.tokenizer(tmp_path, "ไป ##ab ##cdไป a ##bc bc ##d", do_lower_case=False)
    assert _answers(tokenizer, "ไปabcdไป", "abc")[0] == ["##ab ##cdไป"]
    # Where words are words the original's rule stands.
    found, part = _answers(tokenizer, "abcd", "bc")
    assert found == ["a ##bc ##d"]
    assert part.narrowed == 0


def test_words_without_pieces(tmp_path):
    tokenizer = squad_files.tokenizer(tmp_path, "what ? a b c")
    found, part = _answers(tokenizer, "a \u200b b \u00ad c", "a", "\u200b b", "b", "\u00ad", "c")
    assert part.without_pieces == [3]
    assert found == ["a", "b", "b", "c"]
    assert part.words.tolist() == [0, 2, 4]
    assert _answers(tokenizer, "a c\u200b b", "\u200b")[0] == ["c"]  # the word it is in
    _, part = _answers(tokenizer, "a \u200b", "\u200b")
    assert part.without_pieces == [0]


def test_answer_cut_by_a_border_is_no_answer(tmp_path):
    letters = "a b c d e f g h i j k l m n"
    tokenizer = squad_files.tokenizer(tmp_path, f"what ? {letters}")
    sizes = squad_options.SquadOptions(max_seq_length=16, doc_stride=4, max_query_length=8)
    start = letters.index("j")
    questions = [(0, "what ?", start, start + 5), (1, "what ?", 0, len(letters))]
    part = squad_windows.WindowMaker(tokenizer, sizes)(
        [squad_windows.Paragraph(letters, questions)]
    )
    columns = dict(
        zip(squad_windows.COLUMNS, map(list, zip(*_rows(part), strict=True)), strict=True)
    )
    # Room for 11 letters behind [CLS] what ? [SEP]; "j k l" is letters 9 to 11.
    assert columns["doc_start"] == [0, 4, 0, 4]
    assert columns["start_positions"] == [0, 9, 0, 0]
    assert columns["end_positions"] == [0, 11, 0, 0]


def test_long_questions_are_cut(tmp_path):
    tokenizer = squad_files.tokenizer(tmp_path, "x y z a b")
    sizes = squad_options.SquadOptions(max_seq_length=8, max_query_length=2)
    part = squad_windows.WindowMaker(tokenizer, sizes)(
        [squad_windows.Paragraph("a b", [(0, "x y z", -1, -1)])]
    )
    tokens = tokenizer.convert_ids_to_tokens(part.ids.tolist())
    assert " ".join(tokens) == "[CLS] x y [SEP] a b [SEP]"

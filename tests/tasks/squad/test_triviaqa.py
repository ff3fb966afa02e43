"""TriviaQA's Wikipedia part becomes a file in the layout of SQuAD."""

import json

import pytest

from command_line import errors
from tasks.squad import examples as squad_examples
from tasks.squad import triviaqa


def _question(number, value, aliases, *files):
    return {
        "QuestionId": f"tc_{number}",
        "Question": f"question {number}?",
        "Answer": {"Value": value, "Aliases": aliases, "NormalizedAliases": [value.lower()]},
        "EntityPages": [{"Filename": name, "Title": "t"} for name in files],
    }


def _normalized(aliases):
    question = _question(1, "Rome", [])
    question["Answer"]["NormalizedAliases"] = aliases
    return question


@pytest.fixture
def convert(tmp_path):
    """Converts questions over documents given by name."""

    def run(questions, documents, max_tokens=400):
        folder = tmp_path / "evidence"
        folder.mkdir()
        for name, text in documents.items():
            (folder / name).write_text(text, encoding="utf-8")
        path = tmp_path / "wikipedia-train.json"
        path.write_text(json.dumps({"Data": questions}))
        return triviaqa.read(str(path), str(folder), max_tokens)

    return run


def _answers(data):
    examples = squad_examples.parse(data, "f", is_training=True)
    return {
        q.qas_id: (examples.contexts[q.paragraph][q.start : q.end], q.start)
        for q in examples.questions
    }


def test_first_place_of_any_name_in_whole_words(convert):
    documents = {
        "a.txt": "He used the bus. The United\nStates of America, or US, is large.",
        "b.txt": "Nothing of it here: usher, bus.",
        "c.txt": "In the U.S. it is so.",
    }
    names = ["US", "United States", "United States of America", "U.S."]
    data = convert([_question(1, "USA", names, *documents)], documents)
    assert _answers(data) == {
        "tc_1--a.txt": ("United\nStates of America", 21),
        "tc_1--c.txt": ("U.S.", 7),
    }
    first = data["data"][0]["paragraphs"][0]
    assert first["context"] == documents["a.txt"]
    assert first["qas"][0]["question"] == "question 1?"


def test_only_the_first_tokens_count(convert):
    documents = {"a.txt": "\none  two\nthree Rome five", "b.txt": "Rome " + "x " * 9}
    data = convert([_question(1, "rome", [], "a.txt", "b.txt")], documents, max_tokens=3)
    assert _answers(data) == {"tc_1--b.txt": ("Rome", 0)}
    assert data["data"][0]["paragraphs"][0]["context"] == "Rome x x"


def test_missing_documents_are_counted(convert, caplog):
    caplog.set_level("INFO")
    questions = [_question(1, "Rome", [], "a.txt", "gone.txt"), _question(2, "Paris", [], "a.txt")]
    data = convert(questions, {"a.txt": "Rome"})
    assert list(_answers(data)) == ["tc_1--a.txt"]
    assert "3 documents of 2 questions; 1 with an answer in their first 400 tokens" in caplog.text
    assert "1 missing, 0 listed again" in caplog.text
    assert "gone.txt" in caplog.text


@pytest.mark.parametrize(
    ("questions", "message"),
    [
        ([_question(1, "Rome", [], "gone.txt")], "none of its 1 documents is in"),
        ([{"QuestionId": "x"}], "Data[0] has no 'Question'"),
        ([{"QuestionId": "x", "Question": "?"}], "Data[0] has no 'Answer'"),
        ([_question(1, "Rome", "R")], "Data[0].Answer.Aliases is text; expected a list"),
        ([_question(1, "Rome", ["R", None])], "Data[0].Answer.Aliases[1] is null; expected text"),
        ([_normalized(None)], "Data[0].Answer.NormalizedAliases is null; expected a list"),
        ([_normalized("rome")], "Data[0].Answer.NormalizedAliases is text; expected a list"),
        ([_normalized([7])], "Data[0].Answer.NormalizedAliases[0] is a whole number; expected t"),
        ([], "wikipedia-train.json: there is no question in it"),
        ([{"QuestionId": 1}], "Data[0].QuestionId is a whole number; expected text"),
        ([{"Question": "?"}], "only 'Question'; expected the layout of TriviaQA"),
    ],
)
def test_what_cannot_be_converted(convert, questions, message):
    with pytest.raises(errors.UserError) as caught:
        convert(questions, {})
    assert message in str(caught.value)
    assert "SQuAD" not in str(caught.value)


def test_normalized_aliases_need_not_be_there(convert):
    question = _question(1, "Roma", [], "a.txt")
    del question["Answer"]["NormalizedAliases"]
    assert _answers(convert([question], {"a.txt": "ROMA"})) == {"tc_1--a.txt": ("ROMA", 0)}


def test_a_document_listed_twice_is_taken_once(convert, caplog):
    caplog.set_level("INFO")
    questions = [_question(1, "Rome", [], "a.txt", "b.txt", "a.txt", "a.txt")]
    data = convert(questions, {"a.txt": "Rome", "b.txt": "in Rome"})
    ids = [p["qas"][0]["id"] for p in data["data"][0]["paragraphs"]]
    assert ids == ["tc_1--a.txt", "tc_1--b.txt"]
    assert "2 documents of 1 questions" in caplog.text and "2 listed again" in caplog.text


def test_two_questions_of_one_id(convert):
    questions = [_question(1, "Rome", [], "a.txt"), _question(1, "Rome", [], "a.txt")]
    with pytest.raises(errors.UserError) as caught:
        convert(questions, {"a.txt": "Rome"})
    assert "Data[1] has the QuestionId and a document of an earlier" in str(caught.value)


def test_the_web_part(convert, tmp_path, caplog):
    both = {**_question(1, "Rome", [], "a.txt"), "SearchResults": [{"Filename": "w.txt"}]}
    neither = {**_question(2, "Rome", [], "a.txt"), "SearchResults": []}
    assert len(_answers(convert([both, neither], {"a.txt": "Rome"}))) == 2
    assert "1 questions have SearchResults, documents of the web, which are not" in caplog.text
    del both["EntityPages"]
    path = tmp_path / "web-dev.json"
    path.write_text(json.dumps({"Data": [neither, both]}))
    with pytest.raises(errors.UserError) as caught:
        triviaqa.read(str(path), str(tmp_path), 400)
    assert "web-dev.json: Data[1] has SearchResults, but no EntityPages; of TriviaQA the" in (
        str(caught.value)
    )
    assert "wikipedia-train.json" in str(caught.value)


def test_a_missing_folder_shows_before_the_file_is_read(tmp_path):
    with pytest.raises(
        errors.UserError, match="--evidence_dir=.*gone is not a directory; expected"
    ):
        triviaqa.read(str(tmp_path / "no file"), str(tmp_path / "gone"), 400)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[]", "is a list; expected an object with the key 'Data' (the layout of TriviaQA)"),
        ('{"data": []}', "has no 'Data', only 'data'; expected the layout of TriviaQA"),
        ('{"Data": [', ":1: not JSON in the layout of TriviaQA"),
    ],
)
def test_another_layout(tmp_path, content, message):
    path = tmp_path / "train.json"
    path.write_text(content)
    with pytest.raises(errors.UserError) as caught:
        triviaqa.read(str(path), str(tmp_path), 400)
    assert message in str(caught.value)

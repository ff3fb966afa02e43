"""The sample text: exactly what its generator writes, true in its world, new where held out."""

import collections
import csv
import json
import math
import pathlib
import random
import re

import pytest

from sample_data import make_world

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "sample_data"
FILES = ("corpus.txt", "heldout.txt")


def read_table(name: str) -> list[dict[str, str]]:
    lines = (FOLDER / "world" / f"{name}.tsv").read_text(encoding="utf-8").splitlines()
    return list(csv.DictReader(lines, delimiter="\t"))


@pytest.fixture(scope="module")
def text() -> dict[str, str]:
    return {name: (FOLDER / name).read_text(encoding="utf-8") for name in FILES}


@pytest.fixture(scope="module")
def stories(text) -> dict[str, list[list[str]]]:
    return {name: [part.split("\n") for part in text[name][:-1].split("\n\n")] for name in FILES}


@pytest.fixture(scope="module")
def sentences(stories) -> list[str]:
    return [sentence for name in FILES for story in stories[name] for sentence in story]


def test_files_are_what_the_script_writes(script, tmp_path):
    run = script("sample_data/make_world.py", f"--output_dir={tmp_path}")
    assert run.returncode == 0, run.stderr
    for name in FILES:
        assert (tmp_path / name).read_bytes() == (FOLDER / name).read_bytes(), name


def test_sizes(text, stories):
    assert 900_000 < sum(len(content.encode()) for content in text.values()) < 1_500_000
    assert [len(stories[name]) for name in FILES] == [1400, 140]
    assert {len(story) for name in FILES for story in stories[name]} <= set(range(8, 21))
    assert 600 <= len(set(re.findall(r"\w+", text["corpus.txt"].lower()))) <= 1200


def test_sentences_are_well_formed(sentences):
    for sentence in sentences:
        assert re.fullmatch(r"[A-Z][a-z]*,?( [A-Za-z]+,?)+[.?]", sentence), sentence
        assert not re.search(r"\b[Aa] [aeiou]|\b[Aa]n [^aeiou]", sentence), sentence
        assert not re.search(r"\b(\w+) \1\b", sentence.lower()), sentence
    lengths = [len(sentence.split()) for sentence in sentences]
    assert min(lengths) >= 3 and max(lengths) <= 14 and 7 < sum(lengths) / len(lengths) < 10


@pytest.mark.parametrize(
    ("pattern", "table", "key", "value"),
    [
        (r"[Tt]he (\w+) eats (\w+)", "animals", "animal", "food"),
        (r"[Tt]he (\w+) sleeps ([a-z ]+)", "animals", "animal", "home"),
        (r"(\w+) is the (\w+) of", "people", "person", "trade"),
        (r"(\w+) lives in (\w+)", "people", "person", "place"),
        (r"[Tt]he (\w+) uses the (\w+)", "people", "trade", "tool"),
        (r"[Tt]he (\w+) needs (\w+)", "people", "trade", "supply"),
        (r"(\w+) is famous for (\w+)", "places", "place", "dish"),
        (r"the (\w+) Feast of (\w+)", "places", "feast", "place"),
        (r"(\w+) keeps the (\w+) Inn", "places", "innkeeper", "inn"),
        (r"(\w+) is an? \w+ from (\w+)", "guests", "guest", "country"),
        (r"(\w+) calls for an? (\w+)", "weather", "weather", "wear"),
    ],
)
def test_facts_hold_wherever_they_are_told(sentences, pattern, table, key, value):
    facts = {row[key]: row[value] for row in read_table(table)}
    told = [match for sentence in sentences for match in re.findall(pattern, sentence)]
    for subject, answer in told:
        known = {name.lower(): fact for name, fact in facts.items()}
        assert known[subject.lower()] == answer
    assert len({subject.lower() for subject, _ in told}) == len(facts)  # every row is told of


def test_a_document_keeps_its_cast(stories):
    keys = ("person", "guest", "animal", "weather", "place", "country", "child", "innkeeper")
    tables = ("people", "guests", "animals", "weather", "places", "guests", "places", "places")
    names = {
        key: {row[key] for row in read_table(table)}
        for key, table in zip(keys, tables, strict=True)
    }
    for story in (story for name in FILES for story in stories[name]):
        words = set(re.findall(r"\w+", " ".join(story)))
        words |= {word.lower() for word in words}
        told = {key: len(words & known) for key, known in names.items()}
        assert told["person"] == told["guest"] == 1 and max(told.values()) == 1, (told, story)


def test_heldout_documents_are_new(stories):
    training = [set(story) for story in stories["corpus.txt"]]
    where = collections.defaultdict(list)
    for number, story in enumerate(training):
        for sentence in story:
            where[sentence].append(number)
    repeated = 0
    for story in stories["heldout.txt"]:
        shared = collections.Counter(number for line in story for number in where.get(line, []))
        assert max(shared.values(), default=0) <= 0.8 * len(story), story
        repeated += sum(line in where for line in story)
    assert repeated < 0.4 * sum(map(len, stories["heldout.txt"]))


def test_no_document_is_told_twice(text):
    parts = [part for name in FILES for part in text[name].strip().split("\n\n")]
    assert len(set(parts)) == len(parts)


def test_text_is_rich_alone_and_plain_in_context(stories):
    figures = make_world.statistics(stories["corpus.txt"], stories["heldout.txt"])
    assert figures["unigram cross-entropy"] > 5.0
    assert figures["trigram cross-entropy"] < 2.5


def test_statistics_by_hand():
    figures = make_world.statistics([["a b"]], [["A b", "b"]])
    p = [0.5, 0.9 + 0.1 * 0.5]  # both words: one of two; then certain but for a tenth
    p.append(0.9 + 0.1 * p[1])
    # Held-out "b" alone begins a sentence, which it never did in training: 0.1 of the lower order.
    lone = [0.5, 0.1 * 0.5, 0.1 * 0.1 * 0.5]
    for name, known, unknown in zip(("unigram", "bigram", "trigram"), p, lone, strict=True):
        expected = -(2 * math.log(known) + math.log(unknown)) / 3
        assert figures[f"{name} cross-entropy"] == pytest.approx(expected), name
    assert figures["training tokens"] == 2 and figures["held-out sentences"] == 2


def test_casts_and_statements():
    world = make_world.World.read()
    generator = random.Random(5)
    plots = list(world.plots())
    assert len(set(plots)) == len(plots) == len(world.stories) * 24 * 12
    cast = world.cast("Piet", "Viola", generator)
    assert (cast["place"], cast["trade"], cast["his"]) == ("Reedholm", "trapper", "his")
    assert (cast["guest"], cast["calling"], cast["country"]) == ("Viola", "painter", "Rosedale")
    assert (cast["animal"], cast["food"]) in {("heron", "trout"), ("otter", "crayfish")}
    assert cast["weather"] in {"rain", "drizzle", "thaw"}
    assert world.cast("Nora", "Viola", generator)["his"] == "her"
    heron = cast | {"animal": "heron", "food": "trout"}
    assert world.statement("food", heron) == "the heron eats trout"


def test_a_story_keeps_the_order_of_its_scenes():
    world = make_world.World.read()
    generator = random.Random(11)
    mornings = ("On Monday", "At dawn", "Everyone in")
    evenings = ("In the evening", "The heron slept", "The otter slept", "Tired but")
    for _ in range(20):
        story = world.tell("workday", world.cast("Piet", "Viola", generator), generator)
        assert len(story) == 13
        assert all(line.startswith(mornings) for line in story[:2])
        assert all(line.startswith(evenings) for line in story[-2:])


TASK_FILES = ("villages_train.tsv", "villages_dev.tsv")
QUESTION_FILES = ("questions_train.json", "questions_dev.json")


def test_labelled_files_are_what_their_script_writes(script, tmp_path):
    result = script("sample_data/make_tasks.py", f"--output_dir={tmp_path}")
    assert result.returncode == 0, result.stderr
    for name in TASK_FILES + QUESTION_FILES:
        assert (tmp_path / name).read_bytes() == (FOLDER / name).read_bytes(), name


def test_sentences_of_villages_are_distinct_true_and_do_not_name_them():
    villages = {row["place"]: row for row in read_table("places")}
    locals_of = {
        name: [value for column, value in row.items() if column not in ("place", "land")]
        for name, row in villages.items()
    }
    for table in ("people", "animals"):
        for row in read_table(table):
            skipped = ("place", "he")
            locals_of[row["place"]] += [v for k, v in row.items() if k not in skipped]
    rows = {
        name: [line.split("\t") for line in (FOLDER / name).read_text().splitlines()]
        for name in TASK_FILES
    }
    assert all(found.pop(0) == ["sentence", "village"] for found in rows.values())
    train, dev = (rows[name] for name in TASK_FILES)
    assert collections.Counter(village for _, village in train) == dict.fromkeys(villages, 24)
    assert len(dev) == 800 and {village for _, village in dev} == set(villages)
    assert len({sentence for sentence, _ in train + dev}) == len(train) + len(dev)
    for sentence, village in train + dev:
        assert village not in sentence
        assert any(word in sentence for word in locals_of[village]), sentence


def test_answers_stand_where_they_should_and_nowhere_else():
    seen = set()
    for name, count in zip(QUESTION_FILES, (1200, 300), strict=True):
        paragraphs = json.loads((FOLDER / name).read_text())["data"][0]["paragraphs"]
        assert len(paragraphs) == count
        for paragraph in paragraphs:
            (question,) = paragraph["qas"]
            (answer,) = question["answers"]
            context, text, start = paragraph["context"], answer["text"], answer["answer_start"]
            assert context[start : start + len(text)] == text and context.count(text) == 1
            assert context.count(".") == 3 and question["question"].endswith("?")
            assert not re.search(r"[{}]", context + question["question"])
            assert question["id"] not in seen
            seen.add(question["id"])

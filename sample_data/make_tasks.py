"""Writes labelled data about the sample world: sentences with their villages, and questions.

Usage: python sample_data/make_tasks.py [--output_dir=DIR]

villages_train.tsv has 24 sentences of each village, villages_dev.tsv 800 others. No sentence names
its village: it takes knowledge of the world to tell that a heron belongs to the marsh. The
sentences come from new tellings of the stories. A model that starts from random weights has too few
rows to learn all that from; a pre-trained one has read of it.

questions_train.json and questions_dev.json, in the layout of SQuAD, have paragraphs of three facts
and a question about one of them; world/questions.tsv words it. In half of the paragraphs the
facts are mixed with those of others, so that answers must be read, not remembered.
"""

import argparse
import collections
import json
import logging
import pathlib
import random
import sys
from collections.abc import Iterator, Sequence

import make_world

SEED = 1931
TRAINING_ROWS = 24  # of each village
DEV_ROWS = 800
TRAINING_QUESTIONS = 1200
DEV_QUESTIONS = 300
FACTS = 3  # of a paragraph

_log = logging.getLogger(__name__)


def sentences(world: make_world.World, seed: int = SEED) -> Iterator[tuple[str, str]]:
    """Yields distinct (sentence, village) in which something, but not its name, tells the village.

    Endless for practical purposes, in an order without stories.
    """
    generator = random.Random(seed)
    plots = list(world.plots())
    seen: set[str] = set()
    told: list[tuple[str, str]] = []
    while True:
        while len(told) < 2000:
            story, person, guest = plots[int(generator.random() * len(plots))]
            cast = world.cast(person, guest, generator)
            for sentence in world.tell(story, cast, generator):
                if sentence not in seen and _tells(world, cast, sentence):
                    told.append((sentence, cast["place"]))
                seen.add(sentence)
        yield told.pop(int(generator.random() * len(told)))


def _tells(world: make_world.World, cast: make_world.Row, sentence: str) -> bool:
    """Whether a sentence has a word of the village, its person or its animal, but not its name."""
    village, person = world.places[cast["place"]], world.people[cast["person"]]
    local = village | person | world.animals[cast["animal"]]
    words = [value for name, value in local.items() if name not in ("place", "he", "him", "his")]
    return cast["place"] not in sentence and any(word in sentence for word in words)


def rows(world: make_world.World) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """The training rows, as many of each village, and the rows to evaluate on."""
    counts: collections.Counter[str] = collections.Counter()
    train: list[tuple[str, str]] = []
    dev: list[tuple[str, str]] = []
    for sentence, village in sentences(world):
        if counts[village] < TRAINING_ROWS:
            counts[village] += 1
            train.append((sentence, village))
        elif len(dev) < DEV_ROWS:
            dev.append((sentence, village))
        if len(dev) == DEV_ROWS and len(train) == TRAINING_ROWS * len(world.places):
            return train, dev
    raise AssertionError("sentences has no end")


def questions(world: make_world.World, count: int, seed: int) -> dict:
    """Paragraphs in the layout of SQuAD 1.1, each with a question about one of its facts."""
    generator = random.Random(seed)
    table = make_world.FOLDER / "world/questions.tsv"
    asked = {row["relation"]: row for row in make_world.read_table(table)}
    plots = list(world.plots())
    paragraphs = []
    while len(paragraphs) < count:
        _, person, guest = make_world.draw(plots, generator)
        cast = world.cast(person, guest, generator)
        if generator.random() < 0.5:  # somebody else's tools, food, drink and so on
            _, other, other_guest = make_world.draw(plots, generator)
            strange = world.cast(other, other_guest, generator)
            cast |= {row["answer"]: strange[row["answer"]] for row in asked.values()}
        relations = list(asked)
        told = [relations.pop(int(generator.random() * len(relations))) for _ in range(FACTS)]
        relation = make_world.draw(told, generator)
        facts = [make_world.polish(world.statement(name, cast)) + "." for name in told]
        answer = cast[asked[relation]["answer"]]
        question = make_world.polish(make_world.fill(asked[relation]["question"], cast))
        context = " ".join(facts)
        start = context.find(answer, context.index(facts[told.index(relation)]))
        if context.count(answer) != 1:  # which of them is meant would be a guess
            continue
        name = f"{seed}-{len(paragraphs)}"
        answers = [{"text": answer, "answer_start": start}]
        qas = [{"id": name, "question": question, "answers": answers}]
        paragraphs.append({"context": context, "qas": qas})
    return {"version": "1.1", "data": [{"title": "villages", "paragraphs": paragraphs}]}


def main(argv: Sequence[str] | None = None) -> int:
    """Writes the four files."""
    parser = argparse.ArgumentParser(description="Writes labelled data about the sample world.")
    parser.add_argument("--output_dir", type=pathlib.Path, default=make_world.FOLDER)
    options = parser.parse_args(None if argv is None else argv[1:])
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    options.output_dir.mkdir(parents=True, exist_ok=True)
    world = make_world.World.read()
    for part, count in (("train", TRAINING_QUESTIONS), ("dev", DEV_QUESTIONS)):
        path = options.output_dir / f"questions_{part}.json"
        text = json.dumps(questions(world, count, SEED + count), sort_keys=True) + "\n"
        path.write_text(text, encoding="utf-8", newline="\n")
        _log.info("%s: %d questions", path, count)
    parts = zip(("train", "dev"), rows(world), strict=True)
    for part, found in parts:
        path = options.output_dir / f"villages_{part}.tsv"
        lines = [("sentence", "village"), *found]
        text = "".join(f"{sentence}\t{village}\n" for sentence, village in lines)
        path.write_text(text, encoding="utf-8", newline="\n")
        _log.info("%s: %d rows", path, len(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())

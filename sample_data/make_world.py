"""Writes the sample text: short stories from a small invented world of eight villages.

Usage: python sample_data/make_world.py [--output_dir=DIR] [--stats]

The world is data, in world/: each table has one row a village, person, guest, animal or weather,
and every column is a fact that no story breaks (the heron eats trout, Nora fishes herring).
relations.tsv says those facts as sentences; stories.txt holds the plots. A story is told of a
*cast* — a person, an animal and a weather of one village, and a guest from abroad — so plot and
cast nearly fix its words. No two documents, of either file, share plot, person and guest: the
held-out file is new combinations of known things.

Labelled data can be made of the same parts: a cast is a flat dict of the true answers,
``statement`` words any of them as a sentence (false when one value comes from another cast),
``tell`` gives the paragraph to ask about.

Every choice is ``int(random() * n)``, whose sequence for a seed is the same in every Python
release; the files in the repository are exactly what this script writes.
"""

import argparse
import collections
import csv
import dataclasses
import itertools
import logging
import math
import pathlib
import random
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

FOLDER = pathlib.Path(__file__).resolve().parent
SEED = 1907
TRAINING_DOCUMENTS = 1400
HELDOUT_DOCUMENTS = 140

_SLOT = re.compile(r"\{([a-z_.:]+)\}")
_ARTICLE = re.compile(r"\b([Aa]) (?=[aeiou])")
_WORD = re.compile(r"\w+|[^\w\s]")
_PRONOUNS = {"he": ("him", "his"), "she": ("her", "her")}

_log = logging.getLogger(__name__)

Row = dict[str, str]
Document = list[str]  # sentences in the order of telling


@dataclasses.dataclass(frozen=True)
class Scene:
    """A step of a plot: ``count`` of its ``sentences`` are told, in their order."""

    count: int
    sentences: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class World:
    """The facts and plots, as read from ``folder``; rows keep the order of their file."""

    places: dict[str, Row]
    people: dict[str, Row]
    guests: dict[str, Row]
    animals: dict[str, Row]
    weather: dict[str, Row]
    relations: dict[str, str]
    stories: dict[str, tuple[Scene, ...]]

    @classmethod
    def read(cls, folder: pathlib.Path = FOLDER / "world") -> "World":
        """Reads the five tables, the relations and the stories."""
        relations = read_table(folder / "relations.tsv")
        return cls(
            places=dict(_rows(folder, "places")),
            people={name: _with_pronouns(row) for name, row in _rows(folder, "people")},
            guests=dict(_rows(folder, "guests")),
            animals=dict(_rows(folder, "animals")),
            weather=dict(_rows(folder, "weather")),
            relations={row["relation"]: row["statement"] for row in relations},
            stories=_read_stories(folder / "stories.txt"),
        )

    def plots(self) -> Iterator[tuple[str, str, str]]:
        """Yields every (story, person, guest)."""
        return itertools.product(self.stories, self.people, self.guests)

    def cast(self, person: str, guest: str, generator: random.Random) -> Row:
        """Completes a cast with an animal and a weather of the person's village.

        Returns:
            The columns of all rows by name: ``person``, ``trade``, ``animal``, ``food``, and so on.
        """
        place = self.people[person]["place"]
        animals = [name for name, row in self.animals.items() if row["place"] == place]
        weather = [name for name, row in self.weather.items() if place in row["places"].split(", ")]
        animal, sky = draw(animals, generator), draw(weather, generator)
        village, visitor = self.places[place], self.guests[guest]
        return village | self.people[person] | self.animals[animal] | self.weather[sky] | visitor

    def statement(self, relation: str, cast: Row) -> str:
        """Says one fact about a cast, without capital and full stop: ``the heron eats trout``."""
        return fill(self.relations[relation], cast)

    def tell(self, story: str, cast: Row, generator: random.Random) -> Document:
        """Tells a story: for each scene its count of sentences, filled with the cast."""
        facts = {f"fact:{name}": self.statement(name, cast) for name in self.relations}
        chosen = [
            sentence
            for scene in self.stories[story]
            for sentence in _draw_in_order(scene.sentences, scene.count, generator)
        ]
        return [polish(fill(text, cast | facts)) for text in chosen]


def documents(world: World, seed: int = SEED) -> tuple[list[Document], list[Document]]:
    """Tells the training and the held-out stories, each with another (story, person, guest)."""
    generator = random.Random(seed)
    plots = list(world.plots())
    wanted = TRAINING_DOCUMENTS + HELDOUT_DOCUMENTS
    told = []
    for _ in range(wanted):
        story, person, guest = plots.pop(int(generator.random() * len(plots)))
        told.append(world.tell(story, world.cast(person, guest, generator), generator))
    return told[:TRAINING_DOCUMENTS], told[TRAINING_DOCUMENTS:]


def as_text(stories: Iterable[Document]) -> str:
    """One sentence a line, an empty line between documents, the last line ended."""
    return "\n\n".join("\n".join(story) for story in stories) + "\n"


def statistics(training: list[Document], heldout: list[Document]) -> dict[str, float]:
    """Measures how much of the held-out text simple models of the training text explain.

    Returns:
        Cross-entropies are in nats a token (words in lower case, punctuation apart). The bigram and
        trigram models are interpolated down to the unigram one, whose counts start at 0.1.
    """
    known = {sentence for story in training for sentence in story}
    repeated = [sentence in known for story in heldout for sentence in story]
    train = [_tokens(sentence) for story in training for sentence in story]
    test = [_tokens(sentence) for story in heldout for sentence in story]
    counts = [_ngrams(train, order) for order in (1, 2, 3)]
    contexts = [_ngrams(train, order, length=order - 1) for order in (1, 2, 3)]
    vocabulary = {word for sentence in train for word in sentence[2:]}
    losses: list[list[float]] = [[], [], []]
    for sentence in test:
        for end in range(3, len(sentence) + 1):
            for order, p in enumerate(_probabilities(sentence[end - 3 : end], counts, contexts)):
                losses[order].append(-math.log(p))
    unigram, bigram, trigram = (sum(values) / len(values) for values in losses)
    return {
        "training documents": len(training),
        "training sentences": len(train),
        "training tokens": sum(len(sentence) - 2 for sentence in train),
        "distinct tokens": len(vocabulary),
        "held-out documents": len(heldout),
        "held-out sentences": len(test),
        "held-out sentences also in training": sum(repeated) / len(repeated),
        "unigram cross-entropy": unigram,
        "bigram cross-entropy": bigram,
        "trigram cross-entropy": trigram,
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Writes corpus.txt and heldout.txt; with --stats also prints measurements of them."""
    parser = argparse.ArgumentParser(description="Writes the sample text of the invented world.")
    parser.add_argument("--output_dir", type=pathlib.Path, default=FOLDER)
    parser.add_argument("--stats", action="store_true", help="also print sizes and entropies")
    options = parser.parse_args(None if argv is None else argv[1:])
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    training, heldout = documents(World.read())
    options.output_dir.mkdir(parents=True, exist_ok=True)
    for name, stories in (("corpus.txt", training), ("heldout.txt", heldout)):
        path = options.output_dir / name
        path.write_text(as_text(stories), encoding="utf-8", newline="\n")
        _log.info("%s: %d documents, %d bytes", path, len(stories), path.stat().st_size)
    if options.stats:
        for title, value in statistics(training, heldout).items():
            print(f"{title:36} {value:10,.3f}" if value % 1 else f"{title:36} {value:10,.0f}")
    return 0


def read_table(path: pathlib.Path) -> list[Row]:
    """The rows of a tab separated file with a header."""
    with path.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines, delimiter="\t", strict=True))


def _rows(folder: pathlib.Path, name: str) -> list[tuple[str, Row]]:
    """The rows of a table with their first column, which names them."""
    return [(next(iter(row.values())), row) for row in read_table(folder / f"{name}.tsv")]


def _with_pronouns(row: Row) -> Row:
    him, his = _PRONOUNS[row["he"]]
    return row | {"him": him, "his": his}


def _read_stories(path: pathlib.Path) -> dict[str, tuple[Scene, ...]]:
    """Parses the format that the head of stories.txt describes."""
    stories: dict[str, tuple[Scene, ...]] = {}
    name = ""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("= "):
            name = line[2:]
            stories[name] = ()
        elif line.startswith("- "):
            stories[name] += (Scene(int(line[2:]), ()),)
        elif line and not line.startswith("#"):
            *before, scene = stories[name]
            told = dataclasses.replace(scene, sentences=(*scene.sentences, line))
            stories[name] = (*before, told)
    return stories


def draw(items: Sequence[Any], generator: random.Random) -> Any:
    """One of the items, each equally likely."""
    return items[int(generator.random() * len(items))]


def _draw_in_order(items: Sequence[str], count: int, generator: random.Random) -> Iterator[str]:
    """Yields ``count`` of the items in their order, every subset equally likely."""
    for position, item in enumerate(items):
        if generator.random() * (len(items) - position) < count:
            count -= 1
            yield item


def fill(text: str, values: Row) -> str:
    """Puts the values of a cast in the slots of a text."""
    return _SLOT.sub(lambda match: values[match[1]], text)


def polish(text: str) -> str:
    """Puts a capital letter in front, and ``an`` before a vowel."""
    text = _ARTICLE.sub(r"\1n ", text)
    return text[0].upper() + text[1:]


def _tokens(sentence: str) -> list[str]:
    """Words and punctuation in lower case, after two marks that begin the sentence."""
    return ["", "", *_WORD.findall(sentence.lower())]


def _ngrams(
    sentences: list[list[str]], order: int, length: int | None = None
) -> collections.Counter[tuple[str, ...]]:
    """Counts the first ``length`` words (default: all) of the n-grams that end in a token."""
    return collections.Counter(
        tuple(sentence[end - order : end][:length])
        for sentence in sentences
        for end in range(3, len(sentence) + 1)
    )


def _probabilities(
    gram: list[str],
    counts: list[collections.Counter[tuple[str, ...]]],
    contexts: list[collections.Counter[tuple[str, ...]]],
) -> Iterator[float]:
    """Probability of the last word of ``gram`` after none, one and two words before it."""
    start = 0.1
    p = (counts[0][(gram[2],)] + start) / (contexts[0][()] + start * len(counts[0]))
    yield p
    for order in (1, 2):
        seen = contexts[order][tuple(gram[2 - order : 2])]
        share = 0.9 if seen else 0.0
        p = share * counts[order][tuple(gram[2 - order :])] / max(seen, 1) + (1 - share) * p
        yield p


if __name__ == "__main__":
    sys.exit(main())

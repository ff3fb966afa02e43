"""A corpus cut into shards, and the processes that turn shards into records.

A shard is some whole documents. Each is worked through by itself, with its own generator, so the
records do not depend on the number of processes, and no process holds more than a shard. Records go
from process to process through temporary files, because dupe_factor multiplies them; what stays in
memory is their place in the file and the order in which they are to be read.
"""

from __future__ import annotations

import array
import dataclasses
import os
import typing
from collections.abc import Callable, Iterator, Sequence

from tasks.pretraining import corpus, instances, masking, records

# --------------------------------------------------------------------------------------------------
# Shard → records, in a worker process
# --------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, kw_only=True)
class Job:
    """What every worker process knows.

    Attributes:
      encode: the tokenizer: sentence → ids.
      continues: for each id 1 if its piece begins with ``##``, else 0.
      recipe: how instances are made.
      unknown_id: id of ``[UNK]``.
      dupe_factor: passes over the corpus.
      random_seed: see ``pretraining_instances.shard_generator``.
      folder: where the temporary files go; the pool makes one for its run.
    """

    encode: Callable[[str], list[int]]
    continues: bytes
    recipe: instances.InstanceConfig
    unknown_id: int
    dupe_factor: int
    random_seed: int
    folder: str = ""


@dataclasses.dataclass(kw_only=True)
class Counts:
    """What was seen; the fields add up over shards."""

    documents: int = 0
    single_sentence_documents: int = 0
    tokens: int = 0
    unknown_tokens: int = 0
    continuation_pieces: int = 0
    instances: int = 0
    dropped: int = 0

    def __add__(self, other: Counts) -> Counts:
        mine, others = dataclasses.asdict(self), dataclasses.asdict(other)
        return Counts(**{name: mine[name] + others[name] for name in mine})


class ShardRecords(typing.NamedTuple):
    """The records of a shard.

    Attributes:
      path: the temporary file that holds them back to back.
      ends: where each record ends in the file.
      order: the order in which they are to be read.
      counts: see there.
    """

    path: str
    ends: array.array
    order: array.array
    counts: Counts

    def read(self) -> Iterator[bytes]:
        """Yields the records in their final order, then removes the file."""
        # Unbuffered: the order is random, so whatever else a buffer holds is of no use.
        with open(self.path, "rb", buffering=0) as spill:
            for at in self.order:
                begin = self.ends[at - 1] if at else 0
                spill.seek(begin)
                yield spill.read(self.ends[at] - begin)
        os.remove(self.path)


def build_shard(
    job: Job, shard: corpus.Shard, report: Callable[[int, int], None] | None = None
) -> ShardRecords:
    """Makes the records of a shard: the whole of what the original release did with a corpus.

    Args:
      job: see there.
      shard: the text.
      report: called after each pass with the bytes read and the instances made in it.

    Returns:
      The records, in a file in ``job.folder``.
    """
    recipe = job.recipe
    features = records.pretraining_features(recipe.max_seq_length, recipe.max_predictions_per_seq)
    documents = instances.read_documents(shard.text, job.encode, recipe.words, job.continues)
    counts = _count(documents, job.unknown_id)
    generator = instances.shard_generator(job.random_seed, shard.number)
    generator.shuffle(documents)
    ends = array.array("Q")
    path = os.path.join(job.folder, f"shard-{shard.number}")
    with open(path, "wb") as spill:
        for _ in range(job.dupe_factor):
            before, written = len(ends), ends[-1] if ends else 0
            for instance in instances.one_pass(documents, recipe, generator):
                if instance is None:
                    counts.dropped += 1
                    continue
                written += spill.write(instances.serialize(instance, features))
                ends.append(written)
            if report is not None:
                report(shard.size, len(ends) - before)
    order = array.array("L", range(len(ends)))
    masking.shuffle(order, generator)
    counts.instances = len(ends)
    return ShardRecords(path, ends, order, counts)


def _count(documents: Sequence[instances.Document], unknown_id: int) -> Counts:
    return Counts(
        documents=len(documents),
        single_sentence_documents=sum(document.sentences == 1 for document in documents),
        tokens=sum(len(document.tokens) for document in documents),
        unknown_tokens=sum(document.tokens.count(unknown_id) for document in documents),
        continuation_pieces=sum(sum(document.joins) for document in documents),
    )

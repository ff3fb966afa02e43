"""From a shard of a corpus to its records, in a worker process.

A shard is a few whole documents. Each is processed by itself, with its own generator, so the
records do not depend on the number of processes, and no process holds more than a shard. Records go
from process to process through temporary files, because dupe_factor multiplies them; only their
offsets in the file and the order in which to read them stay in memory.
"""

import array
import dataclasses
import itertools
import os
import typing
from collections.abc import Callable, Iterator, Sequence

from tasks.pretraining import corpus, instances, masking, options, records


@dataclasses.dataclass(frozen=True, kw_only=True)
class Job:
    """What every worker process knows.

    Attributes:
      encode: the tokenizer: sentence → ids.
      ids: of the vocabulary.
      data: the flags.
      folder: directory of the temporary files; the pool makes one for its run.
    """

    encode: Callable[[str], list[int]]
    ids: masking.TokenIds
    data: options.PretrainingDataOptions
    folder: str = ""


@dataclasses.dataclass(kw_only=True)
class Counts:
    """What the shards had; the fields add up over shards."""

    documents: int = 0
    single_sentence_documents: int = 0
    tokens: int = 0
    words: int = 0
    unknown_tokens: int = 0
    long_sentences: int = 0
    lost_tokens: int = 0
    continuation_pieces: int = 0
    instances: int = 0
    dropped: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        mine, others = dataclasses.asdict(self), dataclasses.asdict(other)
        return Counts(**{name: mine[name] + others[name] for name in mine})


class ShardRecords(typing.NamedTuple):
    """The records of a shard.

    Attributes:
      path: the temporary file that holds them back to back.
      ends: offset of the end of each record in the file.
      order: the order in which to read them.
      counts: what the shard had.
    """

    path: str
    ends: array.array
    order: array.array
    counts: Counts

    def read(self) -> Iterator[bytes]:
        """Yields the records in their final order, then removes the file."""
        # Unbuffered: the order is random, so a buffer would read bytes that are not needed next.
        with open(self.path, "rb", buffering=0) as file:
            for index in self.order:
                begin = self.ends[index - 1] if index else 0
                file.seek(begin)
                yield file.read(self.ends[index] - begin)
        os.remove(self.path)


def build_shard(
    job: Job, shard: corpus.Shard, report: Callable[[int, int], None] | None = None
) -> ShardRecords:
    """Makes the records of a shard: everything that the original release did with a corpus.

    Args:
      job: what the worker knows.
      shard: the text.
      report: called after each pass with the bytes read and the instances made in it.

    Returns:
      The records, in a file in ``job.folder``.
    """
    data = job.data
    features = records.pretraining_features(data.max_seq_length, data.max_predictions_per_seq)
    documents = instances.read_documents(shard.documents, job.encode, data, job.ids)
    counts = _count(documents, job)
    generator = instances.shard_generator(data.random_seed, shard.number)
    generator.shuffle(documents)
    builder = instances.InstanceBuilder(documents, data, job.ids, generator)
    ends = array.array("Q")
    path = os.path.join(job.folder, f"shard-{shard.number}")
    with open(path, "wb") as file:
        for _ in range(data.dupe_factor):
            before, written = len(ends), ends[-1] if ends else 0
            for instance in builder.one_pass():
                if instance is None:
                    counts.dropped += 1
                    continue
                written += file.write(instances.serialize(instance, features))
                ends.append(written)
            if report is not None:
                report(shard.size, len(ends) - before)
    order = array.array("L", range(len(ends)))
    masking.shuffle(order, generator)
    counts.instances = len(ends)
    return ShardRecords(path, ends, order, counts)


def _count(documents: Sequence[instances.Document], job: Job) -> Counts:
    room = job.data.max_seq_length - (2 if job.data.no_nsp else 3)
    surplus = [
        end - begin - room
        for document in documents
        for begin, end in itertools.pairwise(document.starts)
        if end - begin > room
    ]
    pieces = job.ids.is_continuation.__getitem__
    return Counts(
        documents=len(documents),
        single_sentence_documents=sum(document.num_sentences == 1 for document in documents),
        tokens=sum(len(document.tokens) for document in documents),
        words=sum(bytes(map(pieces, document.tokens)).count(0) for document in documents),
        unknown_tokens=sum(document.tokens.count(job.ids.unknown) for document in documents),
        long_sentences=len(surplus),
        lost_tokens=sum(surplus),
        continuation_pieces=sum(sum(document.is_continuation) for document in documents),
    )

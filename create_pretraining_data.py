"""Makes masked-LM / next-sentence examples for BERT from raw text.

Input: plain text, one sentence a line, an empty line between documents (the end of a file ends a
document, too). Output: TFRecord files for run_pretraining.py. The same text, flags and seed give
the same examples, whatever the number of processes; a corpus of one shard gives those of the
original release.
"""

import logging
import random
import sys
from collections.abc import Sequence

import tokenization
from command_line import app, errors, options, original_names
from system import inputs, outputs, signals
from tasks.pretraining import corpus, instances, local_runner, masking, records, shards
from tasks.pretraining import options as pretraining_options

_log = logging.getLogger(__name__)


def work(data: pretraining_options.PretrainingDataOptions, text: options.TokenizerOptions) -> None:
    """Reads the corpus, has the shards built, writes the files."""
    paths = inputs.expand("input_file", data.input_file)
    targets = [item.strip() for item in data.output_file.split(",") if item.strip()]
    if not targets:
        raise errors.FlagError(f"--output_file={data.output_file!r} names no file")
    targets = outputs.check_files("output_file", targets, [*paths, text.vocab_file])
    tokenizer = tokenization.create_tokenizer(text)
    tokenization.check_vocab(tokenizer, text.vocab_file)
    _warn_about_limit(data)
    _log_list("Reading from", paths)
    _log_list("Writing to", targets)
    features = records.pretraining_features(data.max_seq_length, data.max_predictions_per_seq)
    job = shards.Job(encode=tokenizer.encode, ids=masking.token_ids(tokenizer), data=data)
    size = corpus.corpus_size(paths)
    with _exit_on_signals(), local_runner.Pool(data.num_workers, job, size) as pool:
        results = pool.build(corpus.cut(paths, data.shard_size_mb * 1e6, data.text_key))
        if results is None:
            raise errors.UserError(_no_text(paths))
        app.import_tensorflow()  # only now: it takes seconds, in which the workers are busy
        from tasks.pretraining import record_files

        counts = shards.Counts()
        with record_files.RoundRobinWriter(targets) as writer:
            for built in results:
                counts += built.counts
                for record in built.read():
                    if writer.count < data.log_examples:
                        _log_example(record_files.decode_example(features, record), tokenizer)
                    writer.write(record)
            _check_counts(counts, paths, data)
    _warn(counts, data)
    _log.info("Wrote %d total instances", writer.count)


def _warn_about_limit(data: pretraining_options.PretrainingDataOptions) -> None:
    requested = data.masked_lm_prob * data.max_seq_length
    if requested > data.max_predictions_per_seq:
        _log.warning(
            "--masked_lm_prob=%g of --max_seq_length=%d are %g tokens, but "
            "--max_predictions_per_seq=%d: long examples get fewer masked tokens than requested",
            data.masked_lm_prob,
            data.max_seq_length,
            requested,
            data.max_predictions_per_seq,
        )


def _no_text(paths: Sequence[str]) -> str:
    return f"no usable text in {errors.some(paths)}; expected one sentence a line"


def _check_counts(
    counts: shards.Counts, paths: Sequence[str], data: pretraining_options.PretrainingDataOptions
) -> None:
    if not counts.documents:
        raise errors.UserError(_no_text(paths))
    if not data.no_nsp and counts.documents == counts.single_sentence_documents == 1:
        raise errors.UserError(
            f"{', '.join(paths)}: a single sentence has no next one, true or random; give more "
            f"text (one sentence a line), or --no_nsp"
        )
    if not counts.instances:
        raise errors.UserError(
            f"not one of the {counts.dropped} instances has a token that may be masked: with "
            "--do_whole_word_mask a word must not have more pieces than are masked in an example; "
            "a larger --masked_lm_prob or --max_predictions_per_seq allows more"
        )


def _warn(counts: shards.Counts, data: pretraining_options.PretrainingDataOptions) -> None:
    tokenization.warn_about_unknown("the corpus", counts.unknown_tokens, counts.words)
    if counts.lost_tokens:
        _log.warning(
            "%d lines have more tokens than an example holds (--max_seq_length=%d); what is cut "
            "off of them is %d of %d tokens (%.1f%%); end a line after each sentence",
            counts.long_sentences,
            data.max_seq_length,
            counts.lost_tokens,
            counts.tokens,
            100 * counts.lost_tokens / counts.tokens,
        )
    alone = counts.single_sentence_documents
    if not data.no_nsp and 2 * alone >= counts.documents:
        _log.warning(
            "%d of %d documents (%.0f%%) have a single sentence, and every pair of such a document "
            "is labelled random-next; are there empty lines between sentences, not only between "
            "documents? (--no_nsp makes examples without pairs)",
            alone,
            counts.documents,
            100 * alone / counts.documents,
        )
    if not data.no_nsp and counts.documents == 1:
        _log.warning(
            "the text is a single document: random-next segments come from elsewhere in it, never "
            "from where the text goes on; put empty lines between documents"
        )
    if data.do_whole_word_mask and not counts.continuation_pieces:
        cure = "; --whole_word_from_spaces takes words as spaced"
        _log.warning(
            "--do_whole_word_mask changed nothing: no word has more than one piece%s",
            "" if data.whole_word_from_spaces else cure,
        )
    if counts.dropped:
        _log.warning(
            "%d instances dropped, in which no token could be masked; %d are left",
            counts.dropped,
            counts.instances,
        )


def _log_list(title: str, paths: Sequence[str]) -> None:
    _log.info("*** %s %d files ***", title, len(paths))
    for path in paths:
        _log.info("  %s", path)


def _log_example(values: dict[str, list], tokenizer: tokenization.FullTokenizer) -> None:
    length, masked = sum(values["input_mask"]), int(sum(values["masked_lm_weights"]))
    tokens = tokenizer.convert_ids_to_tokens(values["input_ids"][:length])
    lines = [f"tokens: {' '.join(tokens)}"]
    for name, numbers in values.items():
        real = numbers[: masked if name.startswith("masked") else length]
        lines.append(f"{name}: {' '.join(map(str, real))}")
    _log.info("*** Example ***\n%s", "\n".join(lines))


def _exit_on_signals() -> signals.StopRequests:
    """Makes SIGTERM and SIGHUP leave through the cleaning up that Ctrl-C takes."""
    return signals.StopRequests(
        "SIGTERM",
        "SIGHUP",
        message="terminated; nothing written",
        then=lambda number, _: sys.exit(128 + number),
    )


def create_masked_lm_predictions(
    tokens: Sequence[str],
    masked_lm_prob: float,
    max_predictions_per_seq: int,
    vocab_words: Sequence[str],
    rng: random.Random,
    do_whole_word_mask: bool = False,
) -> tuple[list[str], list[int], list[str]]:
    """The original release's function, draw for draw; its last argument was a flag.

    Returns:
      The tokens with some masked, their positions, and the original tokens there.
    """
    if max_predictions_per_seq < 1:
        return list(tokens), [], []
    words = list(dict.fromkeys([*vocab_words, *tokens, "[CLS]", "[SEP]", "[MASK]"]))
    number = {word: index for index, word in enumerate(words)}
    ids = masking.TokenIds(
        cls=number["[CLS]"],
        sep=number["[SEP]"],
        mask=number["[MASK]"],
        unknown=-1,
        never_masked=frozenset((number["[CLS]"], number["[SEP]"])),
        replacements=[number[word] for word in vocab_words],
        is_continuation=b"",
    )
    data = pretraining_options.PretrainingDataOptions(
        masked_lm_prob=masked_lm_prob,
        max_predictions_per_seq=max_predictions_per_seq,
        do_whole_word_mask=do_whole_word_mask,
    )
    masked, positions, labels = masking.mask(
        [number[token] for token in tokens],
        [token.startswith("##") for token in tokens],
        data,
        ids,
        rng,
    )
    return [words[k] for k in masked], positions, [words[k] for k in labels]


def truncate_seq_pair(
    tokens_a: list, tokens_b: list, max_num_tokens: int, rng: random.Random
) -> None:
    """The original release's function, draw for draw: truncates both lists in place."""
    a, b = instances.truncate_pair(len(tokens_a), len(tokens_b), max_num_tokens, rng)
    tokens_a[:], tokens_b[:] = tokens_a[a], tokens_b[b]


__getattr__ = original_names.getattr_of("create_pretraining_data")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    return app.run(
        work,
        [pretraining_options.PretrainingDataOptions, options.TokenizerOptions],
        __doc__,
        argv,
    )


if __name__ == "__main__":
    sys.exit(main())

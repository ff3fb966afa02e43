"""Fine-tunes Hugging Face BertForQuestionAnswering the way run_squad.py does.

    hf/bin/python benchmarks/squad_torch.py --train_file=train-v1.1.json \\
        --predict_file=xquad.en.json --model_dir=DIR --epochs=2 --seed=1

The other side of the results of run_squad.py; see ``torch_fine_tuning``. Windows, the choice of
answers from logits and the scorer are those of this project.
"""

import pathlib
import sys
import time
from typing import Any

import numpy as np
import torch
import transformers

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import tokenization
import torch_fine_tuning
from tasks.squad import answers as squad_answers
from tasks.squad import examples as squad_examples
from tasks.squad import features as squad_features
from tasks.squad import json_layout
from tasks.squad import logits as squad_logits
from tasks.squad import options as squad_options
from tasks.squad import scores as squad_scores


def predict(model: Any, features: squad_features.Features) -> squad_logits.Logits:
    """Logits of all windows."""
    results = []
    with torch.no_grad():
        for rows in torch_fine_tuning.by_length(features.input_ids.lengths):
            batch = torch_fine_tuning.batch_of(features.input_ids, features.segment_ids, rows)
            found = model(**batch)
            sides = (found.start_logits.numpy(), found.end_logits.numpy())
            for row, start, end in zip(rows, *sides, strict=True):
                length = features.input_ids.lengths[row]
                results.append((int(row), start[:length], end[:length]))
    return squad_logits.collect(features, results)


def main() -> None:
    """Trains, and prints the scores of the questions to predict."""
    parser = torch_fine_tuning.parser(__doc__.split("\n")[0])
    parser.add_argument("--train_file", required=True)
    parser.add_argument("--predict_file", required=True)
    flags = parser.parse_args()
    torch.manual_seed(flags.seed)
    tokenizer = tokenization.FullTokenizer(f"{flags.model_dir}/vocab.txt")
    options = squad_options.SquadOptions()
    train_examples = squad_examples.read(flags.train_file, is_training=True)
    train = squad_features.build(train_examples, tokenizer, options)
    model = torch_fine_tuning.create_model(
        transformers.BertForQuestionAnswering,
        flags.model_dir,
        {"qa_outputs.weight", "qa_outputs.bias"},
    )
    targets = {
        name: torch.tensor(getattr(train, name).astype(np.int64))
        for name in ("start_positions", "end_positions")
    }

    def loss_of(rows: np.ndarray) -> torch.Tensor:
        batch = torch_fine_tuning.batch_of(train.input_ids, train.segment_ids, rows)
        return model(**batch, **{name: held[rows] for name, held in targets.items()}).loss

    questions = len(train_examples.questions)
    steps = int(questions / torch_fine_tuning.BATCH_SIZE * flags.epochs)
    started = time.time()
    windows = len(train.start_positions)
    torch_fine_tuning.train(model, loss_of, windows, steps, flags.learning_rate)
    trained = time.time()
    examples = squad_examples.read(flags.predict_file, is_training=False)
    features = squad_features.build(examples, tokenizer, options)
    answers = squad_answers.answer(examples, features, predict(model, features), tokenizer, options)
    gold = squad_scores.references(json_layout.load(flags.predict_file), flags.predict_file)
    found = squad_scores.score_v1(gold, answers.predictions)
    print(
        f"seed {flags.seed} rate {flags.learning_rate:g}: EM {found['exact_match']:.2f} "
        f"F1 {found['f1']:.2f} ({steps} steps, {trained - started:.0f} s; "
        f"prediction {time.time() - trained:.0f} s)"
    )


if __name__ == "__main__":
    main()

#!/bin/sh
# From raw text to a pre-trained BERT, a classifier and a reader, on the sample data of the project.
# Run it as: make demo
#
# The held-out documents tell of the same small world as the training documents. A model that has
# read the training text guesses their masked words far better than word frequencies do, and knows
# whether a second segment goes on with the first.
set -eu
cd "$(dirname "$0")/.."
OUT=build/demo
rm -rf "$OUT"
mkdir -p "$OUT"

run() {
  echo
  echo "\$ $*"
  "$@"
}

cat > "$OUT/bert_config.json" <<'CONFIG'
{
  "vocab_size": 800,
  "hidden_size": 128,
  "num_hidden_layers": 2,
  "num_attention_heads": 4,
  "intermediate_size": 512,
  "max_position_embeddings": 32,
  "type_vocab_size": 2,
  "hidden_dropout_prob": 0.0,
  "attention_probs_dropout_prob": 0.0,
  "initializer_range": 0.08
}
CONFIG

run python create_vocab.py --input_file=sample_data/corpus.txt --output_file="$OUT/vocab.txt" \
  --vocab_size=800

run python create_pretraining_data.py --input_file=sample_data/corpus.txt \
  --output_file="$OUT/train.tfrecord" --vocab_file="$OUT/vocab.txt" --max_seq_length=32 \
  --max_predictions_per_seq=5 --dupe_factor=10 --log_examples=1

run python create_pretraining_data.py --input_file=sample_data/heldout.txt \
  --output_file="$OUT/heldout.tfrecord" --vocab_file="$OUT/vocab.txt" --max_seq_length=32 \
  --max_predictions_per_seq=5 --dupe_factor=2 --random_seed=1 --log_examples=0

run python run_pretraining.py --bert_config_file="$OUT/bert_config.json" \
  --input_file="$OUT/train.tfrecord" --eval_file="$OUT/heldout.tfrecord" --output_dir="$OUT/run" \
  --do_train --do_eval --max_seq_length=32 --max_predictions_per_seq=5 --train_batch_size=64 \
  --eval_batch_size=64 --learning_rate=1e-3 --num_train_steps=2500 --num_warmup_steps=250 \
  --save_checkpoints_steps=500

echo
echo "Which village does a sentence tell of? 192 labelled rows to learn from, 800 to be tested on;"
echo "once from the model above, once from random weights, with three seeds each."

villages() {  # start, seed, more flags
  dir="$OUT/villages-$1-$2"
  run python run_classifier.py --task_name=custom --train_file=sample_data/villages_train.tsv \
    --dev_file=sample_data/villages_dev.tsv --text_a_column=sentence --label_column=village \
    --vocab_file="$OUT/vocab.txt" --bert_config_file="$OUT/bert_config.json" \
    --output_dir="$dir" --do_train --do_eval --max_seq_length=32 --train_batch_size=16 \
    --eval_batch_size=64 --num_train_epochs=10 --learning_rate=5e-4 --random_seed="$2" \
    ${3:+"$3"} 2>"$dir.log" || { cat "$dir.log" >&2; exit 1; }
  grep eval_accuracy "$dir/eval_results.txt"
}

for seed in 1 2 3; do
  villages pretrained $seed --init_checkpoint="$OUT/run"
  villages random $seed
done

echo
echo "What does the owl eat? 1200 questions about short texts to learn from, 300 to be tested on."

questions() {  # start, more flags
  dir="$OUT/questions-$1"
  run python run_squad.py --train_file=sample_data/questions_train.json \
    --predict_file=sample_data/questions_dev.json --vocab_file="$OUT/vocab.txt" \
    --bert_config_file="$OUT/bert_config.json" --output_dir="$dir" --do_train --do_predict \
    --do_eval --max_seq_length=32 --max_query_length=12 --doc_stride=8 --train_batch_size=32 \
    --predict_batch_size=64 --num_train_epochs=4 --learning_rate=5e-4 \
    ${2:+"$2"} 2>"$dir.log" || { cat "$dir.log" >&2; exit 1; }
  cat "$dir/eval_results.txt"
}

questions pretrained --init_checkpoint="$OUT/run"
questions random

mean() {  # of the accuracies of three runs
  awk '$1 == "eval_accuracy" { sum += $3 } END { printf "%.2f", sum / 3 }' \
    "$OUT/villages-$1"-*/eval_results.txt
}

exact() {
  awk '$1 == "exact_match" { printf "%.0f %%", $3 }' "$OUT/questions-$1/eval_results.txt"
}

cat <<END

Done: from plain text to a pre-trained BERT, and on to a classifier and a reader.
  Masked words and next sentences of documents it never read: the figures further up, and beside
  them what word frequencies alone achieve.
  Villages: accuracy $(mean pretrained) after pre-training, $(mean random) from random weights.
  Questions: $(exact pretrained) answered exactly after pre-training, $(exact random) from random weights.
  Files: $OUT has vocab.txt and the records; $OUT/run the pre-trained model, metrics.jsonl and what
         TensorBoard reads; $OUT/villages-* and questions-* the fine-tuned models with their logs.
  Next:  README.md shows the same steps for a corpus, a table and questions of your own.
END

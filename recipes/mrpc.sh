#!/bin/sh
# Fine-tunes the released BERT-BASE on MRPC: the first command that users of BERT run.
#
#   BERT_BASE_DIR=uncased_L-12_H-768_A-12 GLUE_DIR=glue_data sh recipes/mrpc.sh [output folder]
#
# Expected: 343 steps. The released example got eval_accuracy 0.845 on the 408 dev rows; seeds differ
# a lot on a set this small, from 0.84 to 0.88 (--random_seed). Time: at most an hour on one Cloud TPU
# or a few hours on a GPU, says the paper of all its tasks, and MRPC is one of the smallest.
# The scores are in eval_results.txt. Then the test set is predicted with what was trained, one line
# of probabilities a row, in test_results.tsv.
set -eu
: "${BERT_BASE_DIR:?the folder of a released model: vocab.txt, bert_config.json, bert_model.ckpt.*}"
: "${GLUE_DIR:?the folder of a GLUE download, with MRPC in it}"
OUT=${1:-/tmp/mrpc_output}
CODE=$(dirname "$0")/..

python "$CODE/run_classifier.py" \
  --task_name=MRPC --do_train=true --do_eval=true --data_dir="$GLUE_DIR/MRPC" \
  --vocab_file="$BERT_BASE_DIR/vocab.txt" --bert_config_file="$BERT_BASE_DIR/bert_config.json" \
  --init_checkpoint="$BERT_BASE_DIR/bert_model.ckpt" --max_seq_length=128 \
  --train_batch_size=32 --learning_rate=2e-5 --num_train_epochs=3.0 --output_dir="$OUT"

python "$CODE/run_classifier.py" \
  --task_name=MRPC --do_predict=true --data_dir="$GLUE_DIR/MRPC" \
  --vocab_file="$BERT_BASE_DIR/vocab.txt" --bert_config_file="$BERT_BASE_DIR/bert_config.json" \
  --init_checkpoint="$OUT" --max_seq_length=128 --output_dir="$OUT/predictions"
